/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns local SGD (Stich 2019) and DiLoCo (Douillard et al. 2023): each rank makes steps of its own,
 * by the mean gradient of its own slice; every --every steps, and at the end of an epoch, ranks
 * average. A rank's part of the mean is its share of the samples since the last time.
 *
 * Velocity is averaged like weights, if there is any. So one step between averages is the same as
 * synchronous data parallelism, whatever the momentum. With --outer the mean is not taken as it is:
 * its distance from the last average is the gradient of an outer step.
 *
 * training->state is the last average, and what is gone back to when ranks are lost. The outer
 * velocity is rank 0's then.
 *
 * One rank can play several (--simulate-ranks). Their numbers are added up in order of rank, which
 * is also what TUTTI_REPRODUCIBLE=1 makes of an all-reduce: then both give the same bits. */
#include <stdlib.h>
#include <string.h>

#include "sync.h"
#include "train.h"

/* A rank since the last average. */
struct own {
	void *numbers;	  /* owned: weights, velocity, and behind what is averaged its sums; of
			   * tutti_mem_alloc(): ranks of a host sum them without a copy */
	size_t samples;	  /* that it has had */
	struct sums sums; /* over these */
};

struct local {
	struct own *own; /* [replicas], owned */
	void *outer;	 /* owned: velocity of the outer steps; NULL: none are made */
	size_t samples;	 /* of all ranks since the last average */
	size_t ahead;	 /* steps since then */
	int begins;	 /* an epoch, with the first of those steps */
	bool begun;	 /* ranks may have seen `own` */
};

static struct local *local_of(const struct training *t)
{
	return t->way;
}

static struct own *current(const struct training *t)
{
	return &local_of(t)->own[t->replica];
}

static void *velocity_of(const struct training *t, const struct own *own)
{
	return numbers_at(t->model.numbers, own->numbers, t->model.parameters);
}

/* Where the next step does not depend on it, velocity need not be averaged. */
static size_t averaged(const struct training *t)
{
	return (sync_keeps(t) ? 2 : 1) * t->model.parameters;
}

static tutti_result_t create_own(struct training *t, struct why *why)
{
	const size_t bytes = (2 * t->model.parameters + SUMS_NUMBERS) * t->model.numbers->size;

	for (unsigned r = 0; r < t->options->replicas; r++) {
		const tutti_result_t result = tutti_mem_alloc(bytes, &local_of(t)->own[r].numbers);

		if (result != TUTTI_OK)
			return why_set(why, result, "no memory for the steps between averages: %s",
				       tutti_last_error(NULL));
	}
	return TUTTI_OK;
}

static tutti_result_t create(struct training *t, struct why *why)
{
	struct local *local = calloc(1, sizeof(*local));

	t->way = local;
	if (!local)
		return why_no_memory(why, "the steps between averages");
	local->own = calloc(t->options->replicas, sizeof(*local->own));
	if (t->options->outer.rate > 0)
		local->outer = calloc(t->model.parameters, t->model.numbers->size);
	if (!local->own || (t->options->outer.rate > 0 && !local->outer))
		return why_no_memory(why, "the steps between averages");
	return create_own(t, why);
}

static void start_from_state(struct training *t)
{
	const struct trained now = state_now(&t->state, 0);
	const size_t bytes = t->model.parameters * t->model.numbers->size;

	for (unsigned r = 0; r < t->options->replicas; r++) {
		struct own *own = &local_of(t)->own[r];

		memcpy(own->numbers, now.weights, bytes);
		memcpy(velocity_of(t, own), now.velocity, bytes);
		own->samples = 0;
		own->sums = (struct sums){ 0 };
	}
	local_of(t)->samples = local_of(t)->ahead = 0;
	t->model.weights = now.weights;
}

/* Again when ranks were lost: one that was stuck may still write into the old memory, which is left
 * as it is. Rank 0's outer velocity is that of all. */
static tutti_result_t begin(struct training *t, struct why *why)
{
	struct local *local = t->way;
	tutti_result_t result = local->begun ? create_own(t, why) : TUTTI_OK;

	if (result != TUTTI_OK)
		return result;
	local->begun = true;
	start_from_state(t);
	if (t->options->outer.momentum > 0)
		result = team_broadcast(t->team, local->outer, local->outer,
					t->model.parameters * t->model.numbers->size, 0, why);
	return result;
}

static tutti_result_t weights(struct training *t, unsigned l, struct why *why)
{
	t->model.weights = current(t)->numbers;
	return TUTTI_OK;
}

