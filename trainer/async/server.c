/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the workers, and the shard that they push to. The server waits for whichever message comes
 * first, and deals with it before it looks at the next: all follows from the order in which they
 * come (server_asks.c, server_updates.c, server_losses.c). An epoch begins with all workers
 * computing, whether their first words of it have come or not: otherwise the one that comes first
 * would be alone. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server_state.h"

#define TURN_S 0.02 /* of waiting, between looks for what is late and who has come */

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
	if (result == TUTTI_OK && server_is_first(s))
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
		peer->patience = server_is_bounded(s) ? 1 : PATIENCE_LONGER;

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

/* ---- what comes next */

tutti_result_t server_say(struct server *s, enum word word, const struct peer *p, struct why *why)
{
	struct team *team = s->training->team;
	const struct say said = { word, p ? (uint64_t)p->number : 0, p ? p->asks : 0 };
	tutti_result_t result = TUTTI_OK;

	for (int r = 1; r < team->size && result == TUTTI_OK; r++)
		result = team_start_send(team, TUTTI_UINT8, &said, sizeof(said), r, NULL, why);
	return result;
}

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
	case WORD_NEWCOMER: result = server_admit(s, -1, why); break;
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
		return server_lose(s, p, result, &cause, why);
	return p->request[0] || p->request[1] ? TUTTI_OK : server_go_on_with(s, p, why);
}

/* Now and then: tasks may have become late, newcomers may have come. */
static tutti_result_t look_around(struct server *s, struct why *why)
{
	const double now = now_s();
	tutti_result_t result;

	if (!server_is_first(s) || now - s->looked_s < TURN_S)
		return TUTTI_OK;
	s->looked_s = now;
	result = server_give_tasks(s, why);
	return result == TUTTI_OK && !s->ended ? server_look_for_newcomers(s, why) : result;
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
		result = server_update_by_held(s, why); /* who was waited for may be gone */
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
	if (!server_is_first(s))
		return listen_to_first(s, why);
	tasks_begin(&s->tasks, server_first_task(s));
	return server_give_tasks(s, why);
}

static tutti_result_t end_epoch(struct server *s, struct why *why)
{
	tutti_result_t result =
		server_is_first(s) ? server_say(s, WORD_END_OF_EPOCH, NULL, why) : TUTTI_OK;

	s->open = false;
	s->epoch++;
	return result == TUTTI_OK ? journal_end_epoch(&s->journal, s->epoch, why) : result;
}

static bool served(const struct server *s, size_t steps)
{
	const struct training *t = s->training;

	if (steps == t->steps_per_epoch)
		return server_is_first(s) ? tasks_all_done(&s->tasks) : !s->open;
	return !server_is_first(s) || s->tasks.done * t->options->push_every >= steps * t->workers;
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
	result = server_is_first(s) ? server_give_tasks(s, why) : TUTTI_OK;
	while (result == TUTTI_OK && server_workers_there(s) > 0)
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
