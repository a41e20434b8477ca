/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the choice of ports and GIDs, from what the kernel tells in sysfs. Ports and addresses
 * come and go while it is read: what cannot be read is not there. */
#include "device.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

#define GIDS_MAX 256 /* devices are told the index in 8 bits */
#define LOCAL	 10  /* what the kernel calls the distance of a node from itself */
#define FAR	 20  /* of two nodes of which it tells nothing */
#define LINE	 128

enum gid_kind { GID_NONE, GID_LINK_LOCAL, GID_IPV6, GID_IPV4 }; /* the better, the higher */
static const char *const kind_names[] = {
	[GID_LINK_LOCAL] = "link-local", [GID_IPV6] = "IPv6", [GID_IPV4] = "IPv4"
};

struct look {
	const struct rdma_sources *from;
	const struct rdma_settings *settings;
	struct rdma_survey *out;
	int capacity;
	int node;     /* the calling thread's */
	int shortage; /* an errno value; 0: there was none */
};

static void path_of(const struct look *look, char path[PATH_MAX], const char *format, va_list args)
{
	const int n = snprintf(path, PATH_MAX, "%s/", look->from->sys);

	if (n > 0 && n < PATH_MAX)
		vsnprintf(path + n, (size_t)(PATH_MAX - n), format, args);
}

/* The first line of a file; false, and "", if it cannot be read. */
static bool read_line(struct look *look, char line[LINE], const char *format, ...)
{
	char path[PATH_MAX];
	ssize_t got = -1;
	va_list args;
	int fd;

	va_start(args, format);
	path_of(look, path, format, args);
	va_end(args);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		got = read(fd, line, LINE - 1);
	if (got < 0 && tt_errno_is_shortage(errno))
		look->shortage = errno;
	if (fd >= 0)
		close(fd);
	line[got > 0 ? got : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return got > 0;
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* The names in a directory, mlx5_2 before mlx5_10; freed by free_names(). */
static int list(struct look *look, struct dirent ***names, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	int count;

	va_start(args, format);
	path_of(look, path, format, args);
	va_end(args);
	count = scandir(path, names, visible, versionsort);
	if (count < 0 && tt_errno_is_shortage(errno))
		look->shortage = errno;
	return count;
}

static void free_names(struct dirent **names, int count)
{
	for (int i = 0; i < count; i++)
		free(names[i]);
	if (count >= 0)
		free(names);
}

/* "4: ACTIVE" */
static const char *after_number(const char *line)
{
	const char *colon = strchr(line, ':');

	return colon ? colon + 1 + strspn(colon + 1, " ") : line;
}

/* "2.5 Gb/sec (1X SDR)" */
static uint32_t mbits_of(const char *rate)
{
	char *end;
	uint32_t mbits = (uint32_t)strtoul(rate, &end, 10) * 1000;

	if (end[0] == '.' && end[1] >= '0' && end[1] <= '9')
		mbits += (uint32_t)(end[1] - '0') * 100;
	return mbits;
}

/* The kernel lists the distances of the nodes that are there, in their order. */
static int distance_of(struct look *look, int node)
{
	char line[LINE], path[PATH_MAX], *at = line;
	int place = 0;

	if (node < 0 || look->node < 0 || node == look->node)
		return LOCAL;
	for (int i = 0; i < node; i++) {
		snprintf(path, sizeof(path), "%s/devices/system/node/node%d", look->from->sys, i);
		place += access(path, F_OK) == 0;
	}
	read_line(look, line, "devices/system/node/node%d/distance", look->node);
	for (; place > 0; place--) {
		at += strcspn(at, " ");
		at += strspn(at, " ");
	}
	return *at ? atoi(at) : FAR;
}

static bool is_link_local(const uint8_t gid[16])
{
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid))
		return gid[12] == 169 && gid[13] == 254;
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid);
}

static enum gid_kind kind_of(const uint8_t gid[16])
{
	if (is_link_local(gid))
		return GID_LINK_LOCAL;
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid) ? GID_IPV4 : GID_IPV6;
}

