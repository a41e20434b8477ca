/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's call of one part of the plan: its buffers, the call itself, and whether the result
 * is right. */
#ifndef TT_SIMULATE_OPERATION_H
#define TT_SIMULATE_OPERATION_H

#include "calls/call.h"
#include "plan.h"

struct operation {
	struct part part;
	struct call call;
	bool idle; /* a message to oneself, which is possible in groups only */
};

/* Buffers filled. */
void operation_prepare(struct operation *op, const struct part *part, int rank, int size,
		       bool grouped, const struct plan *plan);
/* TUTTI_OK without a call where this rank takes no part. `op_last` stands for OP_LAST. */
tutti_result_t operation_call(struct operation *op, tutti_comm_t comm, tutti_op_t op_last,
			      tutti_request_t *request);
/* False: `why` says what is wrong with the result. */
bool operation_check(struct operation *op, char why[CALL_TEXT]);
/* Gives back memory that peers map. What other memory they were passed they may still read: it is
 * given back by call_finish(). */
void operation_unmap(struct operation *op);

#endif
