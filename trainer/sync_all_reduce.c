/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns synchronous data parallelism: gradients are summed over all ranks in buckets, behind the
 * backward pass, and each rank makes the same update. */
#include "sync.h"

#include "train.h"

static tutti_result_t begin(struct training *t, struct why *why)
{
	t->model.weights = state_now(&t->state, 0).weights;
	return TUTTI_OK;
}

static tutti_result_t gradients(struct training *t, unsigned l, struct why *why)
{
	return buckets_layer_ready(&t->buckets, &t->model, l, t->team, why);
}

static void update_bucket(struct training *t, const struct bucket *b)
{
	sync_update(t, state_now(&t->state, b->first),
		    numbers_from(t->model.numbers->gradients, t->gradients, b->first), b->count,
		    state_next(&t->state, b->first));
}

/* All buckets have to be there for that. */
static tutti_result_t clip(struct training *t, struct why *why)
{
	const struct numbers *numbers = t->model.numbers->gradients;
	tutti_result_t result = TUTTI_OK;

	for (unsigned i = 0; i < t->buckets.count && result == TUTTI_OK; i++)
		result = buckets_wait(&t->buckets, i, t->team, why);
	if (result == TUTTI_OK)
		numbers->scale(t->gradients, t->model.parameters,
			       sync_clip_factor(
				       t, numbers->square_sum(t->gradients, t->model.parameters)));
	return result;
}

/* Each bucket as it arrives, while the next are under way. */
static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	tutti_result_t result = t->options->clip > 0 ? clip(t, why) : TUTTI_OK;

	for (unsigned i = 0; i < t->buckets.count && result == TUTTI_OK; i++) {
		result = buckets_wait(&t->buckets, i, t->team, why);
		if (result == TUTTI_OK)
			update_bucket(t, &t->buckets.bucket[i]);
	}
	if (result != TUTTI_OK)
		return result;
	const struct sums sums = sync_load_sums(t);

	state_advance(&t->state, &sums, step->first);
	return begin(t, why);
}

static void drain(struct training *t)
{
	buckets_drain(&t->buckets);
}

static void finish(struct training *t)
{
}

const struct sync sync_all_reduce = {
	.name = "allreduce",
	.what = "gradients by all-reduce",
	.each_step = true,
	.create = sync_nothing,
	.begin = begin,
	.work = sync_has_epochs,
	.weights = sync_no_layer,
	.divisor = sync_all_samples,
	.gradients = gradients,
	.update = update,
	.fetch = sync_nothing,
	.end = sync_nothing,
	.others = sync_no_others,
	.drain = drain,
	.give_up = sync_tells_nobody,
	.finish = finish,
};