/* A GID of RoCE is an IP address of an interface, but one that a card makes itself of its MAC
 * address. */
static int network_of(const struct look *look, const char *netdev, const uint8_t gid[16])
{
	if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid))
		return 64;
	return look->from->network(netdev, gid);
}

/* One GID of a table: false if the table ends before it. An entry that is not in use has zeros. */
static bool read_gid(struct look *look, const struct rdma_port *port, int index, uint8_t gid[16])
{
	char line[LINE];

	return read_line(look, line, "class/infiniband/%s/ports/%d/gids/%d", port->device,
			 port->number, index) &&
	       inet_pton(AF_INET6, line, gid) == 1;
}

static bool is_unused(const uint8_t gid[16])
{
	return IN6_IS_ADDR_UNSPECIFIED((const struct in6_addr *)gid);
}

/* What GID `index` is good for on Ethernet, and its type. */
static enum gid_kind judge(struct look *look, struct rdma_found *found, int index,
			   const uint8_t gid[16], int *prefix, char type[LINE])
{
	const struct rdma_port *port = &found->port;
	char netdev[LINE], text[INET6_ADDRSTRLEN];

	if (is_unused(gid) ||
	    !read_line(look, type, "class/infiniband/%s/ports/%d/gid_attrs/types/%d", port->device,
		       port->number, index))
		return GID_NONE;
	if (strcmp(type, "RoCE v2") != 0) {
		if (look->settings->gid >= 0)
			snprintf(
				found->why, sizeof(found->why),
				"has as GID %d, which TUTTI_RDMA_GID asks for, one of %.32s: expected RoCE v2",
				index, type);
		return GID_NONE;
	}
	read_line(look, netdev, "class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d", port->device,
		  port->number, index);
	*prefix = network_of(look, netdev, gid);
	if (*prefix >= 0)
		return kind_of(gid);
	inet_ntop(AF_INET6, gid, text, sizeof(text));
	snprintf(found->why, sizeof(found->why),
		 "has GID %d of %s, an address that no interface has here", index, text);
	return GID_NONE;
}

static void take_gid(struct rdma_found *found, int index, const uint8_t gid[16], int prefix,
		     const char *kind)
{
	found->port.gid_index = index;
	memcpy(found->port.gid, gid, 16);
	found->port.prefix = (uint8_t)prefix;
	found->kind = kind;
}

/* The best GID of RoCE v2, of all or of the one that is asked for. */
static void choose_roce(struct look *look, struct rdma_found *found)
{
	const int asked = look->settings->gid;
	char type[LINE], other[LINE] = "";
	enum gid_kind best = GID_NONE;
	uint8_t gid[16];
	int prefix;

	for (int i = asked >= 0 ? asked : 0; i < GIDS_MAX && best < GID_IPV4; i++) {
		if (!read_gid(look, &found->port, i, gid))
			break;
		type[0] = '\0';
		const enum gid_kind kind = judge(look, found, i, gid, &prefix, type);

		if (kind > best)
			take_gid(found, i, gid, prefix, kind_names[best = kind]);
		if (type[0] && strcmp(type, "RoCE v2") != 0)
			memcpy(other, type, sizeof(other));
		if (asked >= 0)
			break;
	}
	if (best != GID_NONE || found->why[0])
		return;
	if (asked >= 0)
		snprintf(found->why, sizeof(found->why),
			 "has no GID %d, which TUTTI_RDMA_GID asks for", asked);
	else if (other[0])
		snprintf(found->why, sizeof(found->why), "has no GID of RoCE v2, only of %.32s",
			 other);
	else
		snprintf(found->why, sizeof(found->why),
			 "has no GID: give its interface an IP address");
}

static void choose_infiniband(struct look *look, struct rdma_found *found)
{
	const int index = look->settings->gid >= 0 ? look->settings->gid : 0;
	char line[LINE];
	uint8_t gid[16];

	found->port.infiniband = true;
	if (read_line(look, line, "class/infiniband/%s/ports/%d/lid", found->port.device,
		      found->port.number))
		found->port.lid = (uint16_t)strtoul(line, NULL, 16);
	if (read_gid(look, &found->port, index, gid) && !is_unused(gid))
		take_gid(found, index, gid, 64, "InfiniBand");
	else
		snprintf(found->why, sizeof(found->why), "has no GID %d%s", index,
			 look->settings->gid >= 0 ? ", which TUTTI_RDMA_GID asks for" : "");
}

