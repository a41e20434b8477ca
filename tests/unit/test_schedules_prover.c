/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the side-by-side run of all ranks' schedules. A round is run on all ranks before the next:
 * first the local steps, rank by rank, then all messages at once. That is sound since a send of
 * round k must meet a receive of round k, and since what a rank of a shared schedule reads of a
 * peer must neither have been written in the peer's current round nor be written before the peer
 * knows of the reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_schedules_prover.h"
#include "test_schedules_world.h"

enum { SHARED_ROUNDS = 3 };

static bool fold_sources(struct world *w, const struct tt_step *step, uint32_t i,
			 struct value *result)
{
	int each = 0;

	for (uint32_t s = 1; s <= step->sources; s++) {
		const struct tt_step *source = step + s;
		struct value value;
		const char *wrong;

		if (source->kind != TT_STEP_SOURCE || source->n != step->n)
			return refuse(w, "source %u of a reduction is no source of its length", s);
		if (source->peer == w->rank ? !read_own(w, source->a, i, &value)
					    : !read_peer(w, source->peer, source->a, i, &value))
			return false;
		if (s == 1) {
			*result = value;
			each = value.count;
			continue;
		}
		wrong = reduces(w) ? value_combine(&w->values, result, &value)
				   : "blocks are combined in a collective that only moves them";
		if (wrong)
			return refuse(w, "%s", wrong);
		if (!w->claim->algorithm->one_fold && !is_prefix(w) && value.count != each)
			return refuse(
				w, "%d and %d contributions are combined as if they were as many",
				each, value.count);
	}
	if (step->sources > 1)
		result->steps++;
	return step->sources > 0 || refuse(w, "a reduction has no source");
}

static bool complete(struct world *w, const struct tt_step *step, struct value *value)
{
	if (!step->final)
		return true;
	value->finals++;
	if (!reduces(w) || !value_is_total(&w->values, value, w->claim->size))
		return refuse(w, "a block of %d contributions is called final", value->count);
	return true;
}

/* In place, a copy of a block onto itself. */
static bool is_no_copy(const struct world *w, const struct tt_step *step, uint32_t i)
{
	return step->sources == 1 && !step->final && step[1].peer == w->rank &&
	       find_cell(w, w->rank, step->a, i) == find_cell(w, w->rank, step[1].a, i);
}

static bool run_reduce(struct world *w, const struct tt_step *step)
{
	for (uint32_t i = 0; i < step->n; i++) {
		struct value value;

		if (!check_ref(w, w->rank, step->a, i) || !fold_sources(w, step, i, &value))
			return false;
		if (is_no_copy(w, step, i))
			continue;
		if (!complete(w, step, &value) || !write_own(w, step->a, i, &value))
			return false;
	}
	return true;
}

static bool run_local(struct world *w, const struct tt_step *step)
{
	const bool shared = w->claim->algorithm->shared;

	switch (step->kind) {
	case TT_STEP_REDUCE: return run_reduce(w, step);
	case TT_STEP_SOURCE: return true; /* with its reduction */
	case TT_STEP_EXPOSE:
		for (uint32_t i = 0; shared && i < step->n; i++)
			if (!expose_own(w, step->a, i))
				return false;
		return shared || refuse(w, "exposes, but is not shared");
	case TT_STEP_AWAIT:
		return shared ? await_peer(w, step->peer) : refuse(w, "awaits, but is not shared");
	default: return !shared || refuse(w, "sends or receives, but is shared");
	}
}

/* Sends and receives of a round, each sorted by receiver, then sender, then the order written. */
struct message {
	int from, to;
	const struct tt_step *step;
	uint32_t number; /* of the step in all schedules */
};

static bool is_send(const struct tt_step *step)
{
	return step->kind == TT_STEP_SEND;
}

static bool is_receive(const struct tt_step *step)
{
	return step->kind == TT_STEP_RECV || step->kind == TT_STEP_RECV_REDUCE;
}

/* A stable counting sort by sender or receiver. */
static void sort_messages(struct message *messages, struct message *capacity, size_t count,
			  int ranks, bool by_sender)
{
	size_t *place = calloc((size_t)ranks + 1, sizeof(*place));

	if (!place)
		abort();
	for (size_t m = 0; m < count; m++)
		place[(by_sender ? messages[m].from : messages[m].to) + 1]++;
	for (int r = 0; r < ranks; r++)
		place[r + 1] += place[r];
	for (size_t m = 0; m < count; m++)
		capacity[place[by_sender ? messages[m].from : messages[m].to]++] = messages[m];
	memcpy(messages, capacity, count * sizeof(*messages));
	free(place);
}

static size_t collect(const struct world *w, bool (*wanted)(const struct tt_step *),
		      struct message *messages)
{
	size_t count = 0;

	for (int r = 0; r < w->claim->size; r++) {
		const struct tt_sched *sched = &w->sched[r];

		if (w->round >= sched->nrounds)
			continue;
		for (uint32_t s = sched->round[w->round]; s < sched->round[w->round + 1]; s++) {
			const struct tt_step *step = &sched->steps[s];

			if (!wanted(step))
				continue;
			messages[count++] = (struct message){ wanted == is_send ? r : step->peer,
							      wanted == is_send ? step->peer : r,
							      step, w->first_step[r] + s };
		}
	}
	return count;
}

