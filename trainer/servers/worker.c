/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: a worker of the asynchronous parameter server computes the tasks that server 0 gives,
 * each with the weights that it got last. */
#include "async.h"
#include "train.h"

static tutti_result_t start_receive(struct training *t, struct async *a, tutti_dtype_t dtype,
				    void *values, size_t count, unsigned server, struct why *why)
{
	team_be_patient(t->team, PATIENCE);
	return team_start_receive(t->team, dtype, values, count, (int)server,
				  &a->requests[a->pending++], why);
}

static tutti_result_t wait_all(struct training *t, struct async *a, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < a->pending && result == TUTTI_OK; i++)
		result = team_wait(t->team, &a->requests[i], why);
	a->pending = result == TUTTI_OK ? 0 : a->pending;
	return result;
}

/* Gradients to a server, and its weights from there. */
static tutti_result_t start_exchange(struct training *t, struct async *a, unsigned server,
				     const struct task_report *done, struct why *why)
{
	const struct slice shard = shard_slice(t, server);
	const struct numbers *gradients = t->model.numbers->gradients;
	tutti_result_t result = team_start_send(t->team, TUTTI_UINT8, done, sizeof(*done),
						(int)server, &a->requests[a->pending++], why);

	if (result == TUTTI_OK)
		result = team_start_send(t->team, gradients->dtype,
					 numbers_at(gradients, t->gradients, shard.first),
					 shard.count, (int)server, &a->requests[a->pending++], why);
	if (result == TUTTI_OK)
		result = start_receive(t, a, t->model.numbers->dtype,
				       state_next(&t->state, shard.first).weights, shard.count,
				       server, why);
	return result;
}

/* Replaces `task`, of which the gradients are there, by the next one. */
static tutti_result_t push(struct training *t, struct async *a, const struct task_report *done,
			   uint64_t *task, struct why *why)
{
	tutti_result_t result = start_receive(t, a, TUTTI_UINT8, task, sizeof(*task), 0, why);

	for (unsigned s = 0; s < t->options->servers && result == TUTTI_OK; s++)
		result = start_exchange(t, a, s, done, why);
	if (result == TUTTI_OK)
		result = wait_all(t, a, why);
	if (result != TUTTI_OK || *task == TASK_NONE || *task < tasks_of_epoch(t))
		return result;
	return why_set(why, TUTTI_ERR_INVALID,
		       "server 0 gave task %llu, expected less than %zu; use one version of "
		       "tutti-train on all hosts",
		       (unsigned long long)*task, tasks_of_epoch(t));
}

static tutti_result_t do_task(struct training *t, struct async *a, uint64_t *task, struct why *why)
{
	struct sums sums = { 0 };
	const tutti_result_t result = task_compute(t, *task, &sums, why);
	const struct task_report done = { *task, sums.loss, sums.correct, sums.samples };

	if (result != TUTTI_OK)
		return result;
	a->samples += sums.samples;
	return push(t, a, &done, task, why);
}

tutti_result_t worker_epoch(struct training *t, struct async *a, struct why *why)
{
	static const struct task_report none = { .task = TASK_NONE };
	const size_t index = (size_t)sync_worker(t).index;
	uint64_t task = index < a->left ? a->todo[index] : TASK_NONE;
	tutti_result_t result = TUTTI_OK;

	if (task == TASK_NONE) /* the servers know */
		return TUTTI_OK;
	t->model.weights = state_next(&t->state, 0).weights;
	while (result == TUTTI_OK && task != TASK_NONE)
		result = do_task(t, a, &task, why);
	for (unsigned s = 1; s < t->options->servers && result == TUTTI_OK; s++)
		result = team_start_send(t->team, TUTTI_UINT8, &none, sizeof(none), (int)s,
					 &a->requests[a->pending++], why);
	return result == TUTTI_OK ? wait_all(t, a, why) : result;
}