/* What it adds to the mean, and its sums behind that. */
static void weigh(const struct training *t, struct own *own)
{
	const struct numbers *numbers = t->model.numbers;
	const double sums[SUMS_NUMBERS] = { own->sums.loss, own->sums.correct, own->sums.samples };

	numbers->scale(own->numbers, averaged(t),
		       (double)own->samples / (double)local_of(t)->samples);
	numbers->store(numbers_at(numbers, own->numbers, averaged(t)), sums, SUMS_NUMBERS);
}

/* The mean is complete: it is the state that the next steps start from. */
static void take_mean(struct training *t, const void *mean, const struct sums *sums)
{
	const struct trained next = state_next(&t->state, 0);
	const size_t count = t->model.parameters, size = t->model.numbers->size;

	memcpy(next.weights, mean, count * size);
	if (sync_keeps(t))
		memcpy(next.velocity, numbers_from(t->model.numbers, mean, count), count * size);
	if (local_of(t)->outer)
		t->model.numbers->outer(state_now(&t->state, 0).weights, next.weights,
					local_of(t)->outer, count, &t->options->outer);
	t->state.step--; /* update() has counted it already */
	state_advance(&t->state, sums, local_of(t)->begins);
	start_from_state(t);
}

static tutti_result_t average(struct training *t, struct why *why)
{
	const struct numbers *numbers = t->model.numbers;
	const size_t count = averaged(t) + SUMS_NUMBERS;
	void *mean = local_of(t)->own[0].numbers;
	double sums[SUMS_NUMBERS];

	for (unsigned r = 0; r < t->options->replicas; r++) {
		weigh(t, &local_of(t)->own[r]);
		if (r > 0)
			numbers->add(mean, local_of(t)->own[r].numbers, count);
	}
	const tutti_result_t result = team_start_sum(t->team, numbers, mean, count, NULL, why);

	if (result != TUTTI_OK)
		return result;
	numbers->load(sums, numbers_at(numbers, mean, averaged(t)), SUMS_NUMBERS);
	take_mean(t, mean, &(struct sums){ sums[0], sums[1], sums[2] });
	return TUTTI_OK;
}

static void step_alone(struct training *t, struct own *own)
{
	const struct numbers *numbers = t->model.numbers->gradients;
	const size_t count = t->model.parameters;
	const struct trained mine = { own->numbers, velocity_of(t, own) };

	if (t->options->clip > 0)
		numbers->scale(t->gradients, count,
			       sync_clip_factor(t, numbers->square_sum(t->gradients, count)));
	sync_update(t, mine, t->gradients, count, mine);
}

static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	const struct sums sums = sync_load_sums(t);
	struct local *local = t->way;
	struct own *own = current(t);

	if (step->mine > 0)
		step_alone(t, own);
	own->samples += step->mine;
	own->sums.loss += sums.loss;
	own->sums.correct += sums.correct;
	own->sums.samples += sums.samples;
	if (t->replica < t->options->replicas - 1)
		return TUTTI_OK;
	local->begins = local->ahead == 0 ? step->first : local->begins;
	local->samples += step->all;
	local->ahead++;
	t->state.step++;
	return local->ahead == t->options->every ? average(t, why) : TUTTI_OK;
}

static tutti_result_t fetch(struct training *t, struct why *why)
{
	const tutti_result_t result = local_of(t)->ahead > 0 ? average(t, why) : TUTTI_OK;

	t->model.weights = state_now(&t->state, 0).weights;
	return result;
}

static void drain(struct training *t)
{
	t->state.step -= local_of(t)->ahead;
	start_from_state(t);
}

static void finish(struct training *t)
{
	struct local *local = t->way;

	for (unsigned r = 0; local && local->own && r < t->options->replicas; r++)
		tutti_mem_free(local->own[r].numbers);
	if (local) {
		free(local->own);
		free(local->outer);
	}
	free(local);
}

const struct sync sync_local = {
	.name = "local",
	.what = "steps of each rank's own, averaged now and then",
	.create = create,
	.begin = begin,
	.work = sync_has_epochs,
	.weights = weights,
	.divisor = sync_own_samples,
	.gradients = sync_no_layer,
	.update = update,
	.fetch = fetch,
	.end = sync_nothing,
	.others = sync_no_others,
	.drain = drain,
	.give_up = sync_tells_nobody,
	.finish = finish,
};
