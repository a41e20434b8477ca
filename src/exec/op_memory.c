/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what an operation needs of memory for its plan, and where blocks are in this rank's. */
#include <stdlib.h>

#include "log.h"
#include "op.h"

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
