/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about RDMA devices and their ports, as the kernel lists them, and which of
 * them the library would use. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

#include "files.h"
#include "sections.h"

/* "4: ACTIVE" */
static char *after_number(char *text)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	char *word = colon ? strdup(colon + 1 + strspn(colon + 1, " ")) : NULL;

	if (word) {
		free(text);
		return word;
	}
	return text;
}

/* What the library says of a port; NULL: nothing. */
static json_t *view_of(const tutti_rdma_port_t *port)
{
	json_t *view = json_object();
	const bool has_gid = port && port->gid_index >= 0;
	char text[256] = "the library has not looked at it";

	value_number_if(view, "speed_mbit", port && port->speed_mbit > 0,
			port ? port->speed_mbit : 0);
	value_number_if(view, "numa_node", port && port->numa_node >= 0,
			port ? port->numa_node : 0);
	value_number_if(view, "gid_index", has_gid, has_gid ? port->gid_index : 0);
	if (has_gid)
		inet_ntop(AF_INET6, port->gid, text, sizeof(text));
	value_text(view, "gid", has_gid ? text : NULL);
	value_text(view, "gid_kind", has_gid ? port->gid_kind : NULL);
	value_bool(view, "usable", port && port->used);
	if (port && port->used)
		snprintf(text, sizeof(text), "usable: it is active and has a GID that fits");
	else if (port)
		snprintf(text, sizeof(text), "not usable: it %s", port->why_not);
	value_text(view, "reason", text);
	return view;
}

/* What is gathered from the library: views by "DEVICE/PORT", and the names of the ports that it
 * would use. */
struct views {
	json_t *by_name, *usable;
};

static void gather(const tutti_rdma_port_t *port, void *context)
{
	struct views *views = context;
	char name[128];

	snprintf(name, sizeof(name), "%s/%d", port->device, port->port);
	json_object_set_new(views->by_name, name, view_of(port));
	snprintf(name, sizeof(name), "%s port %d", port->device, port->port);
	if (port->used)
		json_array_append_new(views->usable, json_string(name));
}

static void put_view(json_t *entry, const struct views *views, const char *device, const char *port)
{
	json_t *none = view_of(NULL);
	char name[128];

	snprintf(name, sizeof(name), "%s/%s", device, port);
	json_t *view = json_object_get(views->by_name, name);
	json_object_update(entry, view ? view : none);
	json_decref(none);
}

static void put_mtu(json_t *entry, const char *device, const char *port)
{
	int bytes = 0;
	const bool known =
		files_are_here() && tutti_rdma_mtu(device, atoi(port), &bytes) == TUTTI_OK;

	value_number_if(entry, "mtu", known, bytes);
}

static json_t *describe_port(const struct views *views, const char *device, const char *port)
{
	json_t *entry = value_section();
	char at[600];

	snprintf(at, sizeof(at), "sys/class/infiniband/%s/ports/%s", device, port);
	char *state = after_number(files_read("%s/state", at));
	const bool active = state && strcmp(state, "ACTIVE") == 0;

	value_number(entry, "name", atoi(port));
	value_take_text(entry, "state", state);
	value_take_text(entry, "physical_state", after_number(files_read("%s/phys_state", at)));
	value_take_text(entry, "link_layer", files_read("%s/link_layer", at));
	value_take_text(entry, "rate", files_read("%s/rate", at));
	put_mtu(entry, device, port);
	value_take_text(entry, "interface", files_read("%s/gid_attrs/ndevs/0", at));
	if (!active)
		value_hint(entry, "state",
			   "the port carries nothing until it is ACTIVE: check the cable, and that "
			   "its interface is up (ip link) or a subnet manager runs");
	put_view(entry, views, device, port);
	return entry;
}

/* Whether it could show memory of GPUs to its network; null: not known. */
static void put_dmabuf(json_t *entry, const char *device)
{
	const bool here = files_are_here();
	const tutti_result_t result = here ? tutti_rdma_dmabuf(device) : TUTTI_OK;
	const char *reason = "it and the kernel register dma-bufs, such as memory of GPUs";

	if (!here)
		reason = "not asked: the device is not of this machine";
	else if (result)
		reason = tutti_last_error(NULL);
	json_object_set_new(entry, "dmabuf",
			    here && (!result || result == TUTTI_ERR_UNSUPPORTED)
				    ? json_boolean(!result)
				    : json_null());
	value_text(entry, "dmabuf_reason", reason);
}

static json_t *describe_device(const struct views *views, const char *name)
{
	json_t *entry = json_object();
	char **ports = files_list("sys/class/infiniband/%s/ports", name);

	value_text(entry, "name", name);
	value_take_text(entry, "node_type",
			after_number(files_read("sys/class/infiniband/%s/node_type", name)));
	value_take_text(entry, "driver",
			files_read_link("sys/class/infiniband/%s/device/driver", name));
	value_take_text(entry, "firmware", files_read("sys/class/infiniband/%s/fw_ver", name));
	put_dmabuf(entry, name);
	json_t *list = value_list(entry, "ports");
	for (char **port = ports; port && *port; port++)
		json_array_append_new(list, describe_port(views, name, *port));
	files_free_list(ports);
	return entry;
}

json_t *section_rdma(void)
{
	json_t *section = value_section();
	char **devices = files_list("sys/class/infiniband");
	json_t *list = value_list(section, "devices");
	struct views views = { .by_name = json_object(),
			       .usable = value_list(section, "usable_ports") };

	if (tutti_rdma_ports(files_root(), gather, &views) != TUTTI_OK)
		value_hint(section, "usable_ports", "%s", tutti_last_error(NULL));
	for (char **device = devices; device && *device; device++)
		json_array_append_new(list, describe_device(&views, *device));
	files_free_list(devices);
	json_decref(views.by_name);
	return section;
}
