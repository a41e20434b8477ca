/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a server has of its workers, and when their gradients become an update of its shard. The
 * server waits for whichever message comes first. With --staleness K an update waits while it would
 * make what a worker computes more than K updates old, and is then made of all that has come. With 0
 * it waits for everybody who computes: that is the synchronous parameter server. */
#include <stdlib.h>
#include <string.h>

#include "async.h"

enum worker_state {
	COMPUTES, /* or its report is on its way */
	PUSHES,	  /* its gradients are */
	HELD,	  /* they have come, and wait for an update */
	IDLE,	  /* it has no task in this epoch any more */
};

struct peer {
	int rank;
	enum worker_state state;
	tutti_request_t receiving, sending[2]; /* in flight, or NULL */
	struct task_report report;
	uint64_t task;	  /* server 0's: its next */
	void *numbers;	  /* gradients of the shard that come, weights that go */
	uint64_t version; /* of the weights that it has */
	size_t done;	  /* tasks in this epoch */
};

struct server {
	struct peer *peers; /* owned: [count] */
	size_t count;
	size_t turn; /* who is looked at first: the one behind the last that was served */
	tutti_request_t *requests; /* owned: [count] */
	struct push *pushes;	   /* owned: [count] */
	void *numbers;		   /* owned: all peers' */
	size_t given;		   /* tasks of those to be done */
	size_t came;		   /* tasks of the epoch */
};

/* ---- its life */

void server_destroy(struct server *s)
{
	if (!s)
		return;
	free(s->peers);
	free(s->requests);
	free(s->pushes);
	free(s->numbers);
	free(s);
}

bool server_create(struct training *t, struct async *a)
{
	const size_t count = (size_t)sync_worker(t).count, shard = t->kept.count;
	struct server *s = calloc(1, sizeof(*s));

	server_destroy(a->server);
	a->server = s;
	if (!s)
		return why_no_memory("a parameter server");
	s->count = count;
	s->peers = calloc(count, sizeof(*s->peers));
	s->requests = calloc(count, sizeof(*s->requests));
	s->pushes = calloc(count, sizeof(*s->pushes));
	s->numbers = malloc(count * shard * t->model.numbers->size + 1);
	if (!s->peers || !s->requests || !s->pushes || !s->numbers)
		return why_no_memory("a parameter server");
	for (size_t i = 0; i < count; i++) {
		s->peers[i].rank = (int)(t->options->servers + i);
		s->peers[i].numbers = numbers_at(t->model.numbers, s->numbers, i * shard);
	}
	return true;
}

