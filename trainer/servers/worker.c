/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: a worker of the asynchronous parameter server computes the tasks that server 0
 * gives, each with the weights that it got last. */
#include "async.h"

/* Who is late with gradients that the server waits for is found by the server before. */
static bool start_receive(struct training *t, struct async *a, tutti_dtype_t dtype, void *values,
			  size_t count, unsigned server)
{
	team_be_patient(t->team);
	return team_start_receive(t->team, dtype, values, count, (int)server,
				  &a->requests[a->pending++]);
}

/* Gradients to a server, and its weights from there. */
static bool start_exchange(struct training *t, struct async *a, unsigned server,
			   const struct task_report *done)
{
	const struct slice shard = kept_shard(t, server);
	const struct numbers *gradients = t->model.numbers->gradients;

	return team_start_send(t->team, TUTTI_UINT8, done, sizeof(*done), (int)server,
			       &a->requests[a->pending++]) &&
	       team_start_send(t->team, gradients->dtype,
			       numbers_at(gradients, t->model.gradients, shard.first), shard.count,
			       (int)server, &a->requests[a->pending++]) &&
	       start_receive(t, a, t->model.numbers->dtype,
			     state_next(&t->state, shard.first).weights, shard.count, server);
}

/* Replaces `task`, of which the gradients are there, by the next one. */
static bool push(struct training *t, struct async *a, const struct task_report *done,
		 uint64_t *task)
{
	bool ok = start_receive(t, a, TUTTI_UINT8, task, sizeof(*task), 0);

	for (unsigned s = 0; s < t->options->servers && ok; s++)
		ok = start_exchange(t, a, s, done);
	ok = ok && sync_wait_all(t, a->requests, &a->pending);
	if (!ok || *task == TASK_NONE || *task < tasks_of_epoch(t))
		return ok;
	return why_invalid("server 0 gave task %llu, expected less than %zu; use one version of "
			   "tutti-train on all hosts",
			   (unsigned long long)*task, tasks_of_epoch(t));
}

static bool do_task(struct training *t, struct async *a, uint64_t *task)
{
	struct task_report done = { .task = *task };

	if (!task_compute(t, *task, &done.sums))
		return false;
	a->samples += done.sums.samples;
	return push(t, a, &done, task);
}

bool worker_epoch(struct training *t, struct async *a)
{
	static const struct task_report none = { .task = TASK_NONE };
	const size_t index = (size_t)sync_worker(t).index;
	uint64_t task = index < a->left ? a->todo[index] : TASK_NONE;
	bool ok = true;

	if (task == TASK_NONE) /* the servers know */
		return true;
	t->model.weights = state_next(&t->state, 0).weights;
	while (ok && task != TASK_NONE)
		ok = do_task(t, a, &task);
	for (unsigned s = 1; s < t->options->servers && ok; s++)
		ok = team_start_send(t->team, TUTTI_UINT8, &none, sizeof(none), (int)s,
				     &a->requests[a->pending++]);
	return ok && sync_wait_all(t, a->requests, &a->pending);
}
