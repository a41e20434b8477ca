/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the memory of communicators, and their links. */
#include "comm.h"

#include <stdlib.h>
#include <string.h>

#include "device_table.h"
#include "log.h"

#define LINE 64 /* of cache: comm.h has what belongs together in the same ones */

_Atomic bool tt_device_is_there;

tutti_result_t tt_comm_new(const struct tt_settings *settings, int rank, int size, uint64_t id,
			   struct tutti_comm **out)
{
	static _Atomic uint64_t made;
	struct tutti_comm *comm = aligned_alloc(LINE, (sizeof(*comm) + LINE - 1) / LINE * LINE);

	if (!comm)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for a communicator");
	memset(comm, 0, sizeof(*comm));
	comm->owner = tt_owner_here();
	comm->settings = *settings;
	comm->rank = rank;
	comm->size = size;
	comm->id = id;
	comm->serial = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
	comm->routes.failed_peer = -1;
	comm->next_seq = 1; /* a control area of zeros has posted nothing */
	comm->kernels = tt_kernels();
	tt_device->probe();
	pthread_mutex_init(&comm->lock, NULL);
	*out = comm;
	return TUTTI_OK;
}

tutti_result_t tt_comm_refuse(const struct tutti_comm *comm, const char *call)
{
	if (tt_callback_here())
		return tt_fail_callback(call);
	if (comm)
		return tt_fail_inherited(&comm->owner, call, "communicator");
	return tt_fail(TUTTI_ERR_INVALID, COMM, "%s: comm is NULL", call);
}

static void close_connections(struct tutti_comm *comm)
{
	struct tt_connection **connections = comm->routes.connections;

	for (int peer = 0; connections && peer < comm->size; peer++) {
		for (int channel = 0; connections[peer] && channel < TT_CHANNELS; channel++) {
			struct tt_link *link = connections[peer][channel].link;

			if (link)
				link->ops->close(link);
		}
		free(connections[peer]);
	}
	free(connections);
}

void tt_comm_free(struct tutti_comm *comm)
{
	close_connections(comm);
	for (int i = 0; i < comm->nendpoints; i++) {
		comm->endpoints[i]->ops->destroy(comm->endpoints[i]);
		free(comm->routes.addresses[i]);
		free(comm->routes.peers[i]);
	}
	tt_device->free(comm); /* links may have had its memory registered */
	free(comm->routes.via);
	free(comm->topology.host);
	free(comm->topology.domain);
	free(comm->p2p_seq[0]);
	free(comm->p2p_seq[1]);
	free(comm->joining.records);
	free(comm->joining.places);
	free(comm->user_ops);
	tt_key_wipe(&comm->settings.key);
	free(comm);
}

tutti_result_t tt_comm_connect(struct tutti_comm *comm, int peer, enum tt_channel channel)
{
	struct tt_connection **with = &comm->routes.connections[peer];
	struct tt_endpoint *endpoint = comm->endpoints[comm->routes.via[peer]];

	if (!*with)
		*with = calloc(TT_CHANNELS, sizeof(**with));
	const tutti_result_t result =
		*with ? endpoint->ops->connect(endpoint, peer, channel, &(*with)[channel].link)
		      : tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
				"no memory for a connection with rank %d", peer);
	if (result)
		comm->routes.failed_peer = peer;
	return result;
}

TUTTI_API int tutti_comm_rank(tutti_comm_t comm)
{
	return comm ? comm->rank : -1;
}

TUTTI_API int tutti_comm_size(tutti_comm_t comm)
{
	return comm ? comm->size : -1;
}

TUTTI_API double tutti_comm_timeout(tutti_comm_t comm)
{
	return comm ? (double)comm->settings.timeout_ns / 1e9 : -1;
}

TUTTI_API int tutti_comm_local_rank(tutti_comm_t comm)
{
	return comm ? comm->topology.local_rank : -1;
}

TUTTI_API int tutti_comm_local_size(tutti_comm_t comm)
{
	return comm ? comm->topology.local_size : -1;
}
