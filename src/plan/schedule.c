/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the building of schedules. Invariants while the error is 0: round[0 … nrounds] are set
 * (round[0] once anything was written) and ascend; a SOURCE follows its REDUCE or another SOURCE,
 * and its `sources` is its own number counted from 1, so that its REDUCE is found without a search.
 * After an error every call does nothing. */
#include <stdlib.h>
#include <string.h>

#include "schedule.h"

static void fail(struct tt_sched *sched, tutti_result_t error)
{
	if (!sched->error)
		sched->error = error;
}

/* Make room for `need` elements; false after an error. */
static bool reserve(struct tt_sched *sched, void *array, uint32_t *capacity, uint32_t need,
		    size_t size)
{
	void *old, *grown;
	uint32_t more = *capacity ? *capacity : 16;

	if (sched->error)
		return false;
	if (need <= *capacity)
		return true;
	while (more < need)
		more *= 2;
	memcpy(&old, array, sizeof(old)); /* `array` is the address of a pointer of any type */
	grown = realloc(old, more * size);
	if (!grown) {
		fail(sched, TUTTI_ERR_NO_MEMORY);
		return false;
	}
	memcpy(array, &grown, sizeof(grown));
	*capacity = more;
	return true;
}

/* An algorithm that names what does not exist is wrong; it is refused rather than run. */
static bool valid(struct tt_sched *sched, int peer, struct tt_ref run, int n)
{
	if (n < 0 || peer < 0 || peer >= sched->size || run.slot > INT32_MAX - (uint32_t)n ||
	    run.block > INT32_MAX - (uint32_t)n)
		fail(sched, TUTTI_ERR_INVALID);
	return !sched->error;
}

static void use_scratch(struct tt_sched *sched, struct tt_ref run, int n)
{
	if (run.buffer == TT_BUF_SCRATCH && run.slot + (uint32_t)n > sched->scratch_slots)
		sched->scratch_slots = run.slot + (uint32_t)n;
}

static struct tt_step *add(struct tt_sched *sched, enum tt_step_kind kind, int peer,
			   struct tt_ref run, int n)
{
	struct tt_step *step;

	if (!valid(sched, peer, run, n) || !reserve(sched, &sched->steps, &sched->steps_capacity,
						    sched->nsteps + 1, sizeof(*step)))
		return NULL;
	use_scratch(sched, run, n);
	step = &sched->steps[sched->nsteps++];
	*step = (struct tt_step){ .kind = (uint8_t)kind, .peer = peer, .n = (uint32_t)n, .a = run };
	return step;
}

/* A message of no blocks is none, and no rank sends to itself. */
static struct tt_step *add_message(struct tt_sched *sched, enum tt_step_kind kind, int peer,
				   struct tt_ref run, int n)
{
	if (n == 0)
		return NULL;
	if (peer == sched->rank) {
		fail(sched, TUTTI_ERR_INVALID);
		return NULL;
	}
	return add(sched, kind, peer, run, n);
}

/* The step that tt_source() and tt_final() speak of; NULL if the last step is no such. */
static struct tt_step *last_combining(struct tt_sched *sched)
{
	struct tt_step *last;

	if (sched->error || sched->nsteps == 0)
		return NULL;
	last = &sched->steps[sched->nsteps - 1];
	if (last->kind == TT_STEP_SOURCE)
		last -= last->sources;
	if (last->kind == TT_STEP_REDUCE || last->kind == TT_STEP_RECV_REDUCE)
		return last;
	return NULL;
}

void tt_sched_init(struct tt_sched *sched, int rank, int size)
{
	*sched = (struct tt_sched){ .blocks = 1, .rank = rank, .size = size };
}

tutti_result_t tt_sched_finish(struct tt_sched *sched)
{
	const uint32_t begun = sched->nrounds ? sched->round[sched->nrounds] : 0;

	if (!sched->error && (sched->nsteps > begun || sched->nrounds == 0))
		tt_round(sched);
	free(sched->memory);
	sched->memory = NULL;
	return sched->error;
}

/* Any collective of a group of one. */
static void build_alone(struct tt_sched *sched, enum tt_collective collective)
{
	const uint32_t no_output = TT_BIT(TT_BARRIER) | TT_BIT(TT_EXSCAN);
	const uint32_t reductions = TT_BIT(TT_REDUCE) | TT_BIT(TT_ALL_REDUCE) |
				    TT_BIT(TT_REDUCE_SCATTER) | TT_BIT(TT_REDUCE_SCATTER_V);

	if (TT_BIT(collective) & no_output)
		return;
	tt_copy(sched, tt_out(0), tt_in(0), 1);
	if (TT_BIT(collective) & reductions)
		tt_final(sched);
}

tutti_result_t tt_sched_build(struct tt_sched *sched, const struct tt_algorithm *algorithm,
			      const struct tt_group *group, enum tt_collective collective)
{
	tt_sched_init(sched, group->rank, group->size);
	if (group->size == 1)
		build_alone(sched, collective);
	else
		algorithm->build[collective](sched, group);
	return tt_sched_finish(sched);
}

void tt_sched_fini(struct tt_sched *sched)
{
	free(sched->steps);
	free(sched->round);
	*sched = (struct tt_sched){ 0 };
}

