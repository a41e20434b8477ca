/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the sharded optimiser (ZeRO stage 1, Rajbhandari et al. 2020): each rank receives its share
 * of the summed gradients of each bucket, keeps the velocity of that share, updates its weights,
 * and sends them to all. The weights travel while the next forward pass begins, from the first
 * layer on.
 *
 * A step is complete when all its weights are there. Until then the copy that the state had before
 * is whole, and is gone back to when ranks are lost. What velocity a lost rank had is lost with it:
 * it begins anew, on all ranks. */
#include "train.h"

struct zero1 {
	tutti_request_t weights[MODEL_LAYERS_MAX]; /* of each bucket; NULL: not in flight */
	bool arriving; /* the weights of the state may be on their way */
};

static bool begin(struct training *t)
{
	return kept_lay_out(t) && kept_renew(t, t->grid.column->rank == 0 ? "all weights" : NULL);
}

static bool weights(struct training *t, unsigned l)
{
	struct zero1 *z = t->way;

	return team_wait(t->grid.column, &z->weights[buckets_find(&t->buckets, l)]);
}

static bool gradients(struct training *t, unsigned l)
{
	struct zero1 *z = t->way;

	z->arriving = false; /* the forward pass has waited for all weights */
	return buckets_layer_ready(&t->buckets, &t->model, l, t->grid.column);
}

/* A rank knows its shares alone: what all gradients or layers are comes from all ranks. */
static bool update(struct training *t, const struct step *step)
{
	struct stretch stretch[MODEL_LAYERS_MAX];
	struct layer_squares squares;
	struct zero1 *z = t->way;

	for (unsigned i = 0; i < t->buckets.count; i++)
		stretch[i] = kept_stretch(t, i);
	if (!buckets_wait_all(&t->buckets, t->grid.column) ||
	    !sync_survey(t, stretch, t->buckets.count, true, &squares))
		return false;
	/* the first layer's bucket is the last: its weights are needed first */
	for (unsigned i = t->buckets.count; i-- > 0;) {
		const struct bucket *b = &t->buckets.bucket[i];

		sync_update(t, &stretch[i], &squares);
		if (!team_start_gather(t->grid.column, t->model.numbers,
				       state_next(&t->state, b->first).weights, b->counts,
				       &z->weights[i]))
			return false;
	}
	z->arriving = true;
	kept_advance(t);
	sync_advance(t, step);
	return true;
}

static bool fetch(struct training *t)
{
	struct zero1 *z = t->way;

	for (unsigned i = t->buckets.count; i-- > 0;)
		if (!team_wait(t->grid.column, &z->weights[i]))
			return false;
	z->arriving = false;
	return true;
}

static void drain(struct training *t)
{
	struct zero1 *z = t->way;

	buckets_drain(&t->buckets);
	tutti_wait_all(z->weights, t->buckets.count);
	if (z->arriving)
		state_adopt(&t->state, t->state.step - 1);
	z->arriving = false;
}

const struct sync sync_zero1 = {
	.name = "zero1",
	.what = "optimiser in shares",
	.each_step = true,
	.shares_velocity = true,
	.bytes = sizeof(struct zero1),
	.begin = begin,
	.weights = weights,
	.gradients = gradients,
	.update = update,
	.fetch = fetch,
	.drain = drain,
};
