/* SPDX-License-Identifier: BSD-3-Clause */
/* How a communicator ends: by a fault that all ranks return. */
#ifndef TT_FAULT_H
#define TT_FAULT_H

#include "comm.h"
#include "device_table.h"
#include "log.h"

/* Memory for what follows; false: there is none. */
bool tt_comm_fault_open(struct tutti_comm *comm);
void tt_comm_fault_free(struct tutti_comm *comm);
/* End the communicator, here and on every rank, unless it knows of a fault already. Lock held. */
void tt_comm_revoke(struct tutti_comm *comm, const struct tt_fault *fault);
/* There is a fault: take `fault` instead if it is better, and tell the others, unless they have agreed
 * by now. Lock held. */
void tt_comm_improve(struct tutti_comm *comm, const struct tt_fault *fault);
/* The transports have joined: how are ranks to agree on a fault? */
void tt_comm_choose_settling(struct tutti_comm *comm);
/* Is there a fault, is it that of all ranks, and may callers be told? Lock held. */
bool tt_comm_is_settled(struct tutti_comm *comm);
/* There is a fault: when it is, in nanoseconds of tt_now(). */
uint64_t tt_comm_settles_at(const struct tutti_comm *comm);
/* If there is a fault, take it as it is, for a rank that leaves and waits for nobody. */
void tt_comm_agree_now(struct tutti_comm *comm);
/* There is a fault: wait until it is agreed, and give its result. Lock held, but not all the
 * time. */
tutti_result_t tt_comm_agreed_error(struct tutti_comm *comm);
/* TUTTI_OK, or the result of the fault. Lock likewise. */
static inline tutti_result_t tt_comm_outcome(struct tutti_comm *comm)
{
	if (__builtin_expect(comm->cuda != NULL, 0))
		tt_device->learn(comm);
	return __builtin_expect(comm->fault.result != 0, 0) ? tt_comm_agreed_error(comm) : TUTTI_OK;
}
/* `result`, of an operation or of what is agreed, is returned to the caller: the error message is the
 * thread's, too. Lock held. */
static inline tutti_result_t tt_comm_report(const struct tutti_comm *comm, tutti_result_t result)
{
	if (__builtin_expect(result != 0, 0))
		tt_thread_error_set(comm->fault.text);
	return result;
}
/* What a call returns that is made now: TUTTI_OK, or the fault. Lock as above. */
static inline tutti_result_t tt_comm_state(struct tutti_comm *comm)
{
	return tt_comm_report(comm, tt_comm_outcome(comm));
}
/* The same for a result of a lower layer, with the thread's error message. About this rank, or for
 * TUTTI_ERR_PEER_LOST about comm->routes.failed_peer. */
void tt_comm_revoke_for(struct tutti_comm *comm, tutti_result_t result);
/* Is another rank known to be gone, or to have left? Lock held. */
static inline bool tt_comm_has_lost(const struct tutti_comm *comm, int rank)
{
	struct tt_endpoint *endpoint = comm->endpoints[comm->routes.via[rank]];

	return endpoint->ops->control->lost(endpoint, rank);
}
/* Learn of faults that transports know. Lock held. */
void tt_comm_check(struct tutti_comm *comm, bool thorough);

#endif