static bool meet(struct world *w, const struct message *send, const struct message *receive)
{
	w->rank = receive->to;
	if (send->from != receive->from || send->to != receive->to)
		return refuse(w, "a send from %d to %d meets a receive at %d from %d", send->from,
			      send->to, receive->to, receive->from);
	if (send->step->n != receive->step->n)
		return refuse(w, "%u blocks from %d meet a receive of %u", send->step->n,
			      send->from, receive->step->n);
	return true;
}

/* What happens at once in a round must not touch: mark all reads, then all writes. */
static bool mark(struct world *w, const struct message *send, const struct message *receive)
{
	const struct tt_step *in = receive->step;

	for (uint32_t i = 0; i < in->n; i++) {
		if (!check_ref(w, send->from, send->step->a, i) ||
		    !check_ref(w, receive->to, in->a, i))
			return false;
		mark_read(w, send->from, send->step->a, i, send->number);
		if (in->kind != TT_STEP_RECV_REDUCE)
			continue;
		if (!check_ref(w, receive->to, in->b, i))
			return false;
		mark_read(w, receive->to, in->b, i, receive->number);
	}
	return true;
}

static bool mark_writes(struct world *w, const struct message *receive)
{
	w->rank = receive->to;
	for (uint32_t i = 0; i < receive->step->n; i++)
		if (!mark_write(w, receive->to, receive->step->a, i, receive->number))
			return false;
	return true;
}

/* Partial averages are combined by what the step says of them. */
static bool check_weights(struct world *w, const struct tt_step *step, const struct value *own,
			  const struct value *incoming)
{
	if (is_prefix(w) ||
	    (step->mine == (uint32_t)own->count && step->theirs == (uint32_t)incoming->count))
		return true;
	return refuse(w, "%d and %d contributions are combined as if they were %u and %u",
		      own->count, incoming->count, step->mine, step->theirs);
}

static bool deliver(struct world *w, const struct message *send, const struct message *receive)
{
	const struct tt_step *in = receive->step;

	for (uint32_t i = 0; i < in->n; i++) {
		struct value value, own;
		const char *wrong = NULL;

		w->rank = send->from;
		w->step = send->number;
		if (!check_straight(w, send->step->a, in->a) ||
		    !read_own(w, send->step->a, i, &value))
			return false;
		w->rank = receive->to;
		w->step = receive->number;
		if (in->kind == TT_STEP_RECV_REDUCE) {
			if (!read_own(w, in->b, i, &own))
				return false;
			if (!reduces(w))
				return refuse(w, "combines in a collective that only moves");
			if (!check_weights(w, in, &own, &value))
				return false;
			wrong = in->left ? value_combine(&w->values, &value, &own)
					 : value_combine(&w->values, &own, &value);
			value = in->left ? value : own;
			value.steps++;
		}
		if (wrong)
			return refuse(w, "%s", wrong);
		if (!complete(w, in, &value) || !write_own(w, in->a, i, &value))
			return false;
	}
	return true;
}

static bool run_messages(struct world *w)
{
	const int ranks = w->claim->size;
	const size_t sends = collect(w, is_send, w->sends);
	const size_t receives = collect(w, is_receive, w->receives);
	bool ok = true;

	if (sends != receives)
		return refuse(w, "%zu sends meet %zu receives", sends, receives);
	sort_messages(w->sends, w->spare, sends, ranks, false);
	sort_messages(w->receives, w->spare, receives, ranks, true);
	sort_messages(w->receives, w->spare, receives, ranks, false);
	for (size_t m = 0; ok && m < sends; m++)
		ok = meet(w, &w->sends[m], &w->receives[m]);
	if (w->claim->collective == TT_BARRIER) {
		for (size_t m = 0; ok && m < sends; m++)
			learn(w, w->sends[m].to, w->sends[m].from);
		return ok;
	}
	for (size_t m = 0; ok && m < sends; m++)
		ok = mark(w, &w->sends[m], &w->receives[m]);
	for (size_t m = 0; ok && m < sends; m++)
		ok = mark_writes(w, &w->receives[m]);
	for (size_t m = 0; ok && m < sends; m++)
		ok = deliver(w, &w->sends[m], &w->receives[m]);
	return ok;
}

static bool run_round(struct world *w)
{
	begin_round(w);
	for (int r = 0; r < w->claim->size; r++) {
		const struct tt_sched *sched = &w->sched[r];

		if (w->round >= sched->nrounds)
			continue;
		w->rank = r;
		for (uint32_t s = sched->round[w->round]; s < sched->round[w->round + 1]; s++) {
			w->step = w->first_step[r] + s;
			if (!run_local(w, &sched->steps[s]))
				return false;
		}
	}
	return w->claim->algorithm->shared || run_messages(w);
}

