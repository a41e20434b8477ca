/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the loading of libibverbs, which stays loaded, and sees that a child of fork() gets
 * nothing of devices: its descriptors are noted like all others (fork.h), and what it maps of
 * them is not inherited. With either of them a child would keep alive what its parent made
 * there, queue pairs and pinned memory, after that has gone. */
#include "verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fork.h"
#include "library.h"
#include "log.h"

#define FUNCTION(name)                                                                             \
	{                                                                                          \
		"ibv_" #name, offsetof(struct rdma_verbs, name), false                             \
	}
#define NEWER(name)                                                                                \
	{                                                                                          \
		"ibv_" #name, offsetof(struct rdma_verbs, name), true                              \
	}
static const struct tt_function functions[] = {
	FUNCTION(fork_init),
	FUNCTION(get_device_list),
	FUNCTION(free_device_list),
	FUNCTION(get_device_name),
	FUNCTION(open_device),
	FUNCTION(close_device),
	FUNCTION(query_device),
	FUNCTION(query_port),
	FUNCTION(alloc_pd),
	FUNCTION(dealloc_pd),
	FUNCTION(reg_mr),
	FUNCTION(dereg_mr),
	FUNCTION(create_comp_channel),
	FUNCTION(destroy_comp_channel),
	FUNCTION(create_cq),
	FUNCTION(destroy_cq),
	FUNCTION(get_cq_event),
	FUNCTION(ack_cq_events),
	FUNCTION(create_qp),
	FUNCTION(modify_qp),
	FUNCTION(destroy_qp),
	FUNCTION(wc_status_str),
	NEWER(is_fork_initialized),
	NEWER(reg_dmabuf_mr),
};
#undef NEWER
#undef FUNCTION

static const struct tt_library library = {
	.names = { "libibverbs.so.1" },
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

static struct rdma_verbs verbs;	     /* as it is called */
static struct rdma_verbs theirs;     /* as it is in the library */
static char trouble[TT_LIBRARY_WHY]; /* why there are none */
static bool loaded;

/* ---- what children do not get */

static bool mapped; /* something since the last fork(); under tt_fd_hold() */

/* libibverbs maps what the provider asks for, and tells nobody where. The kernel's list does,
 * which has a line for each mapping, and there are some of each queue pair: so it is read before
 * a fork(), and not whenever a queue pair is made. Best effort. */
static void keep_mappings(void)
{
	FILE *maps = mapped ? fopen("/proc/self/maps", "re") : NULL;
	char *line = NULL;
	size_t capacity = 0;
	uintptr_t begin, end;

	if (!maps)
		return;
	while (getline(&line, &capacity, maps) > 0)
		if (strstr(line, " /dev/infiniband/") &&
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2)
			madvise((void *)begin, end - begin, MADV_DONTFORK);
	mapped = false;
	free(line);
	fclose(maps);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *of,
				struct ibv_comp_channel *channel, int vector)
{
	tt_fd_hold();
	struct ibv_cq *cq = theirs.create_cq(context, entries, of, channel, vector);
	mapped = true;
	tt_fd_let_go();
	return cq;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
	tt_fd_hold();
	struct ibv_qp *qp = theirs.create_qp(pd, attributes);
	mapped = true;
	tt_fd_let_go();
	return qp;
}

/* No child may begin while a device or a channel is half made or half gone. What cannot be noted
 * is closed, and -1 then. */
static int close_device(struct ibv_context *context)
{
	tt_fd_hold();
	tt_fd_forget(context->cmd_fd);
	tt_fd_forget(context->async_fd);
	const int error = theirs.close_device(context);
	tt_fd_let_go();
	return error;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	tt_fd_hold();
	struct ibv_context *context = theirs.open_device(device);
	if (context) {
		context->cmd_fd = tt_fd_add(context->cmd_fd);
		context->async_fd = tt_fd_add(context->async_fd);
		mapped = true;
	}
	tt_fd_let_go();
	if (!context || (context->cmd_fd >= 0 && context->async_fd >= 0))
		return context;
	close_device(context);
	errno = ENOMEM;
	return NULL;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	tt_fd_hold();
	tt_fd_forget(channel->fd);
	const int error = theirs.destroy_comp_channel(channel);
	tt_fd_let_go();
	return error;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	tt_fd_hold();
	struct ibv_comp_channel *channel = theirs.create_comp_channel(context);
	if (channel)
		channel->fd = tt_fd_add(channel->fd);
	tt_fd_let_go();
	if (!channel || channel->fd >= 0)
		return channel;
	destroy_comp_channel(channel);
	errno = ENOMEM;
	return NULL;
}

/* ---- loading */

static bool load(void)
{
	if (!tt_library_open(&library, &theirs, trouble))
		return false;
	verbs = theirs;
	verbs.open_device = open_device;
	verbs.close_device = close_device;
	verbs.create_cq = create_cq;
	verbs.create_qp = create_qp;
	verbs.create_comp_channel = create_comp_channel;
	verbs.destroy_comp_channel = destroy_comp_channel;
	tt_fork_watch(keep_mappings);
	/* Where the kernel does not copy what devices use when a process forks (before 5.12), a
	 * child gets none of it; too late if the program has used verbs before: then that is its
	 * own doing. Where it does, the library would keep it from children all the same once it
	 * was asked to. */
	if (!verbs.is_fork_initialized || verbs.is_fork_initialized() != VERBS_FORK_UNNEEDED)
		verbs.fork_init();
	return true;
}

const struct rdma_verbs *tt_rdma_verbs(void)
{
	/* what is missing may be there the next time, such as descriptors */
	loaded = loaded || load();
	if (loaded)
		return &verbs;
	tt_fail(TUTTI_ERR_UNSUPPORTED, RDMA, "no verbs: %s (Debian's package is libibverbs1)",
		trouble);
	return NULL;
}
