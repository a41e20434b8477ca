/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: tasks follow from the options, gradients from a task and weights. */
#include "compute.h"

#include <string.h>

#include "host.h"
#include "train.h"

/* A slice: its samples in the order of the epoch, of how many of the batch. */
struct piece {
	size_t step; /* of the epoch */
	size_t place, count, batch;
};

static size_t slices_of_epoch(const struct training *t)
{
	return t->steps_per_epoch * t->workers;
}

size_t compute_tasks_of_epoch(const struct training *t)
{
	const size_t each = t->options->push_every;

	return (slices_of_epoch(t) + each - 1) / each;
}

static struct piece piece_of(const struct training *t, size_t slice)
{
	const size_t step = slice / t->workers, first = step * t->batch,
		     left = t->split.train_rows - first, batch = left < t->batch ? left : t->batch;
	const struct slice mine = slice_of(batch, (int)(slice % t->workers), (int)t->workers);

	return (struct piece){ step, first + mine.first, mine.count, batch };
}

/* The slices of a task, of its epoch. */
static struct slice slices_of(const struct training *t, uint64_t number)
{
	const size_t each = t->options->push_every, all = slices_of_epoch(t),
		     first = (size_t)(number % compute_tasks_of_epoch(t)) * each;

	return (struct slice){ first, all - first < each ? all - first : each };
}

static unsigned epoch_of(const struct training *t, uint64_t number)
{
	return (unsigned)(number / compute_tasks_of_epoch(t));
}

size_t compute_step(const struct training *t, uint64_t number)
{
	return epoch_of(t, number) * t->steps_per_epoch + slices_of(t, number).first / t->workers;
}

double compute_part(const struct training *t, uint64_t number)
{
	const struct slice slices = slices_of(t, number);
	double part = 0;

	for (size_t i = 0; i < slices.count; i++) {
		const struct piece piece = piece_of(t, slices.first + i);

		part += (double)piece.count / (double)piece.batch;
	}
	return part;
}

size_t compute_samples(const struct training *t, uint64_t number)
{
	const struct slice slices = slices_of(t, number);
	size_t samples = 0;

	for (size_t i = 0; i < slices.count; i++)
		samples += piece_of(t, slices.first + i).count;
	return samples;
}

static void step_alone(struct training *t, struct workplace *place, const struct piece *piece,
		       unsigned epoch)
{
	const struct rule rule = { .rate = rate_at(&t->plan,
						   epoch * t->steps_per_epoch + piece->step),
				   .decay = t->options->weight_decay,
				   .part = (double)piece->count / (double)piece->batch };
	const struct trained own = { .weights = place->weights };

	if (piece->count > 0)
		optimizer_sgd.update(t->model.numbers, &rule, own, t->gradients,
				     t->model.parameters, own);
}

static void keep(const struct training *t, struct workplace *place, bool first)
{
	const struct numbers *gradients = t->model.numbers->gradients;

	if (place->gradients == t->gradients)
		return;
	if (first)
		memcpy(place->gradients, t->gradients, t->model.parameters * gradients->size);
	else
		gradients->add(place->gradients, t->gradients, t->model.parameters);
}

static tutti_result_t compute_piece(struct training *t, const struct piece *piece,
				    struct sums *sums, struct why *why)
{
	const double begun = now_s();
	const tutti_result_t result =
		host_gradients(t, (struct slice){ piece->place, piece->count },
			       1.0 / (double)piece->batch, sums, why);

	shares_note(t, piece->count, now_s() - begun);
	return result;
}

tutti_result_t compute_task(struct training *t, struct workplace *place, uint64_t number,
			    bool goes_on, struct sums *sums, struct why *why)
{
	const struct slice slices = slices_of(t, number);
	const unsigned epoch = epoch_of(t, number);
	tutti_result_t result = TUTTI_OK;

	*sums = (struct sums){ 0 };
	training_order(t, epoch);
	t->model.weights = place->weights;
	for (size_t i = 0; i < slices.count && result == TUTTI_OK; i++) {
		const struct piece piece = piece_of(t, slices.first + i);

		result = compute_piece(t, &piece, sums, why);
		keep(t, place, i == 0);
		if (i < slices.count - 1 || goes_on)
			step_alone(t, place, &piece, epoch);
	}
	return result;
}
