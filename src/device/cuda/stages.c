/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts shared schedules on a stream: what a rank exposes is copied into its stage, from which
 * the others read.
 *
 * Segments come one after the other. A round's steps become a phase of a kernel; when it has ended,
 * all are told, and the next round waits for everybody. The stage is written
 * again when all have ended the last round of the segment before: the first wait of each. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "control_area_state.h"
#include "bound.h"

/* What a rank that scales its input reads instead of it: the second half of its stage
 * (tt_plan_build() cuts accordingly). */
static cuda_address scaled_place(const struct tt_cuda_op *op, const struct tt_ref *ref, uint32_t k)
{
	const struct tt_cuda *cuda = op->cuda;

	return tt_cuda_stage_of(cuda, cuda->comm->rank) + TT_CUDA_STAGE_BYTES / 2 +
	       (ref->slot + k) * op->plan->stride;
}

static bool scales(const struct tt_cuda_op *op)
{
	return op->plan->user_op && !op->plan->user_op->function;
}

static cuda_address exposed_place(const struct tt_cuda_op *op, int rank, const struct tt_ref *ref,
				  uint32_t k)
{
	return tt_cuda_stage_of(op->cuda, rank) +
	       tt_plan_exposed_at(op->plan, op->cuda->comm->size, ref, k);
}

static cuda_address own_place(const struct tt_cuda_op *op, const struct tt_ref *ref, uint32_t k,
			      uint32_t segment, size_t *length)
{
	const struct tt_plan *plan = op->plan;
	const struct tt_bytes at = tt_layout_at(tt_plan_lengths(plan, ref->buffer), plan->element,
						plan->segments, segment, ref->block + k);

	*length = at.length;
	if (ref->buffer == TT_BUF_SCRATCH)
		return exposed_place(op, op->cuda->comm->rank, ref, k);
	if (ref->buffer == TT_BUF_SEND && scales(op))
		return scaled_place(op, ref, k);
	return cuda_at(ref->buffer == TT_BUF_SEND ? op->call->send : op->call->recv) + at.offset;
}

/* ---- steps */

static cuda_result expose(struct tt_cuda_op *op, const struct tt_step *step, uint32_t segment)
{
	cuda_result error = 0;

	for (uint32_t k = 0; k < step->n && step->a.buffer != TT_BUF_SCRATCH && !error; k++) {
		size_t length;
		const cuda_address place = own_place(op, &step->a, k, segment, &length);

		error = tt_cuda_copy(op, exposed_place(op, op->cuda->comm->rank, &step->a, k),
				     place, length);
	}
	return error;
}

static bool same_run(const struct tt_step *a, const struct tt_step *b)
{
	return a->n == b->n && a->a.buffer == b->a.buffer && a->a.slot == b->a.slot &&
	       a->a.block == b->a.block;
}

/* One block: its sources combined into the rank's own place, and into its stage if it is
 * exposed. */
static cuda_result reduce_block(struct tt_cuda_op *op, const struct tt_step *step,
				const struct tt_step *exposing, uint32_t k, uint32_t segment)
{
	const struct tt_plan *plan = op->plan;
	const bool divides = step->final && plan->call.op == TUTTI_AVG;
	struct tt_cuda_part part = { .kind = TT_CUDA_COMBINE, .nsrc = step->sources, .ndst = 1 };
	size_t length, unused;

	part.piece[0].dst = cuda_pointer(own_place(op, &step->a, k, segment, &length));
	if (exposing && exposing->a.buffer != TT_BUF_SCRATCH)
		part.piece[part.ndst++].dst =
			cuda_pointer(exposed_place(op, op->cuda->comm->rank, &exposing->a, k));
	for (uint32_t i = 0; i < step->sources; i++) {
		const struct tt_step *source = &step[1 + i];

		part.piece[i].src =
			cuda_pointer(source->peer == op->cuda->comm->rank
					     ? own_place(op, &source->a, k, segment, &unused)
					     : exposed_place(op, source->peer, &source->a, k));
	}
	if (step->sources > 1 || divides) {
		const tutti_op_t by = scales(op) ? TUTTI_SUM : plan->call.op;

		part.piece[0].bytes = length;
		part.divisor = divides ? (uint32_t)op->cuda->comm->size : 0;
		return tt_cuda_add_part(op, op->cuda->module.reduce[by][plan->call.dtype], &part);
	}
	cuda_result error = 0;
	for (uint32_t i = 0; i < part.ndst && !error; i++)
		error = tt_cuda_copy_from(op, step[1].peer, cuda_at(part.piece[i].dst),
					  cuda_at(part.piece[0].src), length);
	return error;
}

static cuda_result run_round(struct tt_cuda_op *op, uint32_t segment, uint32_t round)
{
	const struct tt_sched *sched = &op->plan->sched;
	const uint32_t end = round < sched->nrounds ? sched->round[round + 1] : 0;
	cuda_result error = 0;

	for (uint32_t i = round < sched->nrounds ? sched->round[round] : 0; i < end && !error;) {
		const struct tt_step *step = &sched->steps[i];
		const struct tt_step *exposing = NULL;

		i++;
		if (step->kind == TT_STEP_EXPOSE)
			error = expose(op, step, segment);
		if (step->kind != TT_STEP_REDUCE) /* all are awaited between rounds */
			continue;
		i += step->sources;
		if (i < end && sched->steps[i].kind == TT_STEP_EXPOSE &&
		    same_run(step, &sched->steps[i]))
			exposing = &sched->steps[i++];
		for (uint32_t k = 0; k < step->n && !error; k++)
			error = reduce_block(op, step, exposing, k, segment);
	}
	return error;
}

/* ---- the input times this rank's scalar */

static cuda_result scale_input(struct tt_cuda_op *op, uint32_t segment)
{
	const struct tt_plan *plan = op->plan;
	cuda_result error = 0;

	for (uint32_t block = 0; block < plan->send.blocks && !error; block++) {
		const struct tt_ref ref = { TT_BUF_SEND, block, block };
		const struct tt_bytes at =
			tt_layout_at(&plan->send, plan->element, plan->segments, segment, block);
		struct tt_cuda_part part = { .kind = TT_CUDA_COMBINE, .nsrc = 1, .ndst = 1 };

		part.piece[0].src = (const uint8_t *)op->call->send + at.offset;
		part.piece[0].dst = cuda_pointer(scaled_place(op, &ref, 0));
		part.piece[0].bytes = at.length;
		memcpy(part.scalar, plan->user_op->scalar, sizeof(part.scalar));
		error = tt_cuda_add_part(op, op->cuda->module.scale[plan->call.dtype], &part);
	}
	return error;
}

cuda_result tt_cuda_by_stages(struct tt_cuda_op *op)
{
	const uint32_t rounds = op->plan->rounds;
	cuda_result error = 0;

	for (uint32_t segment = 0; segment < op->plan->segments && !error; segment++) {
		tt_cuda_begin_rounds(op);
		if (scales(op))
			error = scale_input(op, segment);
		for (uint32_t round = 0; round < rounds && !error; round++) {
			error = run_round(op, segment, round);
			if (!error)
				error = tt_cuda_end_round(op, (int)round, (int)rounds);
		}
	}
	return error;
}
