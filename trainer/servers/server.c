/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a server has of its workers, and when their gradients become an update of its shard.
 * The server waits for whichever message comes first. With --staleness K an update waits while it
 * would make what a worker computes more than K updates old, and is then made of all that has
 * come. With 0 it waits for everybody who computes: that is the synchronous parameter server. */
#include <stdlib.h>
#include <string.h>

#include "async.h"

/* ---- its life */

bool server_begin(struct training *t, struct async *a)
{
	const size_t shard = t->kept.count;
	struct server *s = &a->server;

	s->count = (size_t)sync_worker(t).count;
	s->turn = 0;
	free(s->numbers);
	s->numbers = malloc(s->count * shard * t->model.numbers->size + 1);
	if (!s->numbers)
		return why_no_memory("a parameter server");
	for (size_t i = 0; i < s->count; i++)
		s->peers[i] = (struct peer){
			.rank = (int)(t->options->servers + i),
			.numbers = numbers_at(t->model.numbers, s->numbers, i * shard),
		};
	return true;
}

void server_drain(struct server *s)
{
	for (size_t i = 0; i < s->count; i++) {
		tutti_wait(&s->peers[i].receiving);
		tutti_wait_all(s->peers[i].sending, 2);
	}
}

/* ---- messages */

static bool listen_to(struct training *t, struct peer *p)
{
	p->state = COMPUTES;
	return team_start_receive(t->team, TUTTI_UINT8, &p->report, sizeof(p->report), p->rank,
				  &p->receiving);
}

/* The worker's copy: the shard goes on. */
static bool send_weights(struct training *t, struct async *a, struct peer *p)
{
	const struct numbers *numbers = t->model.numbers;
	const size_t count = t->kept.count;

	p->version = a->version;
	memcpy(p->numbers, a->weights, count * numbers->size);
	return team_start_send(t->team, numbers->dtype, p->numbers, count, p->rank, &p->sending[1]);
}

/* Would others, at their pace in this epoch, do all that is left before this one has done a task?
 * Then they would wait for it. */
static bool is_too_slow(const struct server *s, const struct peer *p, size_t left)
{
	size_t others = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->peers[i].state != IDLE && s->peers[i].done > p->done)
			others += s->peers[i].done / p->done - 1;
	return others >= left;
}

static uint64_t next_task(struct async *a, const struct peer *p)
{
	struct server *s = &a->server;

	if (s->given == a->left || is_too_slow(s, p, a->left - s->given))
		return TASK_NONE;
	return a->todo[s->given++];
}

/* What it pushed has been dealt with. */
static bool answer(struct training *t, struct async *a, struct peer *p)
{
	p->done++;
	if (t->team->rank == 0) {
		p->task = next_task(a, p);
		if (!team_start_send(t->team, TUTTI_UINT8, &p->task, sizeof(p->task), p->rank,
				     &p->sending[0]))
			return false;
	}
	if (!send_weights(t, a, p))
		return false;
	if (t->team->rank > 0 || p->task != TASK_NONE)
		return listen_to(t, p);
	p->state = IDLE;
	return true;
}

/* ---- updates */

/* Would what a worker computes get too old? */
static bool may_update(const struct training *t, const struct async *a)
{
	for (size_t i = 0; i < a->server.count; i++) {
		const struct peer *p = &a->server.peers[i];

		if ((p->state == COMPUTES || p->state == PUSHES) &&
		    a->version + 1 - p->version > t->options->staleness)
			return false;
	}
	return true;
}

static int by_task(const void *a, const void *b)
{
	const uint64_t one = (*(struct peer *const *)a)->report.task,
		       other = (*(struct peer *const *)b)->report.task;

	return (one > other) - (one < other);
}

static void count_in(struct training *t, struct async *a, const struct peer *p)
{
	const uint64_t stale = a->version - p->version;

	a->came[p->report.task] = true;
	a->server.came++;
	t->summary.staleness[stale < STALENESS_MOST ? stale : STALENESS_MOST]++;
	numbers_f64.add(&a->sums, &p->report.sums, SUMS_NUMBERS);
}

