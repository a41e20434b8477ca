/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the workers, and the shard that they push to. The server waits for whichever message comes
 * first, and deals with it before it looks at the next: all follows from the order in which they
 * come.
 *
 * With --staleness K an update waits while it would make what a worker computes more than K updates
 * old, and is then made of all that has come. With 0 it waits for everybody who computes: that is the
 * synchronous parameter server. An epoch begins with all workers computing, whether their first words
 * of it have come or not: otherwise the one that comes first would be alone. */
#include "server.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute.h"
#include "journal.h"
#include "newcomers.h"
#include "peer.h"
#include "shard.h"
#include "train.h"

#define NOBODY_CAME "workers were lost, and no replacement came within --wait"
#define TURN_S	    0.02 /* of waiting, between looks for what is late and who has come */
#define JOINED_S    1.0	 /* that one who said it is there has to join; half a deadline at most */
#define PARKED_PART                                                                                \
	0.25 /* of a deadline that a worker waits for a task before it is to ask again */

/* What server 0 tells the others: an epoch is over; a newcomer is there; a worker that they think is
 * computing found no task. */
enum word { WORD_END_OF_EPOCH = 1, WORD_NEWCOMER, WORD_IDLE };

struct say {
	uint64_t word, worker;
	uint64_t asks; /* of the worker so far: what it has asked for since counts more */
};

struct server {
	struct training *training;
	struct shard shard;
	struct journal_writer journal;
	struct peer **peers; /* owned: [count]; those that are gone, too */
	size_t count;
	size_t turn; /* who is looked at first: the one behind the last that was served */
	tutti_request_t *requests; /* owned: [2 × count + 1]: room for all that is waited for */
	struct tasks tasks;	   /* server 0's */
	bool *came;		   /* owned: [tasks of an epoch]: the gradients have */
	unsigned epoch;		   /* from 0 */
	bool open, ended;	   /* it has begun, and is not over; all of them are over */
	struct say said;	   /* by server 0 */
	tutti_request_t next_word;
	struct sums sums; /* of the epoch */
	double samples;	  /* of all */
	struct staleness staleness;
	struct newcomers newcomers;
	double looked_s;
};

static int own_number(const struct server *s)
{
	return s->training->team->rank;
}

static bool is_first(const struct server *s)
{
	return own_number(s) == 0;
}

static bool bounded(const struct server *s)
{
	return options_bounded(s->training->options);
}

static uint64_t first_task(const struct server *s)
{
	return (uint64_t)s->epoch * compute_tasks_of_epoch(s->training);
}

/* ---- its life */

static struct journal_head head_of(const struct training *t)
{
	return (struct journal_head){
		.server = (unsigned)t->team->rank,
		.servers = t->options->servers,
		.workers = (unsigned)t->workers,
		.options = options_curve_hash(t->options, t->batch, (int)t->workers),
		.data = t->data_hash,
		.step = t->state.step,
	};
}

tutti_result_t server_create(struct training *t, struct server **out, struct why *why)
{
	struct server *s = calloc(1, sizeof(*s));
	const struct journal_head head = head_of(t);
	const size_t tasks = compute_tasks_of_epoch(t);
	tutti_result_t result;

	*out = s;
	if (!s)
		return why_no_memory(why, "a parameter server");
	s->training = t;
	s->epoch = (unsigned)(t->state.step / t->steps_per_epoch);
	s->requests = calloc(1, sizeof(*s->requests));
	s->came = calloc(tasks, sizeof(*s->came));
	result = s->requests && s->came ? TUTTI_OK : why_no_memory(why, "a parameter server");
	if (result == TUTTI_OK)
		result = shard_create(t, head.server, &s->shard, why);
	if (result == TUTTI_OK && is_first(s))
		result = tasks_create(tasks, &s->tasks, why);
	if (result == TUTTI_OK && t->options->journal)
		result = journal_open(t->options->journal, &head, &s->journal, why);
	return result;
}

/* A launcher that waits for all ranks to end is told that nobody waits for this one any more: the
 * library does that where the others go on without it. */
static void leave_out(const struct peer *p)
{
	tutti_comm_t left = NULL;

	tutti_comm_shrink(p->team.comm, &left);
	tutti_comm_destroy(left);
}

