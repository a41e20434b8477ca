/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a server does when a worker is lost, or comes in the place of one. */
#include <math.h>
#include <stdio.h>

#include "server_state.h"

#define NOBODY_CAME "workers were lost, and no replacement came within --wait"
#define JOINED_S    1.0 /* that one who said it is there has to join; half a deadline at most */

/* ---- losses */

size_t server_workers_there(const struct server *s)
{
	size_t left = 0;

	for (size_t i = 0; i < s->count; i++)
		left += s->peers[i]->state != GONE;
	return left;
}

/* Those that have left in order are not lost. */
static int ranks_left(const struct server *s)
{
	int left = s->training->team->size;

	for (size_t i = 0; i < s->count; i++)
		left += !s->peers[i]->lost;
	return left;
}

static tutti_result_t tell_of_loss(struct server *s, const struct peer *p, tutti_result_t fault,
				   const struct why *cause, struct why *why)
{
	struct training *t = s->training;
	struct loss loss = {
		.seconds = now_s() - t->start_s,
		.step = t->state.step,
		.epochs = t->report->history.epoch_count,
		.ranks_before = ranks_left(s) + 1,
		.ranks_after = ranks_left(s),
		.lost_count = 1,
		.lost = { p->team.origin },
		.by_deadline = fault == TUTTI_ERR_TIMEOUT,
	};

	snprintf(loss.cause, sizeof(loss.cause), "%s", cause->text);
	return report_loss(t->report, &loss, why);
}

/* Who died may be replaced. */
static void await(struct server *s, const struct peer *p, tutti_result_t fault)
{
	struct survival *survival = &s->training->survival;
	struct why why = { "" };

	if (fault != TUTTI_ERR_PEER_LOST || survival->restarts == 0)
		return;
	survival->restarts--;
	if (newcomers_await(&s->newcomers, p->team.origin, (long)p->ask.pid,
			    now_s() + s->training->options->wait_s, &why) != TUTTI_OK)
		fprintf(stderr, "tutti-train: going on without a replacement of rank %d: %s\n",
			p->team.origin, why.text);
}

/* After the last epoch it is all the same. */
static tutti_result_t check_left(const struct server *s, const char *cause, struct why *why)
{
	const struct training *t = s->training;
	const int left = ranks_left(s);

	if (s->ended || left >= t->survival.min_ranks || newcomers_may_come(&s->newcomers, now_s()))
		return TUTTI_OK;
	return why_set(why, TUTTI_ERR_PEER_LOST,
		       "%d ranks are left, expected at least the %d of TUTTI_MIN_RANKS: %s", left,
		       t->survival.min_ranks, cause);
}

tutti_result_t server_lose(struct server *s, struct peer *p, tutti_result_t fault,
			   const struct why *cause, struct why *why)
{
	const int rank = peer_give_up(p);
	tutti_result_t result = TUTTI_OK;

	if (rank >= 0 && rank < (int)s->training->options->servers)
		return why_set(why, TUTTI_ERR_PEER_LOST,
			       "parameter server %d was lost, and its weights with it: %s; start "
			       "the training again, with --resume if there is a checkpoint",
			       rank, cause->text);
	p->computing = false;
	p->lost = true;
	p->hangs = fault == TUTTI_ERR_TIMEOUT;
	if (!server_is_first(s))
		return TUTTI_OK;
	tasks_lose(&s->tasks, p->number);
	result = tell_of_loss(s, p, fault, cause, why);
	await(s, p, fault);
	return result == TUTTI_OK ? check_left(s, cause->text, why) : result;
}

tutti_result_t server_settled(struct server *s, struct peer *p, tutti_result_t result,
			      const struct why *cause, struct why *why)
{
	return result == TUTTI_OK ? TUTTI_OK : server_lose(s, p, result, cause, why);
}

/* ---- newcomers */

tutti_result_t server_admit(struct server *s, int origin, struct why *why)
{
	tutti_comm_t grown;
	struct why cause = { "" };
	tutti_result_t result = team_admit(
		s->training->team, fmin(JOINED_S, tutti_comm_timeout(s->training->team->comm) / 2),
		&grown, &cause);

	if (result == TUTTI_ERR_PEER_LOST && team_check(s->training->team, why) != TUTTI_OK)
		return result;
	if (result != TUTTI_OK)
		return TUTTI_OK;
	if (server_is_first(s))
		newcomers_taken(&s->newcomers, origin);
	return server_add_worker(s, grown, origin, why);
}

tutti_result_t server_look_for_newcomers(struct server *s, struct why *why)
{
	const int origin = newcomers_look(&s->newcomers, now_s());
	tutti_result_t result;

	if (origin < 0)
		return s->newcomers.count > 0 ? check_left(s, NOBODY_CAME, why) : TUTTI_OK;
	result = server_say(s, WORD_NEWCOMER, NULL, why);
	if (result == TUTTI_OK)
		result = server_admit(s, origin, why);
	if (result == TUTTI_OK)
		fprintf(stderr, "tutti-train: rank %d is replaced, as worker %zu\n", origin,
			s->count - 1);
	return result;
}
