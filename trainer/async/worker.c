/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a worker computes with. It waits for servers alone, and keeps nothing that would be
 * missed if it were gone. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute.h"
#include "protocol.h"
#include "shard.h"
#include "train.h"

struct labour {
	struct training *training;
	struct workplace place;
	void *accrued; /* owned: NULL where each task is one step from weights that come */
	tutti_request_t *requests; /* owned: [2 × servers] */
	size_t pending;
	struct ask ask;
	struct answer answers[SERVERS_MAX];
	uint64_t done; /* the task that all servers have had, if none of them was told */
	uint64_t age;  /* tasks since weights came */
};

static unsigned servers_of(const struct labour *w)
{
	return w->training->options->servers;
}

static tutti_result_t create(struct training *t, struct labour *w, struct why *why)
{
	const struct options *o = t->options;
	const size_t bytes = t->model.parameters * t->model.numbers->size;
	const bool steps = o->push_every > 1 || o->fetch_every > 1;

	*w = (struct labour){ .training = t, .done = TASK_NONE, .ask.task = TASK_NONE };
	w->requests = calloc(2 * (size_t)o->servers, sizeof(*w->requests));
	if (steps)
		w->accrued = malloc(bytes);
	if (!w->requests || (steps && !w->accrued))
		return why_no_memory(why, "a worker");
	w->place = (struct workplace){ .weights = state_now(&t->state, 0).weights,
				       .gradients = steps ? w->accrued : t->gradients };
	return TUTTI_OK;
}

static void finish(struct labour *w)
{
	for (size_t i = 0; i < w->pending; i++)
		tutti_wait(&w->requests[i]);
	free(w->requests);
	free(w->accrued);
}

/* ---- messages */

static void be_patient(const struct training *t)
{
	team_be_patient(t->team, options_bounded(t->options) ? PATIENCE_LONGER : PATIENCE);
}

static tutti_result_t wait_all(struct labour *w, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < w->pending && result == TUTTI_OK; i++)
		result = team_wait(w->training->team, &w->requests[i], why);
	w->pending = result == TUTTI_OK ? 0 : w->pending;
	return result;
}

/* To all servers, and behind it to each its part of `numbers`, unless that is NULL. */
static tutti_result_t ask(struct labour *w, enum asked kind, void *numbers, struct why *why)
{
	struct training *t = w->training;
	const struct numbers *gradients = t->model.numbers->gradients;
	tutti_result_t result = TUTTI_OK;

	w->ask.kind = kind;
	w->ask.done = w->done;
	w->ask.options = options_hash(t->options);
	w->ask.data = t->data_hash;
	w->ask.pid = (uint64_t)getpid();
	w->done = TASK_NONE;
	for (unsigned s = 0; s < servers_of(w) && result == TUTTI_OK; s++) {
		const struct slice shard = shard_slice(t, s);

		be_patient(t);
		result = team_start_send(t->team, TUTTI_UINT8, &w->ask, sizeof(w->ask), (int)s,
					 &w->requests[w->pending++], why);
		if (result != TUTTI_OK || !numbers)
			continue;
		be_patient(t);
		result = team_start_send(t->team, gradients->dtype,
					 numbers_at(gradients, numbers, shard.first), shard.count,
					 (int)s, &w->requests[w->pending++], why);
	}
	return result == TUTTI_OK ? wait_all(w, why) : result;
}

static tutti_result_t check_answer(const struct answer *a, struct why *why)
{
	if (a->kind > 0 && a->kind < ANSWER_KINDS && a->kind != ANSWER_REFUSED)
		return TUTTI_OK;
	return why_set(
		why, TUTTI_ERR_INVALID,
		a->kind == ANSWER_REFUSED
			? "the servers refuse this worker: it has other options or data, or is of "
			  "another version; start all ranks with the same command"
			: "a server sent what this version does not; use one version of "
			  "tutti-train on all hosts");
}