/* The rounds begin with step 0, end with the last and go forwards. */
static bool check_rounds(struct world *w, const struct tt_sched *sched)
{
	if (sched->nrounds == 0 || sched->round[0] != 0 ||
	    sched->round[sched->nrounds] != sched->nsteps)
		return refuse(w, "rounds do not hold all steps");
	if (w->claim->algorithm->shared && sched->nrounds > SHARED_ROUNDS)
		return refuse(w, "%u rounds are more than a shared schedule may have",
			      sched->nrounds);
	for (uint32_t k = 0; k < sched->nrounds; k++)
		if (sched->round[k] > sched->round[k + 1])
			return refuse(w, "round %u ends before it begins", k);
	return true;
}

static bool exposes_results(const struct tt_sched *sched)
{
	for (uint32_t s = 0; s < sched->nsteps; s++)
		if (sched->steps[s].kind == TT_STEP_EXPOSE &&
		    sched->steps[s].a.buffer == TT_BUF_RECV)
			return true;
	return false;
}

static bool same_place(const struct tt_step *a, const struct tt_step *b)
{
	return a->a.buffer == b->a.buffer && a->a.slot == b->a.slot && a->n == b->n;
}

/* An exposed part of an all-reduce may be written into the others' results at once: they do
 * nothing with it but copy it to the same place, and nobody else reads that part of the inputs,
 * which in place is written then. */
static bool check_pushes(struct world *w, const struct tt_sched *sched)
{
	if (!w->claim->algorithm->shared || w->claim->collective != TT_ALL_REDUCE ||
	    !exposes_results(sched))
		return true;
	for (uint32_t s = 0; s < sched->nsteps; s++) {
		const struct tt_step *source = &sched->steps[s];
		const struct tt_step *target = source - source->sources;
		const bool theirs = source->peer != sched->rank && source->a.buffer == TT_BUF_RECV;

		if (source->kind != TT_STEP_SOURCE || target->sources == 0)
			continue;
		if (theirs && (target->sources > 1 || target->final || !same_place(source, target)))
			return refuse(
				w,
				"a part of a peer's result is not just copied to the same place");
		if (theirs)
			continue;
		const struct tt_step *next = target + target->sources + 1;
		const bool exposed = next < sched->steps + sched->nsteps &&
				     next->kind == TT_STEP_EXPOSE && same_place(next, target) &&
				     target->a.buffer == TT_BUF_RECV;

		if (!exposed || source->a.buffer != TT_BUF_SEND || source->a.slot != target->a.slot)
			return refuse(
				w,
				"inputs go elsewhere than into the part of the result that is exposed");
	}
	return true;
}

static uint32_t scratch_places(const struct tt_sched *sched)
{
	uint32_t places = 0;

	for (uint32_t i = 0; i < sched->nsteps; i++) {
		const struct tt_step *step = &sched->steps[i];
		const bool seen = step->kind == TT_STEP_EXPOSE ||
				  (step->kind == TT_STEP_SOURCE && step->peer != sched->rank);

		if (seen && step->a.buffer == TT_BUF_SCRATCH && step->a.slot + step->n > places)
			places = step->a.slot + step->n;
	}
	return places;
}

/* A rank finds what its peers have in scratch by how many places of it its own schedule knows
 * (segments.c), but where it has a place for each rank. */
static bool check_scratch(struct world *w)
{
	const uint32_t for_each = TT_BIT(TT_REDUCE_SCATTER) | TT_BIT(TT_REDUCE_SCATTER_V) |
				  TT_BIT(TT_SCATTER) | TT_BIT(TT_ALL_TO_ALL);
	const uint32_t first = scratch_places(&w->sched[0]);

	if (!w->claim->algorithm->shared || for_each & TT_BIT(w->claim->collective))
		return true;
	for (w->rank = 1; w->rank < w->claim->size; w->rank++)
		if (scratch_places(&w->sched[w->rank]) != first)
			return refuse(w, "knows of %u places in scratch, rank 0 of %u",
				      scratch_places(&w->sched[w->rank]), first);
	return true;
}

static bool run(struct world *w)
{
	uint32_t rounds = 0;

	for (w->rank = 0; w->rank < w->claim->size; w->rank++) {
		if (!check_rounds(w, &w->sched[w->rank]) || !check_pushes(w, &w->sched[w->rank]))
			return false;
		if (w->sched[w->rank].nrounds > rounds)
			rounds = w->sched[w->rank].nrounds;
	}
	for (w->round = 0; w->round < rounds; w->round++)
		if (!run_round(w))
			return false;
	return check_scratch(w) && check_outputs(w);
}

bool prove(const struct claim *claim, char *why, size_t capacity)
{
	struct world w;
	bool ok;

	snprintf(why, capacity, "nothing");
	ok = world_init(&w, claim, why, capacity);
	if (ok) {
		w.sends = malloc((w.steps + 1) * sizeof(struct message));
		w.receives = malloc((w.steps + 1) * sizeof(struct message));
		w.spare = malloc((w.steps + 1) * sizeof(struct message));
		if (!w.sends || !w.receives || !w.spare)
			abort();
		ok = run(&w);
		free(w.sends);
		free(w.receives);
		free(w.spare);
	}
	world_fini(&w);
	return ok;
}