void server_drain(struct server *s)
{
	for (size_t i = 0; s && i < s->count; i++) {
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

/* Would others, at their pace in this epoch, do all that is left before this one has done a task? Then
 * they would wait for it. */
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
	struct server *s = a->server;

	if (s->given == a->left || is_too_slow(s, p, a->left - s->given))
		return TASK_NONE;
	return a->todo[s->given++];
}

/* What it pushed has been dealt with. */
static bool answer(struct training *t, struct async *a, struct peer *p)
{
	bool ok = true;

	p->done++;
	if (t->team->rank == 0) {
		p->task = next_task(a, p);
		ok = team_start_send(t->team, TUTTI_UINT8, &p->task, sizeof(p->task), p->rank,
				     &p->sending[0]);
	}
	ok = ok && send_weights(t, a, p);
	if (ok && (t->team->rank > 0 || p->task != TASK_NONE))
		return listen_to(t, p);
	p->state = IDLE;
	return ok;
}

/* ---- updates */

static bool may_update(const struct training *t, const struct async *a)
{
	const uint64_t next = a->version + 1;
	bool may = true;

	for (size_t i = 0; i < a->server->count; i++) {
		const struct peer *p = &a->server->peers[i];

		if (p->state == COMPUTES || p->state == PUSHES)
			may = may && next - p->version <= t->options->staleness;
	}
	return may;
}

static int by_task(const void *a, const void *b)
{
	const uint64_t one = ((const struct push *)a)->task, other = ((const struct push *)b)->task;

	return (one > other) - (one < other);
}

static void count_in(struct async *a, const struct peer *p)
{
	const uint64_t stale = a->version - p->version;

	a->came[p->report.task] = true;
	a->server->came++;
	a->staleness.count[stale < STALENESS_MOST ? stale : STALENESS_MOST]++;
	a->sums.loss += p->report.loss;
	a->sums.correct += p->report.correct;
	a->sums.samples += p->report.samples;
}

/* The steps whose gradients have come, as many as they would have been. */
static void note_steps(struct training *t, const struct server *s)
{
	for (; t->ahead < s->came / t->workers; t->ahead++) {
		t->steps_begun++;
		report_step(t->report, t->ordered - 1, t->ahead, t->steps_per_epoch);
	}
}

/* By all that has come, in order of tasks. What came before ranks were lost, and was done again since
 * another server lacked it, is not part of it. */
static bool update(struct training *t, struct async *a)
{
	struct server *s = a->server;
	size_t count = 0;
	bool ok = true;

	for (size_t i = 0; i < s->count; i++) {
		const struct peer *p = &s->peers[i];

		if (p->state != HELD || a->came[p->report.task])
			continue;
		count_in(a, p);
		s->pushes[count++] = (struct push){ p->numbers, p->report.task, p->version };
	}
	qsort(s->pushes, count, sizeof(*s->pushes), by_task);
	if (count > 0)
		shard_update(t, s->pushes, count);
	note_steps(t, s);
	for (size_t i = 0; i < s->count && ok; i++)
		if (s->peers[i].state == HELD)
			ok = answer(t, a, &s->peers[i]);
	return ok;
}

/* ---- what comes next */

static bool refuse(const struct peer *p, const char *what)
{
	return why_set(TUTTI_ERR_INVALID,
		       "rank %d sent %s, expected what this version sends; use one version of "
		       "tutti-train on all hosts",
		       p->rank, what);
}

static bool on_report(struct training *t, struct async *a, struct peer *p)
{
	const struct task_report *r = &p->report;

	if (r->task == TASK_NONE && t->team->rank > 0) {
		p->state = IDLE; /* it may have been waited for */
		return !may_update(t, a) || update(t, a);
	}
	if (r->task >= tasks_of_epoch(t))
		return refuse(p, "gradients of a task that there is not");
	if (r->samples != (double)task_of(t, r->task).samples.count)
		return refuse(p, "gradients of other samples than its task has");
	if (!(r->correct >= 0 && r->correct <= r->samples))
		return refuse(p, "a number of correct answers that its task cannot have");
	/* it has got what was sent: `numbers` is free */
	if (!team_wait(t->team, &p->sending[0]) || !team_wait(t->team, &p->sending[1]))
		return false;
	p->state = PUSHES;
	return team_start_receive(t->team, t->model.numbers->gradients->dtype, p->numbers,
				  t->kept.count, p->rank, &p->receiving);
}

static bool on_message(struct training *t, struct async *a, struct peer *p)
{
	if (p->state == COMPUTES)
		return on_report(t, a, p);
	p->state = HELD;
	return !may_update(t, a) || update(t, a);
}

/* Of messages that have come the first in the list counts. So workers take turns: otherwise two that keep
 * a server busy would leave nothing to those behind them. */
static bool serve_next(struct training *t, struct async *a)
{
	struct server *s = a->server;
	const double begun = now_s();
	tutti_result_t result;
	size_t place;
	struct peer *p;

	for (size_t i = 0; i < s->count; i++)
		s->requests[i] = s->peers[(s->turn + i) % s->count].receiving;
	result = tutti_wait_any(s->requests, s->count, &place);
	t->team->blocked_s += now_s() - begun;
	s->turn = (s->turn + place) % s->count;
	p = &s->peers[s->turn++];
	p->receiving = NULL;
	return team_ended(t->team, result, "a message of a worker") && on_message(t, a, p);
}

static bool all_idle(const struct server *s)
{
	bool idle = true;

	for (size_t i = 0; i < s->count; i++)
		idle = idle && s->peers[i].state == IDLE;
	return idle;
}

/* Workers have the weights of all shards, and the first ones a task. */
bool server_epoch(struct training *t, struct async *a)
{
	struct server *s = a->server;
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
	while (ok && !all_idle(s))
		ok = serve_next(t, a);
	server_drain(s); /* the weights that went out last */
	return ok;
}
