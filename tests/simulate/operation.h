/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's call of one part of the plan: its buffers, the call itself, and whether the result
 * is right. */
#ifndef TT_SIMULATE_OPERATION_H
#define TT_SIMULATE_OPERATION_H

#include "plan.h"

struct operation {
	struct part part;
	int rank, size, root, peer;
	bool idle; /* a message to oneself, which is possible in groups only */
	size_t element;
	char *send_block, *recv_block; /* allocated; one of them NULL in place */
	bool send_mapped, recv_mapped;
	void *send, *recv;		     /* what the call is given */
	size_t send_capacity, recv_capacity; /* elements */
	/* in the forms with counts */
	size_t send_counts[RANKS_MAX], recv_counts[RANKS_MAX];
	size_t send_displs[RANKS_MAX], recv_displs[RANKS_MAX];
};

/* Buffers filled; `mapped`: memory that peers can map, if it can be had. */
void operation_prepare(struct operation *op, const struct part *part, int rank, int size,
		       bool grouped, bool mapped);
/* TUTTI_OK without a call where this rank takes no part. */
tutti_result_t operation_call(const struct operation *op, tutti_comm_t comm, tutti_op_t op_last,
			      tutti_request_t *request);
/* What is wrong with the result, NULL if nothing is. Static. */
const char *operation_check(const struct operation *op);
void operation_finish(struct operation *op);
/* The function behind OP_LAST. */
void operation_last(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context);

#endif