/* One of this training. */
static tutti_result_t check_task(const struct labour *w, struct why *why)
{
	const struct training *t = w->training;
	const uint64_t tasks = (uint64_t)compute_tasks_of_epoch(t) * t->options->epochs;

	if (w->answers[0].kind != ANSWER_TASK || w->answers[0].task < tasks)
		return TUTTI_OK;
	return why_set(why, TUTTI_ERR_INVALID,
		       "server 0 gave task %llu, expected less than %llu; use one version of "
		       "tutti-train on all hosts",
		       (unsigned long long)w->answers[0].task, (unsigned long long)tasks);
}

/* From the first `servers` of them. */
static tutti_result_t listen_to(struct labour *w, unsigned servers, bool with_weights,
				struct why *why)
{
	struct training *t = w->training;
	tutti_result_t result = TUTTI_OK;

	for (unsigned s = 0; s < servers && result == TUTTI_OK; s++) {
		const struct slice shard = shard_slice(t, s);

		be_patient(t);
		result = team_start_receive(t->team, TUTTI_UINT8, &w->answers[s],
					    sizeof(w->answers[s]), (int)s,
					    &w->requests[w->pending++], why);
		if (result != TUTTI_OK || !with_weights)
			continue;
		be_patient(t);
		result = team_start_receive(
			t->team, t->model.numbers->dtype,
			numbers_at(t->model.numbers, w->place.weights, shard.first), shard.count,
			(int)s, &w->requests[w->pending++], why);
	}
	if (result == TUTTI_OK)
		result = wait_all(w, why);
	for (unsigned s = 0; s < servers && result == TUTTI_OK; s++) {
		result = check_answer(&w->answers[s], why);
		if (with_weights)
			w->ask.versions[s] = w->answers[s].version;
	}
	w->age = with_weights ? 0 : w->age;
	return result;
}

/* ---- its life */

/* Wait until there is a task, and get weights for it. */
static tutti_result_t begin(struct labour *w, struct why *why)
{
	tutti_result_t result = ask(w, ASK_TASK, NULL, why);
	struct answer first;

	if (result == TUTTI_OK)
		result = listen_to(w, 1, false, why);
	if (result == TUTTI_OK)
		result = check_task(w, why);
	if (result != TUTTI_OK || w->answers[0].kind != ANSWER_TASK)
		return result;
	first = w->answers[0];
	result = ask(w, ASK_WEIGHTS, NULL, why);
	if (result == TUTTI_OK)
		result = listen_to(w, servers_of(w), true, why);
	w->answers[0].kind = first.kind;
	w->answers[0].task = first.task;
	return result;
}

/* The task that server 0 gave; on return it has answered again. */
static tutti_result_t do_task(struct labour *w, struct why *why)
{
	const struct options *o = w->training->options;
	const bool fetches = (w->age + 1) * o->push_every >= o->fetch_every;
	struct sums sums;
	tutti_result_t result;

	w->ask.task = w->answers[0].task;
	result = compute_task(w->training, &w->place, w->ask.task, !fetches, &sums, why);
	if (result != TUTTI_OK)
		return result;
	w->ask.age = w->age;
	w->ask.wants_weights = fetches;
	w->ask.loss = sums.loss;
	w->ask.correct = sums.correct;
	w->ask.samples = sums.samples;
	result = ask(w, ASK_UPDATE, w->place.gradients, why);
	w->age++;
	if (result == TUTTI_OK)
		result = listen_to(w, servers_of(w), fetches, why);
	if (result == TUTTI_OK)
		result = check_task(w, why);
	w->done = w->ask.task;
	return result;
}

static tutti_result_t leave(struct labour *w, struct why *why)
{
	const struct rank_account account = training_account(w->training);
	struct team *team = w->training->team;
	tutti_result_t result = ask(w, ASK_LEAVE, NULL, why);

	for (unsigned s = 0; s < servers_of(w) && result == TUTTI_OK; s++)
		result = team_start_send(team, TUTTI_UINT8, &account, sizeof(account), (int)s, NULL,
					 why);
	return result;
}

tutti_result_t worker_run(struct training *t, struct why *why)
{
	struct labour w;
	tutti_result_t result = create(t, &w, why);

	while (result == TUTTI_OK && w.answers[0].kind != ANSWER_END)
		result = w.answers[0].kind == ANSWER_TASK ? do_task(&w, why) : begin(&w, why);
	if (result == TUTTI_OK)
		result = leave(&w, why);
	finish(&w);
	return result;
}
