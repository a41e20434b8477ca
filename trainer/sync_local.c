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
 * Ranks that one plays are added up in order, which is also what TUTTI_REPRODUCIBLE=1 makes of an
 * all-reduce: then both give the same bits. */
#include <stdlib.h>

#include "own.h"
#include "train.h"

struct local {
	struct owns owns;
	void *outer; /* owned: velocity of the outer steps; NULL: none are made */
};

static struct local *local_of(const struct training *t)
{
	return t->way;
}

static tutti_result_t create(struct training *t, struct why *why)
{
	struct local *local = calloc(1, sizeof(*local));

	t->way = local;
	if (!local)
		return why_no_memory(why, "the steps between averages");
	if (t->options->outer.rate > 0)
		local->outer = calloc(t->model.parameters, t->model.numbers->size);
	if (t->options->outer.rate > 0 && !local->outer)
		return why_no_memory(why, "the steps between averages");
	return owns_create(t, &local->owns, why);
}

/* Rank 0's outer velocity is that of all. */
static tutti_result_t begin(struct training *t, struct why *why)
{
	struct local *local = t->way;
	const tutti_result_t result = owns_begin(t, &local->owns, why);

	return result == TUTTI_OK && t->options->outer.momentum > 0
		       ? team_broadcast(t->grid.column, local->outer, local->outer,
					t->model.parameters * t->model.numbers->size, 0, why)
		       : result;
}

static tutti_result_t weights(struct training *t, unsigned l, struct why *why)
{
	t->model.weights = owns_current(t, &local_of(t)->owns)->numbers;
	return TUTTI_OK;
}

/* What it adds to the mean, and its sums behind that. */
static void weigh(const struct training *t, struct own *own)
{
	const struct numbers *numbers = t->model.numbers;
	const double sums[SUMS_NUMBERS] = { own->sums.loss, own->sums.correct, own->sums.samples };

	numbers->scale(own->numbers, owns_meant(t),
		       (double)own->samples / (double)local_of(t)->owns.samples);
	numbers->store(numbers_at(numbers, own->numbers, owns_meant(t)), sums, SUMS_NUMBERS);
}

/* The mean is complete: what the next steps start from follows from it. */
static void take_mean(struct training *t, void *mean)
{
	struct local *local = t->way;

	if (local->outer)
		t->model.numbers->outer(state_now(&t->state, 0).weights, mean, local->outer,
					t->model.parameters, &t->options->outer);
	owns_take_mean(t, &local->owns, mean);
	owns_start(t, &local->owns);
}

static tutti_result_t average(struct training *t, struct why *why)
{
	const struct numbers *numbers = t->model.numbers;
	const size_t count = owns_meant(t) + SUMS_NUMBERS;
	struct owns *owns = &local_of(t)->owns;
	void *mean = owns->own[0].numbers;

	for (unsigned r = 0; r < t->options->replicas; r++) {
		weigh(t, &owns->own[r]);
		if (r > 0)
			numbers->add(mean, owns->own[r].numbers, count);
	}
	const tutti_result_t result =
		team_start_sum(t->grid.column, numbers, mean, count, NULL, why);

	if (result == TUTTI_OK)
		take_mean(t, mean);
	return result;
}

static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	struct owns *owns = &local_of(t)->owns;
	bool complete;
	const tutti_result_t result = owns_step(t, owns, step, &complete, why);

	return result == TUTTI_OK && complete && owns->ahead == t->options->every ? average(t, why)
										  : result;
}

static tutti_result_t fetch(struct training *t, struct why *why)
{
	const tutti_result_t result = local_of(t)->owns.ahead > 0 ? average(t, why) : TUTTI_OK;

	t->model.weights = state_now(&t->state, 0).weights;
	return result;
}

static void drain(struct training *t)
{
	owns_drain(t, &local_of(t)->owns);
}

static void finish(struct training *t)
{
	struct local *local = t->way;

	if (!local)
		return;
	owns_finish(t, &local->owns);
	free(local->outer);
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
