/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way from the loss of ranks back to training.
 *
 * What is lost is a rank that died, or one that did not call in time and is left out. Only dead
 * ones are replaced by the launcher, the first TUTTI_RESTART of them; a replacement that does not
 * come within a bounded time is gone on without. The global batch stays as it is: each rank's slice
 * grows, and the loss goes on along the same curve. */
#include <stdio.h>
#include <stdlib.h>

#include "train.h"

static bool read_count(const char *name, int missing, int least, int *count)
{
	const char *text = getenv(name);
	char *rest = "";
	const long value = text && *text ? strtol(text, &rest, 10) : missing;

	*count = (int)value;
	return (!*rest && value >= least && value <= 1000000) ||
	       why_invalid("%s: found '%s', expected a number from %d to 1000000", name, text,
			   least);
}

bool survival_init(struct survival *s, const struct team *team)
{
	/* they settle only after they have met: one may be lost between */
	*s = (struct survival){
		.wanted = team->size,
		.members = calloc((size_t)team->size, sizeof(*s->members)),
		.member_count = team->newcomer ? 0 : team->size,
	};
	if (!s->members)
		return why_no_memory("the list of ranks");
	for (int r = 0; r < s->member_count; r++)
		s->members[r].origin = r;
	return read_count("TUTTI_MIN_RANKS", team->size, 1, &s->min_ranks) &&
	       read_count("TUTTI_RESTART", 0, 0, &s->restarts);
}

void survival_finish(struct survival *survival)
{
	free(survival->before);
	free(survival->members);
	*survival = (struct survival){ 0 };
}

/* May those that are left go on after the failure that why tells of? */
static bool is_possible(const struct training *t)
{
	const struct survival *s = &t->survival;

	return !s->left_out && !grid_is_cut(&t->grid) &&
	       (why.result == TUTTI_ERR_PEER_LOST || why.result == TUTTI_ERR_TIMEOUT) &&
	       (t->team->size > s->min_ranks || s->restarts > 0);
}

/* From here on everything that happens until all have settled is one loss. */
static void open_loss(struct training *t)
{
	struct survival *s = &t->survival;

	if (s->before)
		return;
	s->loss = (struct loss){
		.seconds = now_s() - t->start_s,
		.step = t->state.step + t->ahead,
		.epochs = t->report->history.epoch_count,
		.ranks_before = s->member_count,
		.by_deadline = why.result == TUTTI_ERR_TIMEOUT,
	};
	snprintf(s->loss.cause, sizeof(s->loss.cause), "%s", why.text);
	s->before = s->members;
	s->members = NULL; /* until they settle again */
	s->member_count = 0;
}

/* Ranks tell each other their numbers. Newcomers have just read options and data: are they ours? One that
 * has others says so, meets the rest once more, and ends: it is lost, as this call or the next says. */
static bool take_in(struct training *t)
{
	if (team_agree(t->team, true, options_hash(t->options), t->data.hash, NULL))
		return true;
	return why.result == TUTTI_ERR_INVALID &&
	       TEAM_CALL(t->team, tutti_barrier(t->team->comm, NULL), "waiting for newcomers");
}

/* If they do not come, or the launcher's store is not to be had, the team is as it was. */
static bool replace(struct training *t)
{
	struct survival *s = &t->survival;
	const int missing = s->wanted - t->team->size;
	const int newcomers = missing < s->restarts ? missing : s->restarts;

	if (newcomers > 0 && team_grow(t->team, newcomers, t->options->wait_s)) {
		s->restarts -= newcomers;
	} else if (newcomers > 0) {
		if (why.result == TUTTI_ERR_PEER_LOST)
			return false;
		if (t->team->rank == 0)
			fprintf(stderr, "tutti-train: going on without %d replacement%s: %s\n",
				newcomers, newcomers == 1 ? "" : "s", why.text);
	}
	s->wanted = t->team->size;
	return take_in(t);
}

static bool come_together(struct training *t)
{
	struct survival *s = &t->survival;
	const int before = t->team->size;
	const bool by_deadline = why.result == TUTTI_ERR_TIMEOUT;

	if (!team_shrink(t->team)) {
		s->left_out = true;
		return false;
	}
	/* who did not come in time is alive, and not replaced */
	if (by_deadline)
		s->wanted -= before - t->team->size;
	if (!replace(t))
		return false;
	if (t->team->size >= s->min_ranks)
		return true;
	s->left_out = true;
	return why_set(TUTTI_ERR_PEER_LOST,
		       "%d ranks are left, expected at least the %d of TUTTI_MIN_RANKS: %s",
		       t->team->size, s->min_ranks, s->loss.cause);
}

bool survive(struct training *t)
{
	while (is_possible(t)) {
		t->engine->drain(t); /* which may say how many steps are complete */
		open_loss(t);
		/* a rank that was stuck may still write into the memory of the others when it wakes up */
		if (t->engine->renew_gradients(t) && come_together(t) && settle(t))
			return true;
	}
	return false;
}
