/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which server has which weights, and a shard that changes in place. */
#include "shard.h"

#include <stdlib.h>
#include <string.h>

#include "tasks.h"
#include "train.h"

bool shard_serves(const struct training *t)
{
	return t->team->rank < (int)t->options->servers;
}

struct slice shard_slice(const struct training *t, unsigned server)
{
	return slice_of(t->model.parameters, (int)server, (int)t->options->servers);
}

size_t *shard_counts(const struct training *t)
{
	size_t *counts = calloc((size_t)t->team->size, sizeof(*counts));

	for (unsigned s = 0; counts && s < t->options->servers; s++)
		counts[s] = shard_slice(t, s).count;
	return counts;
}

/* Vector `k` at `mine`, which a worker has not. */
static void *vector(const struct training *t, const size_t *counts, void *mine, unsigned k)
{
	return mine ? numbers_at(t->model.numbers, mine, k * counts[t->team->rank]) : NULL;
}

/* A sum ends well only when everybody has come to it. */
static bool all_have_theirs(struct training *t)
{
	double has = 1;

	return team_sum(t->team, &has, 1);
}

bool shard_share_out(struct training *t, const size_t *counts, void *mine)
{
	bool ok = true;

	for (unsigned k = 0; k < t->options->optimizer->velocities && ok; k++)
		ok = team_share_out(t->team, t->model.numbers, sync_velocity(t, t->velocity, k),
				    counts, vector(t, counts, mine, k));
	ok = ok && all_have_theirs(t);
	if (ok) /* else once more, when ranks have settled again */
		sync_velocity_shared(t);
	return ok;
}

bool shard_collect(struct training *t, const size_t *counts, void *mine, void *all)
{
	bool ok = true;

	for (unsigned k = 0; k < t->options->optimizer->velocities && ok; k++)
		ok = team_collect(t->team, t->model.numbers, vector(t, counts, mine, k), counts,
				  sync_velocity(t, all, k));
	return ok;
}

/* ---- in place */

bool shard_create(struct training *t, struct shard *out)
{
	const size_t size = t->model.numbers->size;
	struct shard shard = { .slice = shard_slice(t, (unsigned)t->team->rank) };

	/* optimisers that take parts of a batch keep one number at most */
	shard.weights = malloc(shard.slice.count * size + 1);
	shard.velocity = calloc(shard.slice.count + 1, size);
	if (!shard.weights || !shard.velocity) {
		shard_finish(&shard);
		return why_no_memory("a shard of the weights");
	}
	memcpy(shard.weights, state_now(&t->state, shard.slice.first).weights,
	       shard.slice.count * size);
	*out = shard;
	return true;
}

void shard_finish(struct shard *shard)
{
	free(shard->weights);
	free(shard->velocity);
	*shard = (struct shard){ 0 };
}

void shard_update(struct training *t, struct shard *shard, const struct push *pushes, size_t count)
{
	const struct trained own = { shard->weights, { shard->velocity } };
	struct rule rule = { .rate = rate_at(&t->plan, task_step(t, pushes[0].task)),
			     .momentum = t->options->momentum,
			     .decay = t->options->weight_decay };

	for (size_t i = 0; i < count; i++) {
		rule.part += task_part(t, pushes[i].task);
		if (i > 0)
			t->model.numbers->gradients->add(pushes[0].gradients, pushes[i].gradients,
							 shard->slice.count);
	}
	if (rule.part > 0)
		optimizer_update(t->options->optimizer, t->model.numbers, &rule, own,
				 pushes[0].gradients, shard->slice.count, own);
	shard->version++;
}
