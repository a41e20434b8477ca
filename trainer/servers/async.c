/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the asynchronous parameter server as a way to train: Downpour SGD (Dean et al. 2012, section
 * 4.1; algorithms 7.1 and 7.2 of the supplement).
 *
 * In an epoch no worker waits for another. At its end all ranks get the weights. Until then the state
 * of the training is that of its beginning, on all ranks: servers make updates of a copy, and workers
 * compute with another. When a worker is lost, the servers still have their copies, and know what
 * they are made of: the others do the rest of the epoch. When a server is lost, all begin the epoch
 * again. */
#include <stdlib.h>
#include <string.h>

#include "async.h"

static struct async *async_of(const struct training *t)
{
	return t->way;
}

static void finish(struct training *t)
{
	struct async *a = t->way;

	free(a->server.peers);
	free(a->server.requests);
	free(a->server.pushes);
	free(a->server.numbers);
	free(a->weights);
	free(a->todo);
	free(a->came);
	free(a->requests);
}

/* ---- a shard, in place */

void shard_update(struct training *t, const struct push *pushes, size_t count)
{
	const struct numbers *numbers = t->model.numbers;
	struct async *a = t->way;
	const struct trained own = trained_at(numbers, a->weights, t->kept.now, t->kept.count, 0);
	struct rule rule = { .rate = rate_at(&t->plan, task_of(t, pushes[0].task).step),
			     .momentum = t->options->momentum,
			     .decay = t->options->weight_decay };

	for (size_t i = 0; i < count; i++) {
		const struct task task = task_of(t, pushes[i].task);

		rule.part += (double)task.samples.count / (double)task.batch;
		if (i > 0)
			numbers->gradients->add(pushes[0].gradients, pushes[i].gradients,
						t->kept.count);
	}
	if (rule.part > 0)
		optimizer_update(t->options->optimizer, numbers, &rule, own, pushes[0].gradients,
				 t->kept.count, own);
	a->version++;
}

/* ---- the start, and after losses */

/* What a rank says of its shard: with which beginning it began, and is it the one that is this rank's now? */
struct keeps {
	uint64_t beginning, fits;
};

/* Do all servers have the shards that are theirs now, of one beginning? Else all begin anew: one that is
 * new has none, one that was another server has that one's; and where a rank was lost while they began,
 * some have and others have not. A beginning is later than those that any rank knows of: equal numbers
 * are from one list, and shards of one state. */
static bool find_servers(struct training *t, bool *all_there, uint64_t *last)
{
	const struct keeps own = { async_of(t)->beginning, kept_is_of_shard(t) };
	struct keeps *all = calloc((size_t)t->team->size, sizeof(*all));

	if (!all)
		return why_no_memory("what the parameter servers keep");
	const bool ok = *all_there = team_gather(t->team, &own, all, sizeof(own));

	for (int r = 0; r < t->team->size; r++) {
		if (r < (int)t->options->servers)
			*all_there &= all[r].fits && all[r].beginning == all[0].beginning;
		*last = all[r].beginning > *last ? all[r].beginning : *last;
	}
	free(all);
	return ok;
}

/* From the state that all ranks have. */
static bool begin_shard(struct training *t, uint64_t beginning)
{
	const struct slice shard = t->buckets.bucket[0].mine;
	const size_t bytes = shard.count * t->model.numbers->size;
	struct async *a = t->way;

	a->epoch = 0;
	a->beginning = beginning;
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
	s->pushes = calloc(t->workers, sizeof(*s->pushes));
	return (a->todo && a->came && a->requests && s->peers && s->requests && s->pushes) ||
	       why_no_memory("the parameter servers");
}

static bool begin(struct training *t)
{
	struct async *a = t->way;
	bool all_there = false;
	uint64_t last = 0;

	return (a->todo || take_memory(t, a)) && kept_lay_out(t) &&
	       find_servers(t, &all_there, &last) &&
	       ((all_there && !t->resumes) || begin_shard(t, last + 1)) &&
	       (!kept_serves(t) || server_begin(t, a));
}

/* ---- an epoch */

/* To all ranks, as the weights of the next state. */
static bool gather_shards(struct training *t)
{
	const struct bucket *all = &t->buckets.bucket[0];

	if (kept_serves(t))
		memcpy(state_next(&t->state, all->mine.first).weights, async_of(t)->weights,
		       all->mine.count * t->model.numbers->size);
	team_be_patient(t->team, PATIENCE);
	return team_start_gather(t->team, t->model.numbers, state_next(&t->state, 0).weights,
				 all->counts, NULL);
}

/* Those of which a server lacks the gradients. */
static bool find_todo(struct training *t)
{
	const size_t tasks = tasks_of_epoch(t);
	struct async *a = async_of(t);
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
	struct async *a = async_of(t);

	if (t->state.step >= (number + 1) * t->steps_per_epoch)
		return true; /* ranks were lost behind its end */
	if (a->epoch != number + 1) {
		a->epoch = number + 1;
		a->sums = (struct sums){ 0 };
		memset(a->came, 0, tasks_of_epoch(t) * sizeof(*a->came));
	}
	training_order(t, number);
	if (!find_todo(t) || !gather_shards(t))
		return false;
	return kept_serves(t) ? server_epoch(t, a) : worker_epoch(t, a);
}

/* Each server has its shard, and server 0 the sums. */
static bool fetch(struct training *t)
{
	struct sums sums = async_of(t)->sums;

	if (!gather_shards(t) || !team_broadcast(t->team, &sums, &sums, sizeof(sums), 0))
		return false;
	state_adopt(&t->state, (t->report->history.epoch_count + 1) * t->steps_per_epoch);
	*state_sums(&t->state) = sums;
	t->model.weights = state_now(&t->state, 0).weights;
	t->ahead = 0;
	return true;
}

static bool end(struct training *t)
{
	const struct async *a = async_of(t);
	double all = a->samples;
	const bool ok = team_sum(t->team, &all, 1);

	t->share = all > 0 ? a->samples / all : 0;
	t->summary.staleness = a->staleness;
	return ok;
}

static void drain(struct training *t)
{
	struct async *a = async_of(t);

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
	.end = end,
	.drain = drain,
	.finish = finish,
};
