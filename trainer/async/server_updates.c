/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns when gradients become an update of a server's shard, and which: with --staleness K an update
 * waits while it would make what a worker computes more than K updates old, and is then made of all
 * that has come. With 0 it waits for everybody who computes: that is the synchronous parameter
 * server. */
#include <stdlib.h>
#include <string.h>

#include "server_state.h"

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

	for (size_t i = 0; i < s->count && server_is_bounded(s); i++)
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
	const uint64_t stale = s->shard.version - p->ask.versions[server_number(s)];

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
	return p->ask.task < server_first_task(s) || s->came[p->ask.task - server_first_task(s)];
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
		s->came[tasks[i] - server_first_task(s)] = true;
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
		result = server_answer_update(s, held[i], why);
	return result;
}

/* By all that has come, once that is allowed. */
tutti_result_t server_update_by_held(struct server *s, struct why *why)
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

tutti_result_t server_take_gradients(struct server *s, struct peer *p, struct why *why)
{
	tutti_result_t result;

	if (p->wrong)
		return server_refuse(s, p, why);
	if (!s->open || is_late(s, p)) {
		result = note(s, p, 0, why);
		return result == TUTTI_OK ? server_answer_update(s, p, why) : result;
	}
	p->state = HELD;
	return server_update_by_held(s, why);
}
