/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the life of operations: the free list, the list of those in flight, their end. */
#include "op.h"

#include <stdlib.h>

#include "log.h"
#include "memory.h"
#include "op_record.h"
#include "request.h"

struct tt_op *tt_op_get(struct tutti_comm *comm)
{
	struct tt_op *op = comm->spare;

	if (op)
		comm->spare = op->next;
	else
		op = calloc(1, sizeof(*op));
	if (!op) {
		tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "no memory for an operation");
		return NULL;
	}
	op->comm = comm;
	op->next = op->prev = NULL;
	op->request = NULL;
	op->plan = NULL;
	op->state = TT_OP_WAITING;
	op->started = 0;
	op->ncursors = 0;
	op->granted = false;
	op->wide = NULL;
	return op;
}

void tt_op_put(struct tutti_comm *comm, struct tt_op *op)
{
	op->next = comm->spare;
	comm->spare = op;
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

void tt_op_end(struct tt_op *op, tutti_result_t result)
{
	struct tutti_comm *comm = op->comm;

	for (uint32_t i = 0; i < op->ncursors; i++)
		tt_cursor_dequeue(&op->cursors[i]);
	op->state = TT_OP_DONE;
	if (result && op->granted) /* a peer that does not know of the failure yet may still be
				 * writing */
		tt_heap_revoke(op->recv, tt_layout_extent(&op->plan->recv, op->element));
	if (op->wide && !result)
		comm->kernels->narrow[op->plan->wire].unpack(op->wide, op->recv,
							     op->plan->call.count);
	tt_recorder_done(op, result);
	tt_op_put(comm, op);
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