void server_destroy(struct server *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++) {
		if (s->peers[i]->hangs)
			leave_out(s->peers[i]);
		peer_destroy(s->peers[i]);
	}
	newcomers_finish(&s->newcomers);
	journal_close(&s->journal);
	tasks_finish(&s->tasks);
	shard_finish(&s->shard);
	free(s->peers);
	free(s->requests);
	free(s->came);
	free(s);
}

static tutti_result_t make_room(struct server *s, struct why *why)
{
	struct peer **peers = realloc(s->peers, (s->count + 1) * sizeof(*peers));
	tutti_request_t *requests = realloc(s->requests, (2 * s->count + 3) * sizeof(*requests));

	s->peers = peers ? peers : s->peers;
	s->requests = requests ? requests : s->requests;
	return peers && requests ? TUTTI_OK : why_no_memory(why, "a worker");
}

tutti_result_t server_add_worker(struct server *s, tutti_comm_t comm, int origin, struct why *why)
{
	const struct training *t = s->training;
	struct peer *peer = NULL;
	tutti_result_t result = peer_create(comm, origin, (int)t->options->servers,
					    t->model.numbers, s->shard.slice.count, &peer, why);

	if (peer)
		peer->patience = bounded(s) ? 1 : PATIENCE_LONGER;

	if (result == TUTTI_OK)
		result = make_room(s, why);
	if (result != TUTTI_OK) {
		if (peer)
			peer_destroy(peer);
		return result;
	}
	peer->number = (int)s->count;
	s->peers[s->count++] = peer;
	return peer_listen(peer, why);
}

void *server_velocity(struct server *s)
{
	return s->shard.velocity;
}

struct sums server_sums(const struct server *s)
{
	return s->sums;
}

void server_sum_up(const struct server *s, struct summary *summary)
{
	summary->staleness = s->staleness;
	team_message_plan(&s->peers[0]->team, s->peers[0]->servers, summary->algorithm,
			  summary->transports);
}

size_t server_accounts(const struct server *s, struct rank_account *out)
{
	for (size_t i = 0; i < s->count && out; i++) {
		out[i] = s->peers[i]->account;
		out[i].share = s->samples > 0 ? s->peers[i]->samples / s->samples : 0;
	}
	return s->count;
}

/* ---- losses */

static size_t workers_there(const struct server *s)
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

static tutti_result_t lose(struct server *s, struct peer *p, tutti_result_t fault,
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
	if (!is_first(s))
		return TUTTI_OK;
	tasks_lose(&s->tasks, p->number);
	result = tell_of_loss(s, p, fault, cause, why);
	await(s, p, fault);
	return result == TUTTI_OK ? check_left(s, cause->text, why) : result;
}

/* What a call about this worker came to: if it failed, the worker is lost, and others go on. */
static tutti_result_t settled(struct server *s, struct peer *p, tutti_result_t result,
			      const struct why *cause, struct why *why)
{
	return result == TUTTI_OK ? TUTTI_OK : lose(s, p, result, cause, why);
}

/* About worker `p`, if that is not NULL. The others listen as long as an epoch is open. */
static tutti_result_t say(struct server *s, enum word word, const struct peer *p, struct why *why)
{
	struct team *team = s->training->team;
	const struct say said = { word, p ? (uint64_t)p->number : 0, p ? p->asks : 0 };
	tutti_result_t result = TUTTI_OK;

	for (int r = 1; r < team->size && result == TUTTI_OK; r++)
		result = team_start_send(team, TUTTI_UINT8, &said, sizeof(said), r, NULL, why);
	return result;
}

/* ---- answers */

static tutti_result_t answer(struct server *s, struct peer *p, enum answered kind,
			     bool with_weights, struct why *why)
{
	struct why cause = { "" };

	p->answer.kind = kind;
	p->answer.version = s->shard.version;
	if (with_weights)
		p->version = s->shard.version;
	return settled(s, p, peer_answer(p, with_weights ? s->shard.weights : NULL, &cause), &cause,
		       why);
}

/* It does not keep to the protocol: an error of its own, or another version. It ends when it is told:
 * whose communicator a server aborts is told by all servers that this server is lost. */
