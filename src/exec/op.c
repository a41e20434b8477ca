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

void tt_op_retire(struct tutti_comm *comm, struct tt_op *op, tutti_result_t result)
{
	for (uint32_t i = 0; i < op->ncursors; i++)
		tt_cursor_dequeue(&op->cursors[i]);
	*(op->prev ? &op->prev->next : &comm->first) = op->next;
	*(op->next ? &op->next->prev : &comm->last) = op->prev;
	op->state = TT_OP_DONE;
	if (result && op->granted) /* a peer that does not know of the failure yet may still be
				 * writing */
		tt_heap_revoke(op->recv, tt_layout_extent(&op->plan->recv, op->element));
	if (op->wide && !result)
		comm->kernels->narrow[op->plan->wire].unpack(op->wide, op->recv,
							     op->plan->call.count);
	tt_recorder_done(op, result);
	tt_request_op_done(op->request, result);
	tt_op_put(comm, op);
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

tutti_result_t tt_op_reserve(struct tt_op *op)
{
	const struct tt_plan *plan = op->plan;
	/* scratch of a shared schedule lies on the control area */
	const size_t scratch =
		plan->algorithm->shared
			? 0
			: (size_t)plan->window * plan->sched.scratch_slots * plan->slot_bytes;

	if (plan->nroutes > op->cursors_capacity) {
		free(op->cursors);
		op->cursors = malloc(plan->nroutes * sizeof(*op->cursors));
		op->cursors_capacity = op->cursors ? plan->nroutes : 0;
	}
	if (plan->segments > op->segs_capacity) {
		free(op->seg_round);
		free(op->seg_left);
		op->seg_round = malloc(plan->segments * sizeof(*op->seg_round));
		op->seg_left = malloc(plan->segments * sizeof(*op->seg_left));
		op->segs_capacity = op->seg_round && op->seg_left ? plan->segments : 0;
	}
	if (plan->sources > op->sources_capacity) {
		free(op->sources);
		free(op->targets);
		op->sources = malloc(plan->sources * sizeof(*op->sources));
		op->targets = malloc(plan->sources * sizeof(*op->targets));
		op->sources_capacity = op->sources && op->targets ? plan->sources : 0;
	}
	if (scratch > op->scratch_capacity) {
		free(op->scratch);
		op->scratch = aligned_alloc(64, (scratch + 63) / 64 * 64);
		op->scratch_capacity = op->scratch ? scratch : 0;
	}
	if (plan->nroutes > op->cursors_capacity || plan->segments > op->segs_capacity ||
	    plan->sources > op->sources_capacity || scratch > op->scratch_capacity)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
			       "no memory for %zu bytes of scratch and %u links", scratch,
			       plan->nroutes);
	return TUTTI_OK;
}

uint8_t *tt_op_place(const struct tt_op *op, const struct tt_ref *ref, uint32_t k, uint32_t segment,
		     size_t *length)
{
	const struct tt_plan *plan = op->plan;
	const struct tt_layout *lengths = tt_plan_lengths(plan, ref->buffer);
	const struct tt_bytes at =
		tt_layout_at(lengths, plan->element, plan->segments, segment, ref->block + k);

	*length = at.length;
	if (ref->buffer == TT_BUF_SEND)
		return (uint8_t *)op->send + at.offset;
	if (ref->buffer == TT_BUF_RECV)
		return op->recv + at.offset;
	return op->scratch +
	       ((size_t)(segment % plan->window) * plan->sched.scratch_slots + ref->slot + k) *
		       plan->slot_bytes;
}
