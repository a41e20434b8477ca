/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans are kept by what the caller asked for, so that a repeated call builds nothing. */
#ifndef TT_PLAN_CACHE_H
#define TT_PLAN_CACHE_H

#include "plan.h"

/* The plan of a call, from the cache or built; either way the call's arguments are checked. Lock
 * held. The plan lives while an operation in flight has it, or until the next call. */
tutti_result_t tt_plan_get(struct tutti_comm *comm, const struct tt_call *call,
			   const struct tt_plan **out);
/* The table of counts that this rank's header of an operation stands for; at NULL: none, or its
 * plan is gone. Lock held. */
struct tt_counts tt_plans_counts(const struct tutti_comm *comm, const struct tt_op_header *header);
void tt_plans_free(struct tutti_comm *comm);
/* Drop the plans of a user's operation that is being freed. */
void tt_plans_forget_op(struct tutti_comm *comm, tutti_op_t op);

#endif
