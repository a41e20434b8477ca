/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns synchronous data parallelism: gradients are summed over all ranks in buckets, behind the
 * backward pass, and each rank makes the same update. */
#include "train.h"

static bool gradients(struct training *t, unsigned l)
{
	return buckets_layer_ready(&t->buckets, &t->model, l, t->grid.column);
}

/* All buckets have to be there to be clipped, or measured: layers may have their parts in other
 * buckets on other ranks. Otherwise each is updated as it arrives, while the next are under way. */
static bool update(struct training *t)
{
	const struct slice of = { 0, t->model.parameters };
	const struct stretch all = { of, state_now(&t->state, 0), state_next(&t->state, 0) };
	const bool surveys = t->options->clip > 0 || t->options->optimizer->trust;
	struct squares squares[MODEL_LAYERS_MAX];

	if (surveys && !(buckets_wait_all(&t->buckets, t->grid.column) &&
			 sync_survey(t, &all, 1, false, squares)))
		return false;
	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *b = &t->buckets.bucket[i];

		if (!buckets_wait(&t->buckets, i, t->grid.column))
			return false;
		sync_update(t,
			    &(struct stretch){ { b->first, b->count },
					       state_now(&t->state, b->first),
					       state_next(&t->state, b->first) },
			    squares);
	}
	sync_advance(t);
	return true;
}

const struct sync sync_all_reduce = {
	.name = "allreduce",
	.what = "gradients by all-reduce",
	.each_step = true,
	.gradients = gradients,
	.update = update,
};