static tutti_result_t refuse(struct server *s, struct peer *p, struct why *why)
{
	fprintf(stderr,
		"tutti-train: server %d: worker %d sent %s, expected what this version sends; use "
		"one version of tutti-train on all hosts\n",
		own_number(s), p->number, p->wrong);
	/* with what it waits for behind that */
	return answer(s, p, ANSWER_REFUSED,
		      p->ask.kind == ASK_WEIGHTS ||
			      (p->ask.kind == ASK_UPDATE && p->ask.wants_weights > 0),
		      why);
}

static enum answered find_task(struct server *s, struct peer *p)
{
	if (!is_first(s))
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
	return now_s() - p->parked_s > PARKED_PART * team_deadline();
}

/* To those that wait for a task. */
static tutti_result_t give_tasks(struct server *s, struct why *why)
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

/* The gradients of this worker have been dealt with. */
static tutti_result_t answer_update(struct server *s, struct peer *p, struct why *why)
{
	const enum answered kind = find_task(s, p);

	p->computing = true; /* until it says that it has no task */
	return answer(s, p, kind, p->ask.wants_weights, why);
}

/* ---- updates */

static tutti_result_t note(struct server *s, const struct peer *p, uint64_t update, struct why *why)
{
	struct journal_entry entry = {
		.update = update,
		.worker = (uint64_t)p->number,
		.task = p->ask.task,
		.age = p->ask.age,
		.seconds = now_s() - s->training->start_s,
	};

	memcpy(entry.versions, p->ask.versions, sizeof(entry.versions));
	return journal_add(&s->journal, &entry, why);
}

static bool may_update(const struct server *s)
{
	const uint64_t next = s->shard.version + 1, most = s->training->options->staleness;
	bool may = true;

	for (size_t i = 0; i < s->count && bounded(s); i++)
		if (s->peers[i]->computing && s->peers[i]->state != HELD)
			may = may && next - s->peers[i]->version <= most;
	return may;
}

static int by_task(const void *a, const void *b)
{
	const struct peer *const *one = a, *const *other = b;

	if ((*one)->ask.task != (*other)->ask.task)
		return (*one)->ask.task > (*other)->ask.task ? 1 : -1;
	return (*one)->number - (*other)->number;
}

static void count_in(struct server *s, struct peer *p)
{
	const uint64_t stale = s->shard.version - p->ask.versions[own_number(s)];

	s->staleness.count[stale < STALENESS_MOST ? stale : STALENESS_MOST]++;
	s->sums.loss += p->ask.loss;
	s->sums.correct += p->ask.correct;
	s->sums.samples += p->ask.samples;
	s->samples += p->ask.samples;
	p->samples += p->ask.samples;
}

/* A task that another worker has brought already: this came too late. */
static bool is_late(const struct server *s, const struct peer *p)
{
	return p->ask.task < first_task(s) || s->came[p->ask.task - first_task(s)];
}

/* In order of their tasks, each task once; behind them those that are not needed. They have waited with
 * the one that is: whoever is answered knows that its task is part of the shard. How many are needed. */
static size_t sort_held(const struct server *s, struct peer **held, size_t count)
{
	size_t needed = 0;

	qsort(held, count, sizeof(*held), by_task);
	for (size_t i = 0; i < count; i++) {
		struct peer *p = held[i];

		if (is_late(s, p) || (needed > 0 && held[needed - 1]->ask.task == p->ask.task))
			continue;
		held[i] = held[needed];
		held[needed++] = p;
	}
	return needed;
}

/* By the first `count` of them, which are sorted. */
static tutti_result_t update_by(struct server *s, struct peer **held, size_t count, struct why *why)
{
	void **gradients = malloc(count * sizeof(*gradients));
	uint64_t *tasks = malloc(count * sizeof(*tasks));
	tutti_result_t result = gradients && tasks ? TUTTI_OK : why_no_memory(why, "an update");

	for (size_t i = 0; i < count && result == TUTTI_OK; i++) {
		gradients[i] = held[i]->numbers;
		tasks[i] = held[i]->ask.task;
		s->came[tasks[i] - first_task(s)] = true;
		count_in(s, held[i]);
		result = note(s, held[i], s->shard.version + 1, why);
	}
	if (result == TUTTI_OK)
		shard_update(s->training, &s->shard, gradients, tasks, count);
	free(gradients);
	free(tasks);
	return result;
}

