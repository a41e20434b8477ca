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
	return buckets_layer_ready(&t->buckets, &t->model, l, t->grid.column, why);
}

static tutti_result_t update_bucket(struct training *t, const struct bucket *b, struct why *why)
{
	return sync_update(t, (struct slice){ b->first, b->count }, state_now(&t->state, b->first),
			   numbers_from(t->model.numbers->gradients, t->gradients, b->first),
			   state_next(&t->state, b->first), why);
}

/* All buckets have to be there to be clipped, or measured: layers may have their parts in other buckets on
 * other ranks. */
static tutti_result_t update_at_once(struct training *t, struct why *why)
{
	tutti_result_t result = buckets_wait_all(&t->buckets, t->grid.column, why);

	if (result == TUTTI_OK && t->options->clip > 0)
		result = sync_clip(t, why);
	return result == TUTTI_OK ? sync_update_all(t, why) : result;
}

/* Each bucket as it arrives, while the next are under way. */
static tutti_result_t update_buckets(struct training *t, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (unsigned i = 0; i < t->buckets.count && result == TUTTI_OK; i++) {
		result = buckets_wait(&t->buckets, i, t->grid.column, why);
		if (result == TUTTI_OK)
			result = update_bucket(t, &t->buckets.bucket[i], why);
	}
	return result;
}

static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	const bool at_once = t->options->clip > 0 || t->options->optimizer->measure;
	const tutti_result_t result = at_once ? update_at_once(t, why) : update_buckets(t, why);

	if (result == TUTTI_OK)
		sync_advance(t, step);
	return result;
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
	.weights = sync_no_layer,
	.divisor = sync_all_samples,
	.gradients = gradients,
	.update = update,
	.fetch = sync_nothing,
	.end = sync_nothing,
	.drain = drain,
	.finish = finish,
};
