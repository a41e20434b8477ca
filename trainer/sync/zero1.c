/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the sharded optimiser (ZeRO stage 1, Rajbhandari et al. 2020): each rank receives its share
 * of the summed gradients of each bucket, keeps the velocity of that share, updates its weights,
 * and sends them to all. The weights travel while the next forward pass begins, from the first
 * layer on.
 *
 * A step is complete when all its weights are there. Until then the copy that the state had before
 * is whole, and is gone back to when ranks are lost. What velocity a lost rank had is lost with it:
 * it begins anew, on all ranks. */
#include <stdlib.h>
#include <string.h>

#include "sync.h"
#include "train.h"

struct share {
	size_t *counts;		      /* [ranks]: numbers of the bucket that are each rank's */
	size_t first, count;	      /* of the gradients: this rank's */
	size_t velocity;	      /* where its velocity begins */
	tutti_request_t sum, weights; /* NULL: not in flight */
};

struct zero1 {
	struct share share[MODEL_LAYERS_MAX]; /* of each bucket */
	size_t *counts;			      /* owned: of all shares */
	void *velocity[2];    /* owned: after the state's steps, and of the next; one
					       * vector behind the other */
	size_t kept;	      /* numbers of each: of this rank's weights */
	tutti_request_t sums; /* of a step's loss and hits */
	bool arriving;	      /* the weights of the state may be on their way */
};

static struct zero1 *zero1_of(const struct training *t)
{
	return t->way;
}

static void free_shares(struct zero1 *z)
{
	free(z->counts);
	free(z->velocity[0]);
	free(z->velocity[1]);
	z->counts = NULL;
	z->velocity[0] = z->velocity[1] = NULL;
}

/* Each bucket is cut evenly, so that all ranks can begin when it is ready. */
static void cut(struct training *t)
{
	struct zero1 *z = t->way;
	const int ranks = t->grid.column->size;

	z->kept = 0;
	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *b = &t->buckets.bucket[i];
		const struct slice mine = slice_of(b->count, t->grid.column->rank, ranks);
		struct share *share = &z->share[i];

		*share = (struct share){ .counts = z->counts + i * (size_t)ranks,
					 .first = b->first + mine.first,
					 .count = mine.count,
					 .velocity = z->kept };
		for (int r = 0; r < ranks; r++)
			share->counts[r] = slice_of(b->count, r, ranks).count;
		z->kept += mine.count;
	}
}

static bool create(struct training *t)
{
	t->way = calloc(1, sizeof(struct zero1));
	return t->way || why_no_memory("the shares of ranks");
}

/* Vector `k` of velocities, of bucket `i`: where that is in those of all weights, or NULL … */
static void *velocity_of_bucket(const struct training *t, void *all, unsigned k, unsigned i)
{
	void *velocity = sync_velocity(t, all, k);

	return velocity ? numbers_at(t->model.numbers, velocity, t->buckets.bucket[i].first) : NULL;
}

/* … and this rank's share. */
static void *velocity_of_share(const struct training *t, unsigned k, unsigned i)
{
	const struct zero1 *z = t->way;

	return numbers_at(t->model.numbers, z->velocity[0], k * z->kept + z->share[i].velocity);
}

/* What rank 0 has read from a checkpoint, to those whose it is now. */
static bool share_out(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;
	bool ok = true;

	for (unsigned k = 0; k < t->options->optimizer->velocities; k++)
		for (unsigned i = 0; i < t->buckets.count && ok; i++)
			ok = team_share_out(
				t->grid.column, numbers, velocity_of_bucket(t, t->velocity, k, i),
				zero1_of(t)->share[i].counts, velocity_of_share(t, k, i));
	if (!ok)
		return false; /* once more, when ranks have settled again */
	sync_velocity_shared(t);
	return true;
}

static bool begin(struct training *t)
{
	struct zero1 *z = t->way;

	free_shares(z);
	z->counts = calloc(t->buckets.count * (size_t)t->grid.column->size, sizeof(*z->counts));
	if (!z->counts)
		return why_no_memory("the shares of ranks");
	cut(t);
	for (int copy = 0; copy < 2; copy++) {
		z->velocity[copy] = calloc(t->options->optimizer->velocities * z->kept + 1,
					   t->model.numbers->size);
		if (!z->velocity[copy])
			return why_no_memory("the velocity of a share");
	}
	t->model.weights = state_now(&t->state, 0).weights;
	t->velocity_since = t->resumes ? 0 : t->state.step;
	if (t->grid.column->rank == 0 && !t->resumes)
		sync_tell_velocity_lost(t, "all weights");
	return !t->resumes || share_out(t);
}

static unsigned bucket_of(const struct training *t, unsigned l)
{
	unsigned i = 0;

	while (t->buckets.bucket[i].last_layer > l)
		i++;
	return i;
}

static bool weights(struct training *t, unsigned l)
{
	return team_wait(t->grid.column, &zero1_of(t)->share[bucket_of(t, l)].weights);
}

static bool gradients(struct training *t, unsigned l)
{
	const struct numbers *numbers = t->model.numbers->gradients;
	const unsigned i = bucket_of(t, l);
	const struct bucket *b = &t->buckets.bucket[i];
	struct share *share = &zero1_of(t)->share[i];
	bool ok;

	zero1_of(t)->arriving = false; /* the forward pass has waited for all weights */
	if (b->last_layer != l)
		return true;
	ok = team_start_scatter_sum(t->grid.column, numbers,
				    numbers_at(numbers, t->gradients, b->first), share->counts,
				    &share->sum);
	if (!ok || l > 0)
		return ok;
	return team_start_sum(t->grid.column, t->model.numbers->sums, sync_sums(t), SUMS_NUMBERS,
			      &zero1_of(t)->sums);
}

