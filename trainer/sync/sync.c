/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: what the ways to train together have in common. */
#include "sync.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train.h"

void *sync_sums(const struct training *t)
{
	return (char *)t->gradients + numbers_sums_offset(t->model.numbers, t->model.parameters);
}

void sync_store_sums(struct training *t, const struct sums *sums)
{
	const double numbers[SUMS_NUMBERS] = { sums->loss, sums->correct, sums->samples };

	t->model.numbers->sums->store(sync_sums(t), numbers, SUMS_NUMBERS);
}

struct sums sync_load_sums(const struct training *t)
{
	double numbers[SUMS_NUMBERS];

	t->model.numbers->sums->load(numbers, sync_sums(t), SUMS_NUMBERS);
	return (struct sums){ numbers[0], numbers[1], numbers[2] };
}

static struct rule next_rule(const struct training *t)
{
	return (struct rule){ .rate = rate_at(&t->plan, t->state.step),
			      .momentum = t->options->momentum,
			      .decay = t->options->weight_decay,
			      .momentum2 = t->options->beta2,
			      .epsilon = t->options->epsilon,
			      .part = 1,
			      .step = t->state.step + 1 - t->velocity_since,
			      .trust = 1 };
}

/* What of a range is of one layer; `place`: where that is in the range. */
struct piece {
	size_t place, count;
};

static struct piece piece_of(const struct layer *layer, struct slice range)
{
	const size_t end = range.first + range.count, layer_end = layer->offset + layer->count;
	const size_t from = layer->offset > range.first ? layer->offset : range.first;
	const size_t to = layer_end < end ? layer_end : end;

	return from < to ? (struct piece){ from - range.first, to - from } : (struct piece){ 0 };
}

static struct trained trained_from(const struct training *t, struct trained trained, size_t place)
{
	trained.weights = numbers_at(t->model.numbers, trained.weights, place);
	for (unsigned k = 0; k < t->options->optimizer->velocities; k++)
		trained.velocity[k] = numbers_at(t->model.numbers, trained.velocity[k], place);
	return trained;
}

void sync_measure(const struct training *t, struct slice range, struct trained from,
		  const void *gradients, struct layer_squares *sum)
{
	const struct numbers *numbers = t->model.numbers;
	const struct rule rule = next_rule(t);

	if (!t->options->optimizer->trust)
		return;
	for (unsigned l = 0; l < t->model.layers; l++) {
		const struct piece piece = piece_of(&t->model.layer[l], range);

		if (piece.count > 0)
			optimizer_measure(t->options->optimizer, numbers, &rule,
					  trained_from(t, from, piece.place),
					  numbers_from(numbers->gradients, gradients, piece.place),
					  piece.count, &sum->of[l]);
	}
}

static void update_layers(const struct training *t, struct slice range, struct trained from,
			  const void *gradients, struct trained to,
			  const struct layer_squares *squares)
{
	const struct optimizer *optimizer = t->options->optimizer;
	const struct numbers *numbers = t->model.numbers;
	struct rule rule = next_rule(t);

	for (unsigned l = 0; l < t->model.layers; l++) {
		const struct piece piece = piece_of(&t->model.layer[l], range);

		rule.trust = optimizer->trust(&rule, &squares->of[l], t->options->trust);
		if (piece.count > 0)
			optimizer_update(optimizer, numbers, &rule,
					 trained_from(t, from, piece.place),
					 numbers_from(numbers->gradients, gradients, piece.place),
					 piece.count, trained_from(t, to, piece.place));
	}
}

void sync_update_measured(const struct training *t, struct slice range, struct trained from,
			  const void *gradients, struct trained to,
			  const struct layer_squares *squares)
{
	const struct rule rule = next_rule(t);

	if (t->options->optimizer->trust)
		update_layers(t, range, from, gradients, to, squares);
	else
		optimizer_update(t->options->optimizer, t->model.numbers, &rule, from, gradients,
				 range.count, to);
}

bool sync_sum_squares(struct training *t, struct layer_squares *squares)
{
	return grid_sum_parts(&t->grid, &numbers_f64, squares, sizeof(*squares) / sizeof(double));
}

bool sync_update(struct training *t, struct slice range, struct trained from, const void *gradients,
		 struct trained to)
{
	struct layer_squares squares = { 0 };
	bool ok = true;

	sync_measure(t, range, from, gradients, &squares);
	if (t->options->optimizer->trust)
		ok = sync_sum_squares(t, &squares);
	if (ok)
		sync_update_measured(t, range, from, gradients, to, &squares);
	return ok;
}

bool sync_clip(struct training *t)
{
	const struct numbers *numbers = t->model.numbers->gradients;
	double sum = numbers->square_sum(t->gradients, t->model.parameters);
	const bool ok = grid_sum(&t->grid, &sum, 1);

	if (ok)
		numbers->scale(t->gradients, t->model.parameters, sync_clip_factor(t, sum));
	return ok;
}

bool sync_update_all(struct training *t)
{
	return sync_update(t, (struct slice){ 0, t->model.parameters }, state_now(&t->state, 0),
			   t->gradients, state_next(&t->state, 0));
}

void sync_advance(struct training *t, const struct step *step)
{
	const struct sums sums = sync_load_sums(t);

	state_advance(&t->state, &sums, step->first);
	t->model.weights = state_now(&t->state, 0).weights;
}

void *sync_velocity(const struct training *t, void *velocity, unsigned k)
{
	return velocity ? numbers_at(t->model.numbers, velocity, k * t->model.parameters) : NULL;
}

bool sync_keeps(const struct training *t)
{
	return optimizer_keeps(t->options->optimizer, t->options->momentum);
}

void sync_tell_velocity_lost(const struct training *t, const char *what)
{
	if (t->report->history.loss_count > 0 && sync_keeps(t))
		fprintf(stderr, "tutti-train: the %s of %s was lost with a rank, and begins anew\n",
			t->options->optimizer->kept, what);
}

void sync_velocity_shared(struct training *t)
{
	free(t->velocity);
	t->velocity = NULL;
	t->resumes = false;
}

/* Pascanu et al. 2013, algorithm 1. */
double sync_clip_factor(const struct training *t, double square_sum)
{
	const double most = t->options->clip, norm = sqrt(square_sum);

	return norm > most ? most / norm : 1;
}

struct worker sync_worker(const struct training *t)
{
	const int servers = (int)t->options->servers, index = t->grid.column->rank - servers;

	return (struct worker){ index < 0 ? -1 : index, t->grid.column->size - servers };
}

bool sync_nothing(struct training *t)
{
	return true;
}

bool sync_no_layer(struct training *t, unsigned l)
{
	return true;
}

size_t sync_all_samples(const struct step *step)
{
	return step->all;
}

size_t sync_own_samples(const struct step *step)
{
	return step->mine > 0 ? step->mine : 1;
}