static tutti_result_t update(struct server *s, struct peer **held, size_t count, struct why *why)
{
	const size_t needed = sort_held(s, held, count);
	tutti_result_t result = needed > 0 ? update_by(s, held, needed, why) : TUTTI_OK;

	for (size_t i = needed; i < count && result == TUTTI_OK; i++)
		result = note(s, held[i], 0, why);
	for (size_t i = 0; i < count; i++)
		held[i]->state = ANSWERING; /* also those whose turn comes after a loss */
	for (size_t i = 0; i < count && result == TUTTI_OK; i++)
		result = answer_update(s, held[i], why);
	return result;
}

/* By all that has come, once that is allowed. */
static tutti_result_t update_by_held(struct server *s, struct why *why)
{
	struct peer **held = malloc(s->count * sizeof(*held));
	size_t count = 0;
	tutti_result_t result = held ? TUTTI_OK : why_no_memory(why, "an update");

	for (size_t i = 0; i < s->count && result == TUTTI_OK; i++)
		if (s->peers[i]->state == HELD)
			held[count++] = s->peers[i];
	if (result == TUTTI_OK && count > 0 && may_update(s))
		result = update(s, held, count, why);
	free(held);
	return result;
}

static tutti_result_t on_gradients(struct server *s, struct peer *p, struct why *why)
{
	tutti_result_t result;

	if (p->wrong)
		return refuse(s, p, why);
	if (!s->open || is_late(s, p)) {
		result = note(s, p, 0, why);
		return result == TUTTI_OK ? answer_update(s, p, why) : result;
	}
	p->state = HELD;
	return update_by_held(s, why);
}

/* ---- what a worker asks */

/* It asks for its next task in this epoch. One that says so late, in the next epoch, or for the first
 * time, is about to get one there. */
static bool is_idle(const struct server *s, const struct peer *p)
{
	return p->ask.task != TASK_NONE && p->ask.task >= first_task(s);
}

