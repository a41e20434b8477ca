/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the asynchronous parameter server as a way to train: Downpour SGD (Dean et al. 2012,
 * section 4.1; algorithms 7.1 and 7.2 of the supplement).
 *
 * In an epoch no worker waits for another. At its end all ranks get the weights. Until then the
 * state of the training is that of its beginning, on all ranks: servers make updates of a copy,
 * and workers compute with another. When a worker is lost, the servers still have their copies,
 * and know what they are made of: the others do the rest of the epoch. When a server is lost, all
 * begin the epoch again. */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "pipeline.h"

static void finish(struct training *t)
{
	struct async *a = t->way;

	free(a->server.peers);
	free(a->server.requests);
	free(a->server.held);
	free(a->server.numbers);
	free(a->weights);
	free(a->todo);
	free(a->came);
	free(a->requests);
}

/* ---- tasks follow from the options, gradients from a task and weights */

size_t tasks_of_epoch(const struct training *t)
{
	return t->plan.epoch_steps * t->workers;
}

struct task task_of(const struct training *t, uint64_t task)
{
	const size_t step = (size_t)(task / t->workers);
	const struct slice batch = training_batch(t, step),
			   mine = slice_of(batch.count, (int)(task % t->workers), (int)t->workers);

	return (struct task){ (t->ordered - 1) * t->plan.epoch_steps + step,
			      { batch.first + mine.first, mine.count },
			      batch.count };
}

bool task_compute(struct training *t, uint64_t number, struct sums *sums)
{
	const struct task task = task_of(t, number);
	const double begun = now_s();
	const bool ok = pipeline_gradients(t, task.samples, 1.0 / (double)task.batch, sums);

	shares_note(t, task.samples.count, now_s() - begun);
	return ok;
}

/* ---- a shard, in place */

void shard_update(struct training *t, struct peer *const *held, size_t count)
{
	const struct numbers *numbers = t->model.numbers;
	struct async *a = t->way;
	const struct trained own = trained_at(numbers, a->weights, t->kept.now, t->kept.count, 0);
	struct rule rule = t->options->rule;

	rule.rate = rate_at(&t->plan, task_of(t, held[0]->report.task).step);
	for (size_t i = 0; i < count; i++) {
		const struct task task = task_of(t, held[i]->report.task);

		rule.part += (double)task.samples.count / (double)task.batch;
		if (i > 0)
			numbers->gradients->add(held[0]->numbers, held[i]->numbers, t->kept.count);
	}
	if (rule.part > 0)
		optimizer_update(t->options->optimizer, numbers, &rule, own, held[0]->numbers,
				 t->kept.count, own);
	a->version++;
}

/* ---- the start, and after losses */

/* Do all servers have the shards that are theirs now, of one state? Else all begin anew: one that
 * is new has none, one that was another server has that one's; and where a rank was lost before
 * all had begun and come to an epoch, some have and others have not. */
static bool find_servers(struct training *t, bool *all_there)
{
	const struct async *a = t->way;
	double lacking = kept_serves(t) && (a->epoch == 0 || !kept_is_of_shard(t));
	const bool ok = team_sum(t->team, &lacking, 1);

	*all_there = lacking == 0;
	return ok;
}

/* From the state that all ranks have. */
static bool begin_shard(struct training *t)
{
	const struct slice shard = t->buckets.bucket[0].mine;
	const size_t bytes = shard.count * t->model.numbers->size;
	struct async *a = t->way;

	a->epoch = 0;
	a->sums = *state_sums(&t->state);
	a->version = 0;
	free(a->weights);
	a->weights = malloc(bytes + 1);
	if (!a->weights)
		return why_no_memory("a shard of the weights");
	memcpy(a->weights, state_now(&t->state, shard.first).weights, bytes);
	return kept_renew(t, t->team->rank == 0 ? "all weights" : NULL);
}

