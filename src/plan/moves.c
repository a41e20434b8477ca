/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what an eager plan does: the steps of its schedule, when it is known where all bytes are. An
 * operation of a few bytes would spend more time on finding that out than on anything else. */
#include <stdlib.h>

#include "log.h"
#include "plan.h"

struct builder {
	struct tt_plan *plan;
	int rank, size;
	uint32_t round;
	uint32_t nspots;
};

/* Of a run's block k, as this rank has it. */
static struct tt_spot own_spot(const struct builder *b, const struct tt_ref *ref, uint32_t k,
			       size_t *length)
{
	const struct tt_plan *plan = b->plan;
	const struct tt_bytes at = tt_layout_at(tt_plan_lengths(plan, ref->buffer), plan->element,
						1, 0, ref->block + k);

	*length = at.length;
	if (ref->buffer == TT_BUF_SCRATCH)
		return (struct tt_spot){ b->rank, tt_plan_exposed_at(plan, b->size, ref, k) };
	return (struct tt_spot){ ref->buffer == TT_BUF_SEND ? TT_IN_SEND : TT_IN_RECV, at.offset };
}

static struct tt_spot spot_of(const struct builder *b, int peer, const struct tt_ref *ref,
			      uint32_t k)
{
	size_t unused;

	if (peer == b->rank)
		return own_spot(b, ref, k, &unused);
	return (struct tt_spot){ peer, tt_plan_exposed_at(b->plan, b->size, ref, k) };
}

static void add(const struct builder *b, struct tt_move move)
{
	move.round = b->round;
	b->plan->moves[b->plan->nmoves++] = move;
}

/* Until the peer has ended the round before. */
static void await(struct builder *b, int peer)
{
	if (peer == b->rank)
		return;
	b->round--;
	add(b, (struct tt_move){ .kind = TT_MOVE_AWAIT, .from = { .of = peer } });
	b->round++;
}

/* What lies in the payload already needs no copy. */
static void expose(const struct builder *b, const struct tt_step *step)
{
	for (uint32_t k = 0; k < step->n && step->a.buffer != TT_BUF_SCRATCH; k++) {
		const struct tt_spot to = { b->rank,
					    tt_plan_exposed_at(b->plan, b->size, &step->a, k) };
		struct tt_move move = { .kind = TT_MOVE_COPY, .to = to };

		move.from = own_spot(b, &step->a, k, &move.length);
		if (move.length > 0)
			add(b, move);
	}
}

static void combine(struct builder *b, struct tt_move *move, const struct tt_step *step, uint32_t k)
{
	struct tt_spot *spots = &b->plan->spots[b->nspots];

	b->nspots += step->sources;
	for (uint32_t i = 0; i < step->sources; i++)
		spots[i] = spot_of(b, step[1 + i].peer, &step[1 + i].a, k);
	move->kind = TT_MOVE_COMBINE;
	move->length /= b->plan->element;
	move->step = step;
	move->source = spots;
}

static void reduce(struct builder *b, const struct tt_step *step)
{
	const bool divides = step->final && b->plan->call.op == TUTTI_AVG;

	for (uint32_t i = 0; i < step->sources; i++)
		await(b, step[1 + i].peer);
	for (uint32_t k = 0; k < step->n; k++) {
		struct tt_move move = { .kind = TT_MOVE_COPY };

		move.to = own_spot(b, &step->a, k, &move.length);
		if (move.length == 0)
			continue;
		if (step->sources > 1 || divides)
			combine(b, &move, step, k);
		else
			move.from = spot_of(b, step[1].peer, &step[1].a, k);
		add(b, move);
	}
}

/* A rank whose last round exposes something must say that it has ended it; the others' next
 * operation says so. */
static bool exposes_at_last(const struct tt_sched *sched)
{
	for (uint32_t i = sched->nrounds ? sched->round[sched->nrounds - 1] : 0; i < sched->nsteps;
	     i++)
		if (sched->steps[i].kind == TT_STEP_EXPOSE)
			return true;
	return sched->nrounds == 1;
}

static void settle_round(struct builder *b)
{
	const struct tt_sched *sched = &b->plan->sched;

	for (uint32_t i = sched->round[b->round]; i < sched->round[b->round + 1]; i++) {
		const struct tt_step *step = &sched->steps[i];

		if (step->kind == TT_STEP_EXPOSE)
			expose(b, step);
		else if (step->kind == TT_STEP_REDUCE)
			reduce(b, step);
		else if (step->kind == TT_STEP_AWAIT)
			await(b, step->peer);
	}
	if (b->round + 1 < sched->nrounds || exposes_at_last(sched))
		add(b, (struct tt_move){ .kind = TT_MOVE_SHOW });
}

tutti_result_t tt_plan_settle(struct tt_plan *plan, int rank, int size)
{
	const struct tt_sched *sched = &plan->sched;
	struct builder b = { .plan = plan, .rank = rank, .size = size };
	size_t moves = sched->nrounds + 1, spots = 1;

	for (uint32_t i = 0; i < sched->nsteps; i++) {
		const struct tt_step *step = &sched->steps[i];

		moves += 1 + step->n;
		if (step->kind == TT_STEP_REDUCE)
			spots += (size_t)step->n * step->sources;
	}
	plan->moves = malloc(moves * sizeof(*plan->moves));
	plan->spots = malloc(spots * sizeof(*plan->spots));
	if (!plan->moves || !plan->spots)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory for a plan of %zu moves",
			       moves);
	for (b.round = 0; b.round < sched->nrounds; b.round++)
		settle_round(&b);
	return TUTTI_OK;
}