static const char *advice(const char *state, const char *layer)
{
	if (strcmp(layer, "InfiniBand") == 0 && strcmp(state, "DOWN") != 0)
		return "a subnet manager must run";
	return "check the cable, and that its interface is up (ip link)";
}

static bool is_left_out(const struct look *look, struct rdma_found *found)
{
	const struct rdma_settings *s = look->settings;

	if (s->device[0] && strcmp(s->device, found->port.device) != 0)
		snprintf(found->why, sizeof(found->why), "is left out by TUTTI_RDMA_DEVICE");
	else if (s->port && s->port != found->port.number)
		snprintf(found->why, sizeof(found->why), "is left out by TUTTI_RDMA_PORT");
	found->left_out = found->why[0] != '\0';
	return found->left_out;
}

/* Finds its GID, or why there is none. */
static void examine(struct look *look, struct rdma_found *found)
{
	const struct rdma_port *port = &found->port;
	char type[LINE], state[LINE], layer[LINE];

	if (is_left_out(look, found))
		return;
	if (read_line(look, type, "class/infiniband/%s/node_type", port->device) &&
	    strcmp(after_number(type), "CA") != 0) {
		snprintf(found->why, sizeof(found->why),
			 "is of type %.32s, which does not speak InfiniBand or RoCE",
			 after_number(type));
		return;
	}
	read_line(look, layer, "class/infiniband/%s/ports/%d/link_layer", port->device,
		  port->number);
	read_line(look, state, "class/infiniband/%s/ports/%d/state", port->device, port->number);
	if (strcmp(after_number(state), "ACTIVE") != 0)
		snprintf(found->why, sizeof(found->why), "is %.32s, expected ACTIVE: %s",
			 state[0] ? after_number(state) : "gone",
			 advice(after_number(state), layer));
	else if (strcmp(layer, "InfiniBand") == 0)
		choose_infiniband(look, found);
	else if (strcmp(layer, "Ethernet") == 0)
		choose_roce(look, found);
	else
		snprintf(found->why, sizeof(found->why),
			 "has link layer \"%.32s\", expected InfiniBand or Ethernet", layer);
}

static struct rdma_found *add(struct look *look)
{
	struct rdma_survey *s = look->out;

	if (s->count == look->capacity) {
		const int capacity = look->capacity ? 2 * look->capacity : 8;
		struct rdma_found *more = realloc(s->all, (size_t)capacity * sizeof(*more));

		if (!more) {
			look->shortage = ENOMEM;
			return NULL;
		}
		s->all = more;
		look->capacity = capacity;
	}
	s->all[s->count] = (struct rdma_found){ .port.gid_index = -1 };
	return &s->all[s->count++];
}

static void probe_port(struct look *look, const char *device, const char *number)
{
	struct rdma_found *found = add(look);
	char line[LINE];

	if (!found)
		return;
	snprintf(found->port.device, sizeof(found->port.device), "%.*s", RDMA_DEVICE_MAX - 1,
		 device);
	found->port.number = (uint8_t)atoi(number);
	found->port.node = read_line(look, line, "class/infiniband/%s/device/numa_node", device)
				   ? atoi(line)
				   : -1;
	if (read_line(look, line, "class/infiniband/%s/ports/%s/rate", device, number))
		found->port.mbits = mbits_of(line);
	found->distance = distance_of(look, found->port.node);
	examine(look, found);
}

static void probe_device(struct look *look, const char *device)
{
	struct dirent **ports;
	const int count = list(look, &ports, "class/infiniband/%s/ports", device);

	for (int i = 0; i < count; i++)
		probe_port(look, device, ports[i]->d_name);
	free_names(ports, count);
}

