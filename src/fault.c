/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how a communicator ends: the first fault is kept, told to all peers, and returned by every operation. */
#include <stdio.h>
#include <string.h>

#include "comm.h"
#include "log.h"

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
}

void tt_comm_revoke_for(struct tutti_comm *comm, tutti_result_t result, int rank)
{
	struct tt_fault fault = { .result = result, .rank = rank };

	snprintf(fault.text, sizeof(fault.text), "%s",
		 *tt_thread_error() ? tt_thread_error() : tutti_strerror(result));
	/* a peer that is gone may have said why */
	tt_comm_look(comm, false);
	tt_comm_revoke(comm, &fault);
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
