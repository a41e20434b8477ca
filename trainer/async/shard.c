/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a shard's velocity, and changes its weights in place. */
#include "shard.h"

#include <stdlib.h>

#include "compute.h"
#include "train.h"

struct slice shard_slice(const struct training *t, unsigned server)
{
	return slice_of(t->model.parameters, (int)server, (int)t->options->servers);
}

tutti_result_t shard_create(struct training *t, unsigned server, struct shard *out, struct why *why)
{
	struct shard shard = { .slice = shard_slice(t, server) };

	shard.weights = state_now(&t->state, shard.slice.first).weights;
	/* optimisers that take parts of a batch keep one number at most */
	shard.velocity = calloc(shard.slice.count + 1, t->model.numbers->size);
	if (!shard.velocity)
		return why_no_memory(why, "the velocity of a shard");
	*out = shard;
	return TUTTI_OK;
}

void shard_finish(struct shard *shard)
{
	free(shard->velocity);
	*shard = (struct shard){ 0 };
}

void shard_update(struct training *t, struct shard *shard, void *const *gradients,
		  const uint64_t *tasks, size_t count)
{
	const struct trained own = { shard->weights, { shard->velocity } };
	struct rule rule = { .rate = rate_at(&t->plan, compute_step(t, tasks[0])),
			     .momentum = t->options->momentum,
			     .decay = t->options->weight_decay };

	for (size_t i = 0; i < count; i++) {
		rule.part += compute_part(t, tasks[i]);
		if (i > 0)
			t->model.numbers->gradients->add(gradients[0], gradients[i],
							 shard->slice.count);
	}
	if (rule.part > 0)
		t->options->optimizer->update(t->model.numbers, &rule, own, gradients[0],
					      shard->slice.count, own);
	shard->version++;
}