static int by_worth(const void *x, const void *y)
{
	const struct rdma_found *a = x, *b = y;
	int order;

	if (!a->kind != !b->kind)
		return a->kind ? -1 : 1;
	if (a->kind && a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	if (a->kind && a->port.mbits != b->port.mbits)
		return a->port.mbits > b->port.mbits ? -1 : 1;
	order = strverscmp(a->port.device, b->port.device);
	return order ? order : a->port.number - b->port.number;
}

__attribute__((format(printf, 2, 3))) static void say(char why[RDMA_WHY_MAX], const char *format,
						      ...)
{
	const size_t used = strlen(why);
	va_list args;

	va_start(args, format);
	if (vsnprintf(why + used, RDMA_WHY_MAX - used, format, args) >= (int)(RDMA_WHY_MAX - used))
		memcpy(why + RDMA_WHY_MAX - 4, "...", 4);
	va_end(args);
}

static void explain(const struct rdma_settings *settings, struct rdma_survey *s)
{
	int left_out = 0;

	for (int i = 0; i < s->count; i++) {
		const struct rdma_found *f = &s->all[i];

		left_out += f->left_out;
		if (!f->used && !f->left_out)
			say(s->why, "%s%s port %d %s", s->why[0] ? "; " : "", f->port.device,
			    f->port.number, f->why);
	}
	if (s->count == 0) {
		say(s->why, "this machine has no RDMA device: /sys/class/infiniband lists none");
	} else if (left_out == s->count) {
		say(s->why, "%s%s", settings->device[0] ? "TUTTI_RDMA_DEVICE is " : "",
		    settings->device);
		if (settings->port)
			say(s->why, "%sTUTTI_RDMA_PORT is %d", s->why[0] ? " and " : "",
			    settings->port);
		for (int i = 0; i < s->count; i++)
			say(s->why, "%s %s port %d", i ? "," : ": this machine has",
			    s->all[i].port.device, s->all[i].port.number);
	}
}

static void choose(struct rdma_survey *s)
{
	if (s->count > 0)
		qsort(s->all, (size_t)s->count, sizeof(*s->all), by_worth);
	for (int i = 0; i < s->count && s->all[i].kind; i++) {
		s->all[i].used = i < RDMA_PORTS_MAX;
		s->used += s->all[i].used;
		if (!s->all[i].used)
			snprintf(s->all[i].why, sizeof(s->all[i].why), "is not among the %d best",
				 RDMA_PORTS_MAX);
	}
}

tutti_result_t tt_rdma_survey_make(const struct rdma_sources *from,
				   const struct rdma_settings *settings, struct rdma_survey *out)
{
	struct rdma_survey made = { 0 };
	struct look look = { .from = from, .settings = settings, .out = &made };
	struct dirent **devices;
	const int count = list(&look, &devices, "class/infiniband");

	look.node = count > 0 ? from->node() : -1;
	for (int i = 0; i < count; i++)
		probe_device(&look, devices[i]->d_name);
	free_names(devices, count);
	if (look.shortage) {
		tt_rdma_survey_finish(&made);
		errno = look.shortage;
		return tt_fail_errno(RDMA, "list the RDMA devices in %s/class/infiniband",
				     from->sys);
	}
	choose(&made);
	explain(settings, &made);
	*out = made;
	return TUTTI_OK;
}

void tt_rdma_survey_finish(struct rdma_survey *survey)
{
	free(survey->all);
	*survey = (struct rdma_survey){ 0 };
}

tutti_result_t tt_rdma_ports(const struct rdma_sources *from, const struct rdma_settings *settings,
			     struct rdma_port ports[RDMA_PORTS_MAX], int *n, char why[RDMA_WHY_MAX])
{
	struct rdma_survey survey;
	const tutti_result_t result = tt_rdma_survey_make(from, settings, &survey);

	if (result)
		return result;
	for (int i = 0; i < survey.used; i++)
		ports[i] = survey.all[i].port;
	*n = survey.used;
	memcpy(why, survey.why, RDMA_WHY_MAX);
	tt_rdma_survey_finish(&survey);
	return TUTTI_OK;
}
