/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes eager plans: all that a rank exposes fits a payload of the control area, and where
 * everything is was settled with the plan (moves.c). What is left is what an operation of 8 bytes
 * consists of.
 *
 * Nobody waits for the end of one: a rank that posts the next operation has ended this one. So a
 * slot, and a longer payload, is used again when all peers have posted an operation behind it. */
#include <string.h>

#include "area_post.h"
#include "op_record.h"

static uint8_t *at(const struct tt_op *op, struct tt_spot spot)
{
	if (spot.of >= 0)
		return op->payloads + (size_t)spot.of * op->between + spot.at;
	return (spot.of == TT_IN_SEND ? (uint8_t *)op->send : op->recv) + spot.at;
}

static bool takes_payload(const struct tt_plan *plan)
{
	return !plan->hot;
}

static void find_payloads(struct tt_op *op)
{
	struct tt_area *control_area = &op->comm->control_area;

	if (takes_payload(op->plan)) {
		const uint64_t unit =
			tt_area_take_payload(control_area, op->header.seq, op->plan->payload);

		op->payloads = tt_area_payload(control_area, 0, unit);
		op->between = sizeof(*control_area->eager);
		return;
	}
	op->payloads = op->plan->hot_line ? op->slots->payload : op->slots->lines;
	op->between = sizeof(*op->slots);
}

tutti_result_t tt_eager_begin(struct tt_op *op)
{
	const struct tt_plan *plan = op->plan;

	if (!tt_area_is_free(op->comm, op->header.seq) ||
	    (takes_payload(plan) && !tt_area_payload_is_free(op->comm, plan->payload)))
		return TUTTI_IN_PROGRESS;
	const tutti_result_t result =
		plan->sources > op->sources_capacity ? tt_op_reserve(op) : TUTTI_OK;
	if (result)
		return result;
	op->step = 0;
	tt_area_write_header(op);
	find_payloads(op);
	return TUTTI_OK;
}

static void copy(const struct tt_op *op, const struct tt_move *move)
{
	uint8_t *to = at(op, move->to);
	const uint8_t *from = at(op, move->from);

	if (to != from)
		memcpy(to, from, move->length);
}

static void combine(const struct tt_op *op, const struct tt_move *move)
{
	const uint32_t n = move->step->sources;

	for (uint32_t i = 0; i < n; i++)
		op->sources[i] = at(op, move->source[i]);
	tt_combine(op->plan, op->comm->size, move->step, at(op, move->to), op->sources, n,
		   move->length);
}

static void show(struct tt_op *op, const struct tt_move *move)
{
	tt_area_publish(op, tt_area_steps(0, move->round));
	if (!op->plan->hot)
		tt_area_fetch_payload(op);
	if (op->recorded == TT_RECORDED_NOT) /* while the peers answer */
		tt_recorder_moved(op);
}

static tutti_result_t advance(struct tt_op *op, bool *moved)
{
	const struct tt_move *const end = op->plan->moves + op->plan->nmoves;
	const struct tt_move *move = op->plan->moves + op->step;
	tutti_result_t result = TUTTI_OK;

	for (; move < end; move++) {
		switch (move->kind) {
		case TT_MOVE_COPY: copy(op, move); break;
		case TT_MOVE_COMBINE: combine(op, move); break;
		case TT_MOVE_SHOW: show(op, move); break;
		case TT_MOVE_AWAIT: result = tt_area_peer_ended(op, move->from.of, 0, move->round);
		}
		if (result)
			break;
	}
	const uint32_t step = (uint32_t)(move - op->plan->moves);

	*moved |= step > op->step;
	op->step = step;
	if (!result)
		tt_area_fetch_slot(op);
	return result;
}

tutti_result_t tt_eager_advance(struct tt_op *op, bool *moved)
{
	const tutti_result_t result = advance(op, moved);

	tt_area_wake_owed(&op->comm->control_area);
	return result;
}
