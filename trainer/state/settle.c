/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: compares where ranks stand, and hands the state of one to all; with that a loss of
 * ranks is over.
 *
 * Ranks that were there when another was lost hold complete states that are one step apart at most
 * (state.h), and know of as many epochs but for one. The furthest is a state that all of them would
 * have reached: nothing is undone, and only a step that none has completed is done again. Of
 * several that are furthest the lowest rank gives; a newcomer stands at 0, behind the others in
 * rank. At the start all stand at 0 with the same weights, or take rank 0's. */
#include <stdlib.h>

#include "train.h"

static struct stand own_stand(const struct training *t)
{
	const struct history *history = &t->report->history;

	return (struct stand){
		.step = t->state.step,
		.epochs = history->epoch_count,
		.losses = history->loss_count,
		.hash = state_hash(&t->state),
		.origin = t->team->origin,
		.fresh = t->team->newcomer && !t->settled,
		.lacks = t->survival.lacks_state,
		.settled = t->settled,
		.resumes = t->velocity && t->sync->shares_velocity,
		.losing = t->survival.before != NULL,
		.restarts = t->survival.restarts,
		.elapsed_s = now_s() - t->start_s,
	};
}

/* Does it hold a state that others can go on from? */
static bool holds(const struct stand *stand)
{
	return !stand->fresh && !stand->lacks;
}

/* -1: nobody holds a state. */
static int furthest(const struct stand *all, int size)
{
	int best = -1;

	for (int r = 0; r < size; r++)
		if (holds(&all[r]) &&
		    (best < 0 || all[r].step > all[best].step ||
		     (all[r].step == all[best].step && all[r].epochs > all[best].epochs)))
			best = r;
	return best;
}

static bool is_at(const struct stand *a, const struct stand *b)
{
	return holds(a) && a->step == b->step && a->epochs == b->epochs && a->losses == b->losses &&
	       a->hash == b->hash;
}

/* Of a model that is cut: this rank's piece of what rank 0 has read from a checkpoint. */
static bool take_piece(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;
	const struct trained now = state_now(&t->state, 0);
	const size_t all = model_parameter_count(t->model.width, t->model.cut.of);
	const unsigned velocities = t->options->optimizer->velocities;
	const bool shares = t->sync->shares_velocity;
	void *piece = shares ? calloc(velocities * t->model.parameters + 1, numbers->size)
			     : now.velocity[0];
	bool ok = piece ? grid_exchange(t, now.weights, t->whole, false)
			: why_no_memory("the velocity of all ranks");

	for (unsigned k = 0; k < velocities && ok; k++)
		ok = grid_exchange(t, sync_velocity(t, piece, k),
				   t->whole ? numbers_at(numbers, t->velocity, k * all) : NULL,
				   false);
	free(t->whole);
	free(t->velocity);
	t->whole = NULL;
	t->velocity = shares ? piece : NULL;
	return ok;
}

/* The counts of its history become this rank's own when all of it and the state are there: the giver may be
 * lost. What it knows of the history is the beginning of that. */
static bool take_state(struct training *t, const struct stand *from, int source)
{
	struct state *state = &t->state;
	struct history *history = &t->report->history;
	const bool cut = grid_is_cut(&t->grid);

	if (!history_reserve(history, (unsigned)from->losses) ||
	    !team_broadcast(t->team, history->epochs, history->epochs,
			    from->epochs * sizeof(*history->epochs), source) ||
	    !team_broadcast(t->team, history->losses, history->losses,
			    from->losses * sizeof(*history->losses), source) ||
	    !(cut ? take_piece(t) : state_broadcast(state, t->team, from->step, source)))
		return false;
	state->step = from->step;
	t->survival.lacks_state = false;
	history->epoch_count = (unsigned)from->epochs;
	history->loss_count = (unsigned)from->losses;
	if (!t->settled && t->team->rank != source) { /* else this rank knows it, and better */
		t->start_s = now_s() - from->elapsed_s;
		t->survival.restarts = (int)from->restarts;
	}
	return cut || team_verify(t->team, state->now, state_bytes(state), state->step);
}

#define FOUND_LOST (-1) /* for the origin of one of those that were there before */

static bool goes_on(const struct survival *s, int64_t origin)
{
	for (int r = 0; r < s->member_count; r++)
		if (s->members[r].origin == origin && !s->members[r].fresh)
			return true;
	return false;
}

/* Others may be lost before all know of the loss, and this is done again: who was found lost stays
 * so, even if its replacement has trained since. */
static void complete_loss(struct training *t)
{
	struct survival *s = &t->survival;
	struct loss *loss = &s->loss;

	for (int i = 0; i < loss->ranks_before; i++) {
		const int64_t origin = s->before[i].origin;

		if (origin == FOUND_LOST || goes_on(s, origin))
			continue;
		if (loss->lost_count++ < LOSS_NAMES)
			loss->lost[loss->lost_count - 1] = (uint64_t)origin;
		s->before[i].origin = FOUND_LOST;
	}
	loss->ranks_after = s->member_count;
	loss->joined = loss->ranks_after - (loss->ranks_before - loss->lost_count);
	loss->recovery_s = now_s() - t->start_s - loss->seconds;
}

/* All hold the same state. Rank 0 was there all the time: the others, newcomers included, take its
 * word. */
static bool record_loss(struct training *t)
{
	struct survival *s = &t->survival;
	struct loss loss;

	if (s->before) /* rank 0, and whoever may be that when this is done again */
		complete_loss(t);
	loss = s->loss;
	if (!team_broadcast(t->team, &loss, &loss, sizeof(loss), 0) ||
	    !report_loss(t->report, &loss))
		return false;
	free(s->before);
	s->before = NULL;
	return true;
}

/* Everybody finds the same: one says so. */
static bool nothing_to_go_on_from(struct training *t, const char *text)
{
	t->survival.left_out = true;
	t->failed_alike = true;
	return why_set(TUTTI_ERR_PEER_LOST, "%s", text);
}

/* By the stands of all ranks: everybody comes to the same conclusions. */
static bool settle_by(struct training *t, const struct stand *all)
{
	const int size = t->team->size, source = furthest(all, size);
	bool same = true, settled = false;

	if (source < 0)
		return nothing_to_go_on_from(
			t, "no rank is left that holds the state of the training; start it again "
			   "(--save and --resume let it go on from a checkpoint)");
	for (int r = 0; r < size; r++) {
		same = same && is_at(&all[r], &all[source]);
		settled = settled || all[r].settled;
	}
	if (grid_is_cut(&t->grid)) /* no one has another's; rank 0 may have a checkpoint of all */
		same = all[source].step == 0;
	if (t->options->resume && !settled && all[0].origin != 0)
		return nothing_to_go_on_from(t, "rank 0 was lost before the others had its "
						"checkpoint; start the training again");
	t->resumes = all[0].resumes;
	return (same || take_state(t, &all[source], source)) && (!all[0].losing || record_loss(t));
}

bool settle(struct training *t)
{
	struct survival *s = &t->survival;
	const struct stand own = own_stand(t);
	struct stand *all = calloc((size_t)t->team->size, sizeof(*all));

	if (!all)
		return why_no_memory("where the ranks stand");
	if (!grid_begin(&t->grid, t->team) || !team_gather(t->team, &own, all, sizeof(own))) {
		free(all);
		return false;
	}
	free(s->members);
	s->members = all;
	s->member_count = t->team->size;
	if (!settle_by(t, all))
		return false;
	t->settled = true;
	return true;
}
