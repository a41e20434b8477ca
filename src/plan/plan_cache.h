/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans are kept by what the caller asked for, so that a repeated call builds nothing. */
#ifndef TT_PLAN_CACHE_H
#define TT_PLAN_CACHE_H

#include <string.h>

#include "comm.h"
#include "plan.h"

tutti_result_t tt_plan_find(struct tutti_comm *comm, const struct tt_call *call,
			    const struct tt_plan **out);
/* The plan of a call, from the cache or built; either way the call's arguments are checked. Lock
 * held. The plan lives while an operation in flight has it, or until the next call. */
static inline tutti_result_t tt_plan_get(struct tutti_comm *comm, const struct tt_call *call,
					 const struct tt_plan **out)
{
	const struct tt_plan *same = comm->last_plan;

	/* buffers may be wrong that are NULL, or that go with tables of counts */
	if (!same || memcmp(&same->call, call, TT_CALL_KEY) != 0 || !call->send || !call->recv ||
	    call->send_counts || call->recv_counts || same->call.send_counts ||
	    same->call.recv_counts)
		return tt_plan_find(comm, call, out);
	*out = same;
	return TUTTI_OK;
}
/* The table of counts that this rank's header of an operation stands for; at NULL: none, or its
 * plan is gone. Lock held. */
struct tt_counts tt_plans_counts(const struct tutti_comm *comm, const struct tt_op_header *header);
void tt_plans_free(struct tutti_comm *comm);
/* Drop the plans of a user's operation that is being freed. */
void tt_plans_forget_op(struct tutti_comm *comm, tutti_op_t op);

#endif
