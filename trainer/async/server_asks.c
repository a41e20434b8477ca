/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a worker asks of a server, and what it is answered. */
#include <stdio.h>

#include "server_state.h"

#define PARKED_PART                                                                                \
	0.25 /* of a deadline that a worker waits for a task before it is to ask again */

/* ---- answers */

static tutti_result_t answer(struct server *s, struct peer *p, enum answered kind,
			     bool with_weights, struct why *why)
{
	struct why cause = { "" };

	p->answer.kind = kind;
	p->answer.version = s->shard.version;
	if (with_weights)
		p->version = s->shard.version;
	return server_settled(s, p, peer_answer(p, with_weights ? s->shard.weights : NULL, &cause),
			      &cause, why);
}

tutti_result_t server_refuse(struct server *s, struct peer *p, struct why *why)
{
	fprintf(stderr,
		"tutti-train: server %d: worker %d sent %s, expected what this version sends; use "
		"one version of tutti-train on all hosts\n",
		server_number(s), p->number, p->wrong);
	/* with what it waits for behind that */
	return answer(s, p, ANSWER_REFUSED,
		      p->ask.kind == ASK_WEIGHTS ||
			      (p->ask.kind == ASK_UPDATE && p->ask.wants_weights > 0),
		      why);
}

static enum answered find_task(struct server *s, struct peer *p)
{
	if (!server_is_first(s))
		return ANSWER_NO_TASK;
	if (s->ended)
		return ANSWER_END;
	p->answer.task =
		s->open ? tasks_take(&s->tasks, p->number, p->takes_s, now_s()) : TASK_NONE;
	if (p->answer.task == TASK_NONE)
		return ANSWER_NO_TASK;
	p->given_s = now_s();
	return ANSWER_TASK;
}

/* It would take the server for lost, while others have all tasks and are slow or stopped. */
static bool waits_long(const struct peer *p)
{
	return now_s() - p->parked_s > PARKED_PART * tutti_comm_timeout(p->team.comm);
}

tutti_result_t server_give_tasks(struct server *s, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < s->count && result == TUTTI_OK; i++) {
		struct peer *p = s->peers[i];
		enum answered kind;

		if (p->state != PARKED)
			continue;
		kind = find_task(s, p);
		if (kind != ANSWER_NO_TASK || waits_long(p))
			result = answer(s, p, kind, false, why);
	}
	return result;
}

tutti_result_t server_answer_update(struct server *s, struct peer *p, struct why *why)
{
	const enum answered kind = find_task(s, p);

	p->computing = true; /* until it says that it has no task */
	return answer(s, p, kind, p->ask.wants_weights, why);
}

/* ---- what a worker asks */

/* It asks for its next task in this epoch. One that says so late, in the next epoch, or for the first
 * time, is about to get one there. */
static bool is_idle(const struct server *s, const struct peer *p)
{
	return p->ask.task != TASK_NONE && p->ask.task >= server_first_task(s);
}

static tutti_result_t on_ask_task(struct server *s, struct peer *p, struct why *why)
{
	const struct training *t = s->training;
	struct why cause = { "" };

	if (!server_is_first(s)) {
		p->computing = p->computing && !is_idle(s, p);
		return server_settled(s, p, peer_listen(p, &cause), &cause, why);
	}
	if (p->ask.options != options_hash(t->options) || p->ask.data != t->data_hash)
		return answer(s, p, ANSWER_REFUSED, false, why);
	p->state = PARKED;
	p->parked_s = now_s();
	const enum answered kind = find_task(s, p);

	p->computing = kind == ANSWER_TASK;
	p->version = s->shard.version;
	if (kind != ANSWER_NO_TASK)
		return answer(s, p, kind, false, why);
	return server_is_bounded(s) && s->open ? server_say(s, WORD_IDLE, p, why) : TUTTI_OK;
}

static void on_done(struct server *s, struct peer *p)
{
	const double took = now_s() - p->given_s;

	if (p->ask.done == TASK_NONE || !server_is_first(s))
		return;
	tasks_finish_one(&s->tasks, p->number, p->ask.done);
	p->takes_s = p->takes_s > 0 ? 0.75 * p->takes_s + 0.25 * took : took;
}

static const char *what_is_wrong(const struct server *s, const struct ask *a)
{
	const struct training *t = s->training;
	const uint64_t end = server_first_task(s) + compute_tasks_of_epoch(t);

	if (a->kind == 0 || a->kind >= ASK_KINDS)
		return "a message of no known kind";
	if (a->wants_weights > 1)
		return "a flag that is neither 0 nor 1";
	if (a->kind == ASK_UPDATE && a->task >= end)
		return "gradients of a task that nobody gave it";
	if (a->kind == ASK_UPDATE && a->samples != (double)compute_samples(t, a->task))
		return "gradients of other samples than its task has";
	if (a->kind == ASK_UPDATE && !(a->correct >= 0 && a->correct <= a->samples))
		return "a number of correct answers that its task cannot have";
	if (a->kind == ASK_UPDATE && a->age >= t->options->fetch_every)
		return "gradients of weights that are older than --fetch-every says";
	if (a->versions[server_number(s)] > s->shard.version)
		return "gradients of weights that there have not been";
	return NULL;
}

static tutti_result_t on_ask(struct server *s, struct peer *p, struct why *why)
{
	struct why cause = { "" };

	p->asks++;
	p->wrong = what_is_wrong(s, &p->ask);
	if (p->wrong && p->ask.kind != ASK_UPDATE) /* its gradients are on their way */
		return server_refuse(s, p, why);
	on_done(s, p);
	switch ((enum asked)p->ask.kind) {
	case ASK_TASK: return on_ask_task(s, p, why);
	case ASK_WEIGHTS: p->computing = true; return answer(s, p, ANSWER_NO_TASK, true, why);
	case ASK_UPDATE: return server_settled(s, p, peer_take(p, &cause), &cause, why);
	case ASK_LEAVE: return server_settled(s, p, peer_take_account(p, &cause), &cause, why);
	case ASK_KINDS: break;
	}
	return TUTTI_OK;
}

static tutti_result_t on_leave(struct server *s, struct peer *p)
{
	p->state = GONE;
	p->computing = false;
	return TUTTI_OK;
}

tutti_result_t server_go_on_with(struct server *s, struct peer *p, struct why *why)
{
	struct why cause = { "" };

	switch (p->state) {
	case LISTENING: return on_ask(s, p, why);
	case TAKING: return server_take_gradients(s, p, why);
	case ANSWERING: return server_settled(s, p, peer_listen(p, &cause), &cause, why);
	case LEAVING: return on_leave(s, p);
	case HELD:
	case PARKED:
	case GONE: break;
	}
	return TUTTI_OK;
}
