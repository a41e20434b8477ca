/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about RDMA devices and their ports, as the kernel lists them. */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "sections.h"
#include "value.h"

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

static json_t *describe_port(const char *device, const char *port)
{
	json_t *entry = value_section();
	char *state =
		after_number(files_read("sys/class/infiniband/%s/ports/%s/state", device, port));
	const bool active = state && strcmp(state, "ACTIVE") == 0;

	value_number(entry, "name", atoi(port));
	value_text(entry, "state", state);
	value_take_text(entry, "physical_state",
			after_number(files_read("sys/class/infiniband/%s/ports/%s/phys_state",
						device, port)));
	value_take_text(entry, "link_layer",
			files_read("sys/class/infiniband/%s/ports/%s/link_layer", device, port));
	value_take_text(entry, "rate",
			files_read("sys/class/infiniband/%s/ports/%s/rate", device, port));
	value_take_text(
		entry, "interface",
		files_read("sys/class/infiniband/%s/ports/%s/gid_attrs/ndevs/0", device, port));
	if (!active)
		value_hint(entry, "state",
			   "the port carries nothing until it is ACTIVE: check the cable, and that "
			   "its "
			   "interface is up (ip link) or a subnet manager runs");
	free(state);
	return entry;
}

static json_t *describe_device(const char *name)
{
	json_t *entry = json_object();
	char **ports = files_list("sys/class/infiniband/%s/ports", name);

	value_text(entry, "name", name);
	value_take_text(entry, "node_type",
			after_number(files_read("sys/class/infiniband/%s/node_type", name)));
	value_take_text(entry, "driver",
			files_read_link("sys/class/infiniband/%s/device/driver", name));
	value_take_text(entry, "firmware", files_read("sys/class/infiniband/%s/fw_ver", name));
	json_t *list = value_list(entry, "ports");
	for (char **port = ports; port && *port; port++)
		json_array_append_new(list, describe_port(name, *port));
	files_free_list(ports);
	return entry;
}

json_t *section_rdma(void)
{
	json_t *section = value_section();
	char **devices = files_list("sys/class/infiniband");
	json_t *list = value_list(section, "devices");

	for (char **device = devices; device && *device; device++)
		json_array_append_new(list, describe_device(*device));
	files_free_list(devices);
	return section;
}
