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

static bool begin(struct training *t)
{
	return kept_lay_out(t) && kept_renew(t, t->grid.column->rank == 0 ? "all weights" : NULL);
}

static bool gradients(struct training *t, unsigned l)
{
	t->kept.arriving = false; /* the forward pass has waited for all weights */
	return buckets_layer_ready(&t->buckets, &t->model, l, t->grid.column);
}

/* A rank knows its shares alone: what all gradients or layers are comes from all ranks. */
static bool update(struct training *t)
{
	struct stretch stretch[MODEL_LAYERS_MAX];
	struct squares squares[MODEL_LAYERS_MAX];

	for (unsigned i = 0; i < t->buckets.count; i++)
		stretch[i] = kept_stretch(t, i);
	if (!buckets_wait_all(&t->buckets, t->grid.column) ||
	    !sync_survey(t, stretch, t->buckets.count, true, squares))
		return false;
	/* the first layer's bucket is the last: its weights are needed first */
	for (unsigned i = t->buckets.count; i-- > 0;) {
		struct bucket *b = &t->buckets.bucket[i];

		sync_update(t, &stretch[i], squares);
		if (!team_start_gather(t->grid.column, t->model.numbers,
				       state_next(&t->state, b->first).weights, b->counts,
				       &b->request))
			return false;
	}
	t->kept.arriving = true;
	kept_advance(t);
	sync_advance(t);
	return true;
}

static bool fetch(struct training *t)
{
	t->kept.arriving = !buckets_wait_all(&t->buckets, t->grid.column);
	return !t->kept.arriving;
}

static void drain(struct training *t)
{
	if (t->kept.arriving)
		state_adopt(&t->state, t->state.step - 1);
	t->kept.arriving = false;
}

const struct sync sync_zero1 = {
	.name = "zero1",
	.what = "optimiser in shares",
	.each_step = true,
	.shares_velocity = true,
	.begin = begin,
	.gradients = gradients,
	.update = update,
	.fetch = fetch,
	.drain = drain,
};
