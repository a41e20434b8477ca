/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how a communicator ends: the first fault is kept, told to all peers, and returned by every operation. */
#include <stdio.h>
#include <string.h>

#include "comm.h"
#include "log.h"
#include "recorder.h"

void tt_comm_revoke(struct tutti_comm *comm, const struct tt_fault *fault)
{
	if (comm->fault.result)
		return;
	comm->fault = *fault;
	comm->fault.text[sizeof(comm->fault.text) - 1] = '\0';
	for (int i = 0; i < comm->nendpoints; i++) {
		struct tt_endpoint *endpoint = comm->endpoints[i];

		endpoint->ops->revoke(endpoint, &comm->fault);
		if (endpoint->fault.result) /* a peer was first: all ranks say the same */
			comm->fault = endpoint->fault;
	}
	tt_log(INFO, COMM, "rank %d: communicator revoked: %s", comm->rank, comm->fault.text);
	tt_recorder_report(comm);
}

void tt_comm_revoke_for(struct tutti_comm *comm, tutti_result_t result)
{
	const bool own = result == TUTTI_ERR_NO_MEMORY || result == TUTTI_ERR_SYSTEM;
	const char *text = *tt_thread_error() ? tt_thread_error() : tutti_strerror(result);
	struct tt_fault fault = { .result = result,
				  .rank = result == TUTTI_ERR_PEER_LOST ? comm->failed_peer : comm->rank };

	if (own) /* the sentence travels to ranks that must be told where it happened */
		snprintf(fault.text, sizeof(fault.text), "rank %d: %s", comm->rank, text);
	else
		snprintf(fault.text, sizeof(fault.text), "%s", text);
	/* a peer that is gone may have said why */
	tt_comm_look(comm, false);
	tt_comm_revoke(comm, &fault);
}

tutti_result_t tt_comm_give_up(struct tutti_comm *comm, tutti_result_t result)
{
	if (result == TUTTI_ERR_INVALID)
		return result;
	tt_comm_revoke_for(comm, result);
	tt_comm_progress(comm); /* what is in flight ends now */
	return (tutti_result_t)comm->fault.result; /* a peer's fault may have been first */
}

tutti_result_t tt_comm_fail(struct tutti_comm *comm, tutti_result_t result)
{
	pthread_mutex_lock(&comm->lock);
	result = tt_comm_give_up(comm, result);
	pthread_mutex_unlock(&comm->lock);
	return result;
}

void tt_comm_look(struct tutti_comm *comm, bool thorough)
{
	for (int i = 0; i < comm->nendpoints; i++) {
		struct tt_endpoint *endpoint = comm->endpoints[i];

		endpoint->ops->progress(endpoint, thorough);
		if (__builtin_expect(endpoint->fault.result != 0, 0))
			tt_comm_revoke(comm, &endpoint->fault);
	}
}