static tutti_result_t on_ask_task(struct server *s, struct peer *p, struct why *why)
{
	const struct training *t = s->training;
	struct why cause = { "" };

	if (!is_first(s)) {
		p->computing = p->computing && !is_idle(s, p);
		return settled(s, p, peer_listen(p, &cause), &cause, why);
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
	return bounded(s) && s->open ? say(s, WORD_IDLE, p, why) : TUTTI_OK;
}

static void on_done(struct server *s, struct peer *p)
{
	const double took = now_s() - p->given_s;

	if (p->ask.done == TASK_NONE || !is_first(s))
		return;
	tasks_finish_one(&s->tasks, p->number, p->ask.done);
	p->takes_s = p->takes_s > 0 ? 0.75 * p->takes_s + 0.25 * took : took;
}

static const char *what_is_wrong(const struct server *s, const struct ask *a)
{
	const struct training *t = s->training;
	const uint64_t end = first_task(s) + compute_tasks_of_epoch(t);

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
	if (a->versions[own_number(s)] > s->shard.version)
		return "gradients of weights that there have not been";
	return NULL;
}

static tutti_result_t on_ask(struct server *s, struct peer *p, struct why *why)
{
	struct why cause = { "" };

	p->asks++;
	p->wrong = what_is_wrong(s, &p->ask);
	if (p->wrong && p->ask.kind != ASK_UPDATE) /* its gradients are on their way */
		return refuse(s, p, why);
	on_done(s, p);
	switch ((enum asked)p->ask.kind) {
	case ASK_TASK: return on_ask_task(s, p, why);
	case ASK_WEIGHTS: p->computing = true; return answer(s, p, ANSWER_NO_TASK, true, why);
	case ASK_UPDATE: return settled(s, p, peer_take(p, &cause), &cause, why);
	case ASK_LEAVE: return settled(s, p, peer_take_account(p, &cause), &cause, why);
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

/* What was in flight with this worker has ended well. */
static tutti_result_t go_on_with(struct server *s, struct peer *p, struct why *why)
{
	struct why cause = { "" };

	switch (p->state) {
	case LISTENING: return on_ask(s, p, why);
	case TAKING: return on_gradients(s, p, why);
	case ANSWERING: return settled(s, p, peer_listen(p, &cause), &cause, why);
	case LEAVING: return on_leave(s, p);
	case HELD:
	case PARKED:
	case GONE: break;
	}
	return TUTTI_OK;
}

/* ---- newcomers */

/* Collective over the servers. One that does not come after all is gone on without. */
static tutti_result_t admit(struct server *s, int origin, struct why *why)
{
	tutti_comm_t grown;
	struct why cause = { "" };
	tutti_result_t result =
		team_admit(s->training->team, fmin(JOINED_S, team_deadline() / 2), &grown, &cause);

	if (result == TUTTI_ERR_PEER_LOST && team_check(s->training->team, why) != TUTTI_OK)
		return result;
	if (result != TUTTI_OK)
		return TUTTI_OK;
	if (is_first(s))
		newcomers_taken(&s->newcomers, origin);
	return server_add_worker(s, grown, origin, why);
}

static tutti_result_t look_for_newcomers(struct server *s, struct why *why)
{
	const int origin = newcomers_look(&s->newcomers, now_s());
	tutti_result_t result;

	if (origin < 0)
		return s->newcomers.count > 0 ? check_left(s, NOBODY_CAME, why) : TUTTI_OK;
	result = say(s, WORD_NEWCOMER, NULL, why);
	if (result == TUTTI_OK)
		result = admit(s, origin, why);
	if (result == TUTTI_OK)
		fprintf(stderr, "tutti-train: rank %d is replaced, as worker %zu\n", origin,
			s->count - 1);
	return result;
}

/* ---- what comes next */

/* Of those that have ended the first in the list counts. So workers take turns: otherwise two that keep
 * a server busy would leave nothing to those behind them. */
static struct peer *peer_in_turn(const struct server *s, size_t place)
{
	return s->peers[(s->turn + place) % s->count];
}

/* All requests in flight: the first place for server 0's word, and two for each worker. */
static bool gather(struct server *s)
{
	bool some = s->next_word != NULL;

	s->requests[0] = s->next_word;
	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < 2; k++) {
			s->requests[1 + 2 * i + k] = peer_in_turn(s, i)->request[k];
			some |= s->requests[1 + 2 * i + k] != NULL;
		}
	return some;
}

/* It has nothing to say for as long as an epoch takes. */
static tutti_result_t listen_to_first(struct server *s, struct why *why)
{
	struct team *team = s->training->team;

	team_be_patient(team, INT_MAX);
	return team_start_receive(team, TUTTI_UINT8, &s->said, sizeof(s->said), 0, &s->next_word,
				  why);
}

/* The word and what the worker asks come by different ways: it may have a task by now. */
static void on_idle(struct server *s)
{
	struct peer *p = s->said.worker < s->count ? s->peers[s->said.worker] : NULL;

	if (p && p->asks <= s->said.asks)
		p->computing = false;
}

static tutti_result_t on_word(struct server *s, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	switch ((enum word)s->said.word) {
	case WORD_NEWCOMER: result = admit(s, -1, why); break;
	case WORD_END_OF_EPOCH: s->open = false; break;
	case WORD_IDLE: on_idle(s); break;
	}
	return result == TUTTI_OK && s->open ? listen_to_first(s, why) : result;
}

/* What the library says of ranks is about the communicator with this worker. */
static tutti_result_t message_ended(struct peer *p, tutti_result_t result, struct why *why)
{
	char what[96];

	snprintf(what, sizeof(what), "a message of rank %d, which is rank %d with its servers,",
		 p->team.origin, p->servers);
	return team_ended(&p->team, result, what, why);
}

static tutti_result_t on_request(struct server *s, size_t index, tutti_result_t result,
				 struct why *why)
{
	struct peer *p = index > 0 ? peer_in_turn(s, (index - 1) / 2) : NULL;
	struct why cause = { "" };

	if (!p) {
		s->next_word = NULL;
		result = team_ended(s->training->team, result, "a word of server 0", why);
		return result == TUTTI_OK ? on_word(s, why) : result;
	}
	s->turn = (size_t)p->number + 1;
	p->request[(index - 1) % 2] = NULL;
	result = message_ended(p, result, &cause);
	if (result != TUTTI_OK)
		return lose(s, p, result, &cause, why);
	return p->request[0] || p->request[1] ? TUTTI_OK : go_on_with(s, p, why);
}

/* Now and then: tasks may have become late, newcomers may have come. */
static tutti_result_t look_around(struct server *s, struct why *why)
{
	const double now = now_s();
	tutti_result_t result;

	if (!is_first(s) || now - s->looked_s < TURN_S)
		return TUTTI_OK;
	s->looked_s = now;
	result = give_tasks(s, why);
	return result == TUTTI_OK && !s->ended ? look_for_newcomers(s, why) : result;
}

static tutti_result_t serve_next(struct server *s, struct why *why)
{
	static const struct timespec turn = { 0, (long)(TURN_S * 1e9) };
	const size_t places = 2 * s->count + 1;
	const double begun = now_s();
	size_t index = places;
	tutti_result_t result = TUTTI_OK;

	if (gather(s))
		result = tutti_wait_any_for(s->requests, places, TURN_S, &index);
	else
		nanosleep(&turn, NULL); /* all workers wait for a task, or are gone */
	s->training->team->blocked_s += now_s() - begun;
	result = index < places ? on_request(s, index, result, why) : TUTTI_OK;
	if (result == TUTTI_OK)
		result = update_by_held(s, why); /* who was waited for may be gone */
	return result == TUTTI_OK ? look_around(s, why) : result;
}

/* ---- epochs */

/* A newcomer reads its data first: it has not asked for anything until then. */
static bool is_at_work(const struct server *s, const struct peer *p)
{
	return p->state != GONE && (p->asks > 0 || (size_t)p->number < s->training->workers);
}

static tutti_result_t begin_epoch(struct server *s, struct why *why)
{
	const struct training *t = s->training;

	s->open = true;
	s->sums = (struct sums){ 0 };
	memset(s->came, 0, compute_tasks_of_epoch(t) * sizeof(*s->came));
	for (size_t i = 0; i < s->count; i++) {
		struct peer *p = s->peers[i];

		/* what it computes may be of weights that it got before: a task that server 0 gave
		 * in this epoch already, with weights that this server gave in the last one */
		p->version = p->computing ? p->version : s->shard.version;
		p->computing = is_at_work(s, p);
	}
	if (!is_first(s))
		return listen_to_first(s, why);
	tasks_begin(&s->tasks, first_task(s));
	return give_tasks(s, why);
}

static tutti_result_t end_epoch(struct server *s, struct why *why)
{
	tutti_result_t result = is_first(s) ? say(s, WORD_END_OF_EPOCH, NULL, why) : TUTTI_OK;

	s->open = false;
	s->epoch++;
	return result == TUTTI_OK ? journal_end_epoch(&s->journal, s->epoch, why) : result;
}

static bool served(const struct server *s, size_t steps)
{
	const struct training *t = s->training;

	if (steps == t->steps_per_epoch)
		return is_first(s) ? tasks_all_done(&s->tasks) : !s->open;
	return !is_first(s) || s->tasks.done * t->options->push_every >= steps * t->workers;
}

tutti_result_t server_serve(struct server *s, size_t steps, struct why *why)
{
	const bool last = steps == s->training->steps_per_epoch;
	tutti_result_t result = s->open ? TUTTI_OK : begin_epoch(s, why);

	while (result == TUTTI_OK && !served(s, steps))
		result = serve_next(s, why);
	return result == TUTTI_OK && last ? end_epoch(s, why) : result;
}

tutti_result_t server_end(struct server *s, struct why *why)
{
	tutti_result_t result;

	s->ended = true;
	result = is_first(s) ? give_tasks(s, why) : TUTTI_OK;
	while (result == TUTTI_OK && workers_there(s) > 0)
		result = serve_next(s, why);
	for (size_t i = 0; i < s->count; i++) {
		s->training->team->bytes += s->peers[i]->team.bytes;
		s->training->team->received += s->peers[i]->team.received;
	}
	return result;
}

void server_abort(struct server *s, const struct why *why)
{
	for (size_t i = 0; s && i < s->count; i++)
		if (s->peers[i]->state != GONE)
			tutti_comm_abort(s->peers[i]->team.comm, why->text);
}
