/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the questions to the kernel, over netlink. */
#include "test_rdma_held.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

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

void rdma_held(char *out, size_t capacity)
{
	struct question q = { .socket = nl_socket_alloc() };
	const int error = q.socket ? ask_all(&q, out, capacity) : -NLE_NOMEM;

	if (error)
		snprintf(out, capacity, "the kernel does not say what is held: %s",
			 nl_geterror(error));
	nl_socket_free(q.socket);
}
