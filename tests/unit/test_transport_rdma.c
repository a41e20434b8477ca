/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on RDMA, where this machine has a device: tests/rdma has
 * hosts with one. The kernel is asked whether anything of a device is left afterwards. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

#include "adapter.h"
#include "device.h"
#include "log.h"
#include "rdma.h"
#include "registration.h"
#include "transport_suite.h"

/* ---- what this process holds of RDMA devices, as the kernel counts it */

#define DEVICES_MAX 16

/* A dump of them, the table in it, and one of its entries. */
static const struct kind {
	const char *name;
	int command, table, entry;
} kinds[] = {
	{ "contexts", RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX,
	  RDMA_NLDEV_ATTR_RES_CTX_ENTRY },
	{ "protection domains", RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD,
	  RDMA_NLDEV_ATTR_RES_PD_ENTRY },
	{ "memory regions", RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR,
	  RDMA_NLDEV_ATTR_RES_MR_ENTRY },
	{ "completion queues", RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ,
	  RDMA_NLDEV_ATTR_RES_CQ_ENTRY },
	{ "queue pairs", RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP,
	  RDMA_NLDEV_ATTR_RES_QP_ENTRY },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct question {
	struct nl_sock *socket;
	uint32_t devices[DEVICES_MAX];
	int ndevices;
	const struct kind *kind;
	int count; /* of the kind, on all devices */
};

/* The kernel names the thread that made it, as long as that lives; what is its own has a name
 * instead. */
static bool is_ours(struct nlattr *entry)
{
	struct nlattr *owner = nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_PID);
	char path[64];

	if (nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_KERN_NAME))
		return false;
	if (!owner)
		return true;
	snprintf(path, sizeof(path), "/proc/self/task/%u", nla_get_u32(owner));
	return access(path, F_OK) == 0;
}

static int take_device(struct nl_msg *message, void *argument)
{
	struct question *q = argument;
	struct nlattr *index = nlmsg_find_attr(nlmsg_hdr(message), 0, RDMA_NLDEV_ATTR_DEV_INDEX);

	if (index && q->ndevices < DEVICES_MAX)
		q->devices[q->ndevices++] = nla_get_u32(index);
	return NL_OK;
}

static int take_entries(struct nl_msg *message, void *argument)
{
	struct question *q = argument;
	struct nlattr *table = nlmsg_find_attr(nlmsg_hdr(message), 0, q->kind->table), *entry;
	int left;

	if (table)
		nla_for_each_nested(entry, table, left) q->count +=
			nla_type(entry) == q->kind->entry && is_ours(entry);
	return NL_OK;
}

/* Everything that `command` dumps, of one device or (NULL) of all; 0, or libnl's error. */
static int ask(struct question *q, int command, const uint32_t *device, nl_recvmsg_msg_cb_t take)
{
	struct nl_msg *message =
		nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_DUMP);
	int error = message ? 0 : -NLE_NOMEM;

	if (!error && device)
		error = nla_put_u32(message, RDMA_NLDEV_ATTR_DEV_INDEX, *device);
	if (!error)
		error = nl_send_auto(q->socket, message);
	nlmsg_free(message);
	nl_socket_modify_cb(q->socket, NL_CB_VALID, NL_CB_CUSTOM, take, q);
	return error < 0 ? error : nl_recvmsgs_default(q->socket);
}

static int ask_all(struct question *q, char *out, size_t capacity)
{
	size_t used = 0;
	int error = nl_connect(q->socket, NETLINK_RDMA);

	snprintf(out, capacity, "nothing");
	if (!error)
		error = ask(q, RDMA_NLDEV_CMD_GET, NULL, take_device);
	for (size_t k = 0; k < KINDS && !error; k++) {
		q->kind = &kinds[k];
		q->count = 0;
		for (int i = 0; i < q->ndevices && !error; i++)
			error = ask(q, kinds[k].command, &q->devices[i], take_entries);
		if (q->count > 0 && used < capacity)
			used += (size_t)snprintf(out + used, capacity - used, "%s%d %s",
						 used ? ", " : "", q->count, kinds[k].name);
	}
	return error;
}

/* What `rdma resource show` of iproute2 lists: "1 contexts, 2 queue pairs", or "nothing"; or why
 * the kernel does not say. */
static void rdma_held(char *out, size_t capacity)
{
	struct question q = { .socket = nl_socket_alloc() };
	const int error = q.socket ? ask_all(&q, out, capacity) : -NLE_NOMEM;

	if (error)
		snprintf(out, capacity, "the kernel does not say what is held: %s",
			 nl_geterror(error));
	nl_socket_free(q.socket);
}

/* ---- the device */

static const char *device;
static struct rdma_adapter *kept;
static pid_t reaper;

/* The device stays open in between: closing it would give back what had been forgotten. */
static void held(char *out, size_t capacity)
{
	if (reaper != getpid() && tt_rdma_adapter_get(device, &kept)) {
		fprintf(stderr, "%s\n", tt_thread_error());
		abort();
	}
	reaper = getpid();
	/* callers' memory may stay registered as long as the device is open, if nobody uses it
	 * any more */
	tt_rdma_registrations_close(kept);
	tt_rdma_registrations_open(kept);
	rdma_held(out, capacity);
}

/* Of the kernel's word, without which no leak would have been noticed. */
static int expect(const char *what, const char *expected)
{
	char found[256];

	rdma_held(found, sizeof(found));
	if (strcmp(found, expected) == 0)
		return 0;
	fprintf(stderr, "of %s the kernel tells \"%s\", expected \"%s\"\n", what, found, expected);
	return 1;
}

int main(void)
{
	const struct suite_options options = { .threads = true, .processes = true, .held = held };
	struct rdma_port ports[RDMA_PORTS_MAX];
	struct rdma_settings settings;
	char why[RDMA_WHY_MAX];
	int n;

	if (tt_rdma_settings_read(&settings) ||
	    tt_rdma_ports(&tt_rdma_here, &settings, ports, &n, why)) {
		fprintf(stderr, "%s\n", tt_thread_error());
		return 1;
	}
	if (n == 0) {
		printf("%s\n", why);
		return 77;
	}
	device = ports[0].device;
	/* what a message leaves is unmapped, and the next one's memory is likely to be at the same
	 * place */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	int failed = transport_suite_run(&tt_transport_rdma, &options);
	failed += expect("an open device", "1 contexts, 1 protection domains");
	tt_rdma_adapter_put(kept);
	return failed + expect("a closed device", "nothing");
}