void *tt_sched_memory(struct tt_sched *sched, size_t bytes)
{
	if (sched->memory)
		fail(sched, TUTTI_ERR_INVALID);
	if (sched->error)
		return NULL;
	sched->memory = calloc(1, bytes);
	if (!sched->memory)
		fail(sched, TUTTI_ERR_NO_MEMORY);
	return sched->memory;
}

void tt_sched_blocks(struct tt_sched *sched, int blocks)
{
	if (blocks < 1)
		fail(sched, TUTTI_ERR_INVALID);
	else
		sched->blocks = (uint32_t)blocks;
}

void tt_send(struct tt_sched *sched, int peer, struct tt_ref run, int n)
{
	add_message(sched, TT_STEP_SEND, peer, run, n);
}

void tt_recv(struct tt_sched *sched, int peer, struct tt_ref run, int n)
{
	add_message(sched, TT_STEP_RECV, peer, run, n);
}

static void recv_reduce(struct tt_sched *sched, int peer, struct tt_ref dst, struct tt_ref with,
			int n, bool left)
{
	struct tt_step *step = add_message(sched, TT_STEP_RECV_REDUCE, peer, dst, n);

	if (!step || !valid(sched, peer, with, n))
		return;
	use_scratch(sched, with, n);
	step->b = with;
	step->left = left;
}

void tt_recv_reduce(struct tt_sched *sched, int peer, struct tt_ref dst, struct tt_ref with, int n)
{
	recv_reduce(sched, peer, dst, with, n, false);
}

void tt_recv_reduce_left(struct tt_sched *sched, int peer, struct tt_ref dst, struct tt_ref with,
			 int n)
{
	recv_reduce(sched, peer, dst, with, n, true);
}

void tt_copy(struct tt_sched *sched, struct tt_ref dst, struct tt_ref src, int n)
{
	tt_copy_from(sched, dst, sched->rank, src, n);
}

void tt_copy_from(struct tt_sched *sched, struct tt_ref dst, int peer, struct tt_ref src, int n)
{
	const bool same = peer == sched->rank && dst.buffer == src.buffer && dst.slot == src.slot;

	if (n == 0 || same)
		return;
	tt_reduce(sched, dst, n);
	tt_source(sched, peer, src);
}

void tt_reduce(struct tt_sched *sched, struct tt_ref dst, int n)
{
	if (n < 1)
		fail(sched, TUTTI_ERR_INVALID);
	add(sched, TT_STEP_REDUCE, sched->rank, dst, n);
}

void tt_source(struct tt_sched *sched, int peer, struct tt_ref src)
{
	struct tt_step *reduce = last_combining(sched);
	struct tt_step *source;
	int number, n;

	if (!reduce || reduce->kind != TT_STEP_REDUCE || reduce->sources == UINT16_MAX) {
		fail(sched, reduce && reduce->sources ? TUTTI_ERR_UNSUPPORTED : TUTTI_ERR_INVALID);
		return;
	}
	number = ++reduce->sources;
	n = (int)reduce->n;
	source = add(sched, TT_STEP_SOURCE, peer, src, n); /* may move the steps */
	if (source)
		source->sources = (uint16_t)number;
}

void tt_final(struct tt_sched *sched)
{
	struct tt_step *step = last_combining(sched);

	if (step)
		step->final = true;
	else
		fail(sched, TUTTI_ERR_INVALID);
}

void tt_weigh(struct tt_sched *sched, int mine, int theirs)
{
	struct tt_step *step = last_combining(sched);

	if (!step || step->kind != TT_STEP_RECV_REDUCE || mine < 1 || theirs < 1) {
		fail(sched, TUTTI_ERR_INVALID);
		return;
	}
	step->mine = (uint32_t)mine;
	step->theirs = (uint32_t)theirs;
}

void tt_expose(struct tt_sched *sched, struct tt_ref run, int n)
{
	if (n != 0)
		add(sched, TT_STEP_EXPOSE, sched->rank, run, n);
}

void tt_await(struct tt_sched *sched, int peer)
{
	add(sched, TT_STEP_AWAIT, peer, (struct tt_ref){ 0 }, 0);
}

void tt_round(struct tt_sched *sched)
{
	if (!reserve(sched, &sched->round, &sched->rounds_capacity, sched->nrounds + 2,
		     sizeof(*sched->round)))
		return;
	sched->round[0] = 0;
	sched->round[++sched->nrounds] = sched->nsteps;
}

/* How many blocks of the run come before the wrap, and where the rest begins. Scratch does not
 * wrap: its slots go on while the blocks they stand for begin again. */
static int before_wrap(const struct tt_sched *sched, struct tt_ref run, int n, struct tt_ref *rest)
{
	const int capacity = sched->size - (int)run.block;
	const int first = n < capacity ? n : capacity;

	*rest = run;
	rest->block = 0;
	rest->slot = run.buffer == TT_BUF_SCRATCH ? run.slot + (uint32_t)first : 0;
	return first;
}

void tt_send_wrapped(struct tt_sched *sched, int peer, struct tt_ref run, int n)
{
	struct tt_ref rest;
	const int first = before_wrap(sched, run, n, &rest);

	tt_send(sched, peer, run, first);
	tt_send(sched, peer, rest, n - first);
}

void tt_recv_wrapped(struct tt_sched *sched, int peer, struct tt_ref run, int n)
{
	struct tt_ref rest;
	const int first = before_wrap(sched, run, n, &rest);

	tt_recv(sched, peer, run, first);
	tt_recv(sched, peer, rest, n - first);
}
