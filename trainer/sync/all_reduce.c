/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns synchronous data parallelism: gradients are summed over all ranks in buckets, behind the
 * backward pass, and each rank makes the same update. */
#include "sync.h"

#include "train.h"

static bool begin(struct training *t)
{
	t->model.weights = state_now(&t->state, 0).weights;
	return true;
}

static bool gradients(struct training *t, unsigned l)
{
	return buckets_layer_ready(&t->buckets, &t->model, l, t->grid.column);
}

static bool update_bucket(struct training *t, const struct bucket *b)
{
	return sync_update(t, (struct slice){ b->first, b->count }, state_now(&t->state, b->first),
			   numbers_from(t->model.numbers->gradients, t->gradients, b->first),
			   state_next(&t->state, b->first));
}

/* All buckets have to be there to be clipped, or measured: layers may have their parts in other buckets on
 * other ranks. */
static bool update_at_once(struct training *t)
{
	bool ok = buckets_wait_all(&t->buckets, t->grid.column);

	if (ok && t->options->clip > 0)
		ok = sync_clip(t);
	return ok && sync_update_all(t);
}

/* Each bucket as it arrives, while the next are under way. */
static bool update_buckets(struct training *t)
{
	bool ok = true;

	for (unsigned i = 0; i < t->buckets.count && ok; i++) {
		ok = buckets_wait(&t->buckets, i, t->grid.column) &&
		     update_bucket(t, &t->buckets.bucket[i]);
	}
	return ok;
}

static bool update(struct training *t, const struct step *step)
{
	const bool at_once = t->options->clip > 0 || t->options->optimizer->trust;
	const bool ok = at_once ? update_at_once(t) : update_buckets(t);

	if (ok)
		sync_advance(t, step);
	return ok;
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