/* A rank knows its shares alone: the squares are added up by all. */
static bool clip(struct training *t)
{
	const struct numbers *numbers = t->model.numbers->gradients;
	double sum = 0;

	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct share *share = &zero1_of(t)->share[i];

		sum += numbers->square_sum(numbers_at(numbers, t->gradients, share->first),
					   share->count);
	}
	bool ok = team_sum(t->grid.column, &sum, 1) && grid_sum(&t->grid, &sum, 1);

	for (unsigned i = 0; i < t->buckets.count && ok; i++) {
		const struct share *share = &zero1_of(t)->share[i];

		numbers->scale(numbers_at(numbers, t->gradients, share->first), share->count,
			       sync_clip_factor(t, sum));
	}
	return ok;
}

static const void *gradients_of(const struct training *t, const struct share *share)
{
	return numbers_from(t->model.numbers->gradients, t->gradients, share->first);
}

/* In copy `copy` of the velocities. */
static struct trained trained_of(const struct training *t, const struct share *share, void *weights,
				 int copy)
{
	const struct zero1 *z = t->way;
	struct trained trained =
		trained_at(t->model.numbers, weights, z->velocity[copy], z->kept, share->velocity);

	trained.weights = weights;
	return trained;
}

static struct trained share_now(const struct training *t, const struct share *share)
{
	return trained_of(t, share, state_now(&t->state, share->first).weights, 0);
}

/* Ranks know pieces of layers: their squares are added up by all. */
static bool measure(struct training *t, struct layer_squares *squares)
{
	*squares = (struct layer_squares){ 0 };
	if (!t->options->optimizer->trust)
		return true;
	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct share *share = &zero1_of(t)->share[i];

		sync_measure(t, (struct slice){ share->first, share->count }, share_now(t, share),
			     gradients_of(t, share), squares);
	}
	return team_sum(t->grid.column, (double *)squares, sizeof(*squares) / sizeof(double)) &&
	       sync_sum_squares(t, squares);
}

static void update_share(struct training *t, const struct share *share,
			 const struct layer_squares *squares)
{
	sync_update_measured(t, (struct slice){ share->first, share->count }, share_now(t, share),
			     gradients_of(t, share),
			     trained_of(t, share, state_next(&t->state, share->first).weights, 1),
			     squares);
}

static void change_velocity(struct zero1 *z)
{
	void *next = z->velocity[1];

	z->velocity[1] = z->velocity[0];
	z->velocity[0] = next;
}

static bool update(struct training *t, const struct step *step)
{
	struct zero1 *z = t->way;
	struct layer_squares squares;
	bool ok = true;

	for (unsigned i = 0; i < t->buckets.count && ok; i++)
		ok = team_wait(t->grid.column, &z->share[i].sum);
	ok = ok && team_wait(t->grid.column, &z->sums);
	if (ok && t->options->clip > 0)
		ok = clip(t);
	ok = ok && measure(t, &squares);
	if (!ok)
		return false;
	const struct sums sums = sync_load_sums(t);

	/* the first layer's bucket is the last: its weights are needed first */
	for (unsigned i = t->buckets.count; i-- > 0 && ok;) {
		const struct bucket *b = &t->buckets.bucket[i];

		update_share(t, &z->share[i], &squares);
		ok = team_start_gather(t->grid.column, t->model.numbers,
				       state_next(&t->state, b->first).weights, z->share[i].counts,
				       &z->share[i].weights);
	}
	if (!ok)
		return false;
	z->arriving = true;
	change_velocity(z);
	state_advance(&t->state, &sums, step->first);
	t->model.weights = state_now(&t->state, 0).weights;
	return true;
}

static bool fetch(struct training *t)
{
	bool ok = true;

	for (unsigned i = t->buckets.count; i-- > 0 && ok;)
		ok = team_wait(t->grid.column, &zero1_of(t)->share[i].weights);
	zero1_of(t)->arriving &= !ok;
	return ok;
}

static bool collect(struct training *t, void *velocity)
{
	bool ok = true;

	for (unsigned k = 0; k < t->options->optimizer->velocities; k++)
		for (unsigned i = 0; i < t->buckets.count && ok; i++)
			ok = team_collect(t->grid.column, t->model.numbers,
					  velocity_of_share(t, k, i), zero1_of(t)->share[i].counts,
					  velocity_of_bucket(t, velocity, k, i));
	return ok;
}

static void drain(struct training *t)
{
	struct zero1 *z = t->way;

	for (unsigned i = 0; i < t->buckets.count; i++) {
		tutti_wait(&z->share[i].sum);
		tutti_wait(&z->share[i].weights);
	}
	tutti_wait(&z->sums);
	if (z->arriving)
		state_adopt(&t->state, t->state.step - 1);
	z->arriving = false;
}

static void finish(struct training *t)
{
	if (t->way)
		free_shares(t->way);
	free(t->way);
}

const struct sync sync_zero1 = {
	.name = "zero1",
	.what = "optimiser in shares",
	.each_step = true,
	.shares_velocity = true,
	.create = create,
	.begin = begin,
	.weights = weights,
	.divisor = sync_all_samples,
	.gradients = gradients,
	.update = update,
	.fetch = fetch,
	.collect = collect,
	.end = sync_nothing,
	.drain = drain,
	.finish = finish,
};