static bool take_memory(const struct training *t, struct async *a)
{
	const size_t tasks = tasks_of_epoch(t);
	struct server *s = &a->server;

	a->todo = malloc(tasks * sizeof(*a->todo));
	a->came = calloc(tasks, sizeof(*a->came));
	a->requests = calloc(3 * (size_t)t->options->servers + 1, sizeof(*a->requests));
	s->peers = calloc(t->workers, sizeof(*s->peers));
	s->requests = calloc(t->workers, sizeof(*s->requests));
	s->held = calloc(t->workers, sizeof(*s->held));
	return (a->todo && a->came && a->requests && s->peers && s->requests && s->held) ||
	       why_no_memory("the parameter servers");
}

static bool begin(struct training *t)
{
	struct async *a = t->way;
	bool all_there = false;

	return (a->todo || take_memory(t, a)) && kept_lay_out(t) && find_servers(t, &all_there) &&
	       ((all_there && !t->resumes) || begin_shard(t)) &&
	       (!kept_serves(t) || server_begin(t, a));
}

/* ---- an epoch */

/* To all ranks, as the weights of the next state. */
static bool gather_shards(struct training *t)
{
	const struct async *a = t->way;
	const struct bucket *all = &t->buckets.bucket[0];

	if (kept_serves(t))
		memcpy(state_next(&t->state, all->mine.first).weights, a->weights,
		       all->mine.count * t->model.numbers->size);
	team_be_patient(t->team);
	return team_start_gather(t->team, t->model.numbers, state_next(&t->state, 0).weights,
				 all->counts, NULL);
}

/* Those of which a server lacks the gradients. */
static bool find_todo(struct training *t)
{
	const size_t tasks = tasks_of_epoch(t);
	struct async *a = t->way;
	double *came = calloc(tasks, sizeof(*came));
	bool ok;

	if (!came)
		return why_no_memory("the tasks of an epoch");
	for (size_t i = 0; i < tasks; i++)
		came[i] = kept_serves(t) && a->came[i];
	ok = team_sum(t->team, came, tasks);
	a->left = 0;
	for (size_t i = 0; i < tasks; i++)
		if (came[i] < t->options->servers)
			a->todo[a->left++] = i;
	free(came);
	return ok;
}

static bool epoch(struct training *t, unsigned number)
{
	struct async *a = t->way;

	if (t->state.step >= (number + 1) * t->plan.epoch_steps)
		return true; /* ranks were lost behind its end */
	if (a->epoch != number + 1) {
		a->sums = (struct sums){ 0 };
		memset(a->came, 0, tasks_of_epoch(t) * sizeof(*a->came));
	}
	training_order(t, number);
	if (!find_todo(t))
		return false;
	a->epoch = number + 1; /* all have begun */
	if (!gather_shards(t))
		return false;
	return kept_serves(t) ? server_epoch(t, a) : worker_epoch(t, a);
}

/* Each server has its shard, server 0 the sums, and each worker its part of all samples. */
static bool fetch(struct training *t)
{
	const struct async *a = t->way;
	struct {
		struct sums sums;
		double samples;
	} all = { t->team->rank == 0 ? a->sums : (struct sums){ 0 }, a->samples };

	if (!gather_shards(t) || !team_sum(t->team, (double *)&all, sizeof(all) / sizeof(double)))
		return false;
	state_adopt(&t->state, (t->report->history.epoch_count + 1) * t->plan.epoch_steps);
	*state_sums(&t->state) = all.sums;
	t->model.weights = state_now(&t->state, 0).weights;
	t->ahead = 0;
	t->share = all.samples > 0 ? a->samples / all.samples : 0;
	return true;
}

static void drain(struct training *t)
{
	struct async *a = t->way;

	server_drain(&a->server);
	tutti_wait_all(a->requests, a->pending);
	a->pending = 0;
}

const struct sync sync_async = {
	.name = "async",
	.what = "gradients to parameter servers, without waiting",
	.shares_velocity = true,
	.bytes = sizeof(struct async),
	.begin = begin,
	.epoch = epoch,
	.fetch = fetch,
	.drain = drain,
	.finish = finish,
};