/* The steps whose gradients have come, as many as they would have been. */
static void note_steps(struct training *t, const struct server *s)
{
	for (; t->ahead < s->came / t->workers; t->ahead++) {
		t->steps_begun++;
		report_step(t->report, t->ordered - 1, t->ahead, t->plan.epoch_steps);
	}
}

/* By all that has come, in order of tasks, if it may be made. What came before ranks were lost, and
 * was done again since another server lacked it, is not part of it. */
static bool update(struct training *t, struct async *a)
{
	struct server *s = &a->server;
	size_t count = 0;

	if (!may_update(t, a))
		return true;
	for (size_t i = 0; i < s->count; i++) {
		struct peer *p = &s->peers[i];

		if (p->state != HELD || a->came[p->report.task])
			continue;
		count_in(t, a, p);
		s->held[count++] = p;
	}
	qsort(s->held, count, sizeof(*s->held), by_task);
	if (count > 0)
		shard_update(t, s->held, count);
	note_steps(t, s);
	for (size_t i = 0; i < s->count; i++)
		if (s->peers[i].state == HELD && !answer(t, a, &s->peers[i]))
			return false;
	return true;
}

/* ---- what comes next */

static bool refuse(const struct training *t, const struct peer *p, const char *what)
{
	return why_invalid("rank %d sent %s, expected what this version sends; use one version of "
			   "tutti-train on all hosts",
			   t->team->origins[p->rank], what);
}

static bool on_report(struct training *t, struct async *a, struct peer *p)
{
	const struct task_report *r = &p->report;

	if (r->task == TASK_NONE && t->team->rank > 0) {
		p->state = IDLE; /* it may have been waited for */
		return update(t, a);
	}
	if (r->task >= tasks_of_epoch(t))
		return refuse(t, p, "gradients of a task that there is not");
	if (r->sums.samples != (double)task_of(t, r->task).samples.count)
		return refuse(t, p, "gradients of other samples than its task has");
	if (!(r->sums.correct >= 0 && r->sums.correct <= r->sums.samples))
		return refuse(t, p, "a number of correct answers that its task cannot have");
	/* it has got what was sent: `numbers` is free */
	if (!team_wait(t->team, &p->sending[0]) || !team_wait(t->team, &p->sending[1]))
		return false;
	p->state = PUSHES;
	return team_start_receive(t->team, t->model.numbers->gradients->dtype, p->numbers,
				  t->kept.count, p->rank, &p->receiving);
}

static bool on_gradients(struct training *t, struct async *a, struct peer *p)
{
	p->state = HELD;
	return update(t, a);
}

/* Until no worker has anything more to say. Of messages that have come the first in the list
 * counts. So workers take turns: two that keep a server busy would leave nothing to others. */
static bool serve(struct training *t, struct async *a)
{
	struct server *s = &a->server;

	for (;;) {
		size_t place;

		for (size_t i = 0; i < s->count; i++)
			s->requests[i] = s->peers[(s->turn + i) % s->count].receiving;
		const bool came = TEAM_CALL(t->team, tutti_wait_any(s->requests, s->count, &place),
					    "a message of a worker");

		if (place == s->count)
			return came;
		s->turn = (s->turn + place) % s->count;
		struct peer *p = &s->peers[s->turn++];

		p->receiving = NULL;
		if (!came || !(p->state == COMPUTES ? on_report(t, a, p) : on_gradients(t, a, p)))
			return false;
	}
}

/* Workers have the weights of all shards, and the first ones a task. */
bool server_epoch(struct training *t, struct async *a)
{
	struct server *s = &a->server;
	bool ok = true;

	s->came = 0;
	for (size_t i = 0; i < tasks_of_epoch(t); i++)
		s->came += a->came[i];
	t->ahead = s->came / t->workers;
	s->given = s->count < a->left ? s->count : a->left;
	for (size_t i = 0; i < s->count && ok; i++) {
		struct peer *p = &s->peers[i];

		p->done = 0;
		p->version = a->version;
		p->state = IDLE;
		if (i < s->given)
			ok = listen_to(t, p);
	}
	ok = ok && serve(t, a);
	server_drain(s); /* the weights that went out last */
	return ok;
}
