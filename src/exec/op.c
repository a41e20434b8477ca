/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the life of operations: the free list, the list of those in flight, their end. */
#include "op_life.h"

#include <stdlib.h>

#include "log.h"
#include "memory.h"
#include "request.h"

struct tt_op *tt_op_alloc(void)
{
	struct tt_op *op = calloc(1, sizeof(*op));

	if (!op)
		tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "no memory for an operation");
	return op;
}

void tt_op_queue(struct tutti_comm *comm, struct tt_op *op)
{
	op->prev = comm->last;
	if (comm->last)
		comm->last->next = op;
	else
		comm->first = op;
	comm->last = op;
}

void tt_op_end_buffers(struct tt_op *op, tutti_result_t result)
{
	if (result && op->granted) /* a peer that does not know of the failure yet may still be
				 * writing */
		tt_heap_revoke(op->recv, tt_layout_extent(&op->plan->recv, op->element));
	if (op->wide && !result)
		op->comm->kernels->narrow[op->plan->wire].unpack(op->wide, op->recv,
								 op->plan->call.count);
}

void tt_op_retire(struct tutti_comm *comm, struct tt_op *op, tutti_result_t result)
{
	struct tutti_request *request = op->request;

	*(op->prev ? &op->prev->next : &comm->first) = op->next;
	*(op->next ? &op->next->prev : &comm->last) = op->prev;
	tt_op_end(op, result);
	tt_request_op_done(request, result);
}

void tt_recorder_forget(struct tt_op *op)
{
	static struct tt_flight_op nobody; /* number 0 is no operation's */

	op->record = &nobody;
	op->record_number = 1;
	op->recorded = TT_RECORDED_MOVED;
}

bool tt_ops_use(const struct tutti_comm *comm, const struct tt_plan *plan)
{
	for (const struct tt_op *op = comm->first; op; op = op->next)
		if (op->plan == plan)
			return true;
	return false;
}

static void op_free(struct tt_op *op)
{
	free(op->window_call);
	free(op->cursors);
	free(op->seg_round);
	free(op->seg_left);
	free(op->sources);
	free(op->targets);
	free(op->scratch);
	free(op->input);
	free(op);
}

void tt_ops_end(struct tutti_comm *comm)
{
	while (comm->first)
		tt_op_retire(comm, comm->first, TUTTI_ERR_ABORTED);
}

void tt_ops_free(struct tutti_comm *comm)
{
	tt_ops_end(comm);
	while (comm->spare) {
		struct tt_op *op = comm->spare;

		comm->spare = op->next;
		op_free(op);
	}
}
