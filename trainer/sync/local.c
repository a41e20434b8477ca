/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns local SGD (Stich 2019) and DiLoCo (Douillard et al. 2023): each rank makes steps of its
 * own, by the mean gradient of its own slice; every --every steps, and at the end of an epoch,
 * ranks average. A rank's part of the mean is its share of the samples since the last time.
 *
 * Velocity is averaged like weights, if there is any. So one step between averages is the same as
 * synchronous data parallelism, whatever the momentum. With --outer the mean is not taken as it
 * is: its distance from the last average is the gradient of an outer step.
 *
 * training->state is the last average, and what is gone back to when ranks are lost; steps from
 * there on are ahead of it. The outer velocity is rank 0's then. */
#include <stdlib.h>
#include <string.h>

#include "train.h"

struct local {
	void *own;	  /* owned: weights, velocities, and behind them room for the sums; of
			   * tutti_mem_alloc(): ranks of a host sum them without a copy */
	size_t samples;	  /* that this rank has had since the last average … */
	size_t all;	  /* … and all ranks have */
	struct sums sums; /* over this rank's */
	size_t ahead;	  /* steps, which training->state.step counts already */
	void *outer;	  /* owned: velocity of the outer steps; NULL: none are made */
};

/* Weights and velocities. */
static size_t all_numbers(const struct training *t)
{
	return (1 + t->options->optimizer->velocities) * t->model.parameters;
}

/* How many of them a mean is of: velocities only where the next step depends on them. */
static size_t meant_numbers(const struct training *t)
{
	return sync_keeps(t) ? all_numbers(t) : t->model.parameters;
}

/* From the state, behind whose weights its velocities lie. */
static void start(struct training *t)
{
	struct local *local = t->way;

	memcpy(local->own, state_now(&t->state, 0).weights,
	       all_numbers(t) * t->model.numbers->size);
	local->samples = local->all = local->ahead = 0;
	local->sums = (struct sums){ 0 };
	t->model.weights = local->own;
}

/* A rank that was stuck may still write into the memory of before, which is left as it is. Rank
 * 0's outer velocity is that of all. */
static bool begin(struct training *t)
{
	const size_t size = t->model.numbers->size;
	struct local *local = t->way;
	const tutti_result_t result =
		tutti_mem_alloc((all_numbers(t) + SUMS_NUMBERS) * size, &local->own);

	if (result != TUTTI_OK)
		return why_set(result, "no memory for a rank's own steps: %s",
			       tutti_last_error(NULL));
	start(t);
	if (t->options->outer.rate <= 0)
		return true;
	if (!local->outer)
		local->outer = calloc(t->model.parameters, size);
	if (!local->outer)
		return why_no_memory("the steps between averages");
	return t->options->outer.momentum <= 0 ||
	       team_broadcast(t->grid.column, local->outer, local->outer,
			      t->model.parameters * size, 0);
}

/* Of this rank alone, in place. */
static bool step_alone(struct training *t)
{
	const size_t count = t->model.parameters;
	const struct numbers *numbers = t->model.numbers;
	void *own = ((struct local *)t->way)->own;
	const struct trained mine =
		trained_at(numbers, own, numbers_at(numbers, own, count), count, 0);
	const struct stretch all = { { 0, count }, mine, mine };
	struct squares squares[MODEL_LAYERS_MAX];

	if (!sync_survey(t, &all, 1, false, squares))
		return false;
	sync_update(t, &all, squares);
	return true;
}

/* From the last average, by its distance to the mean, which is −1 × the mean + 1 × the average. */
static void step_outward(const struct training *t)
{
	/* a mean has the type of weights, whatever that of gradients is */
	const struct numbers *numbers =
		t->model.numbers->dtype == TUTTI_FLOAT64 ? &numbers_f64 : &numbers_f32;
	const struct outer *outer = &t->options->outer;
	const struct update update = {
		.rate = outer->rate, .keep = outer->momentum, .gain = -1, .decay = 1
	};
	const struct local *local = t->way;

	numbers->move(outer->nesterov ? MOVE_NESTEROV : MOVE_MOMENTUM, &update,
		      (struct trained){ state_now(&t->state, 0).weights, { local->outer } },
		      local->own, t->model.parameters,
		      (struct trained){ local->own, { local->outer } });
}

/* The mean and the sums behind it are complete: the next steps start from what follows of them. */
static void take_mean(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;
	struct local *local = t->way;
	const bool begins = (t->state.step - local->ahead) % t->plan.epoch_steps == 0;
	struct sums sums;

	if (local->outer)
		step_outward(t);
	numbers->load((double *)&sums, numbers_at(numbers, local->own, meant_numbers(t)),
		      SUMS_NUMBERS);
	memcpy(state_next(&t->state, 0).weights, local->own, meant_numbers(t) * numbers->size);
	t->state.step--; /* update() has counted it already */
	state_advance(&t->state, &sums, begins);
	start(t);
}

static bool average(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;
	const size_t count = meant_numbers(t);
	struct local *local = t->way;

	numbers->scale(local->own, count, (double)local->samples / (double)local->all);
	numbers->store(numbers_at(numbers, local->own, count), (const double *)&local->sums,
		       SUMS_NUMBERS);
	if (!team_start_sum(t->grid.column, numbers, local->own, count + SUMS_NUMBERS, NULL))
		return false;
	take_mean(t);
	return true;
}

static bool update(struct training *t)
{
	const size_t all = training_batch(t, t->state.step % t->plan.epoch_steps).count,
		     mine = shares_own(t, all).count;
	const struct sums sums = sync_load_sums(t);
	struct local *local = t->way;

	if (mine > 0 && !step_alone(t))
		return false;
	local->samples += mine;
	local->all += all;
	numbers_f64.add(&local->sums, &sums, SUMS_NUMBERS);
	local->ahead++;
	t->state.step++;
	return local->ahead != t->options->every || average(t);
}

static bool fetch(struct training *t)
{
	return ((struct local *)t->way)->ahead == 0 || average(t);
}

/* Steps that were ahead are no more. */
static void drain(struct training *t)
{
	struct local *local = t->way;

	t->state.step -= local->ahead;
	if (local->own)
		start(t);
}

static void finish(struct training *t)
{
	struct local *local = t->way;

	tutti_mem_free(local->own);
	free(local->outer);
}

const struct sync sync_local = {
	.name = "local",
	.what = "steps of each rank's own, averaged now and then",
	.bytes = sizeof(struct local),
	.begin = begin,
	.update = update,
	.fetch = fetch,
	.drain = drain,
	.finish = finish,
};
