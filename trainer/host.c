/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's part of each step on the processor: the samples at hand, and the gradients,
 * which begin their way to the other ranks while the backward pass goes on. */
#include <stdlib.h>
#include <string.h>

#include "train.h"

static tutti_result_t host_renew_gradients(struct training *t, struct why *why)
{
	void *gradients;
	const tutti_result_t result = tutti_mem_alloc(
		(t->model.parameters + SUMS_NUMBERS) * t->model.numbers->size, &gradients);

	if (result != TUTTI_OK)
		return why_set(why, result, "no memory for the gradients: %s",
			       tutti_last_error(NULL));
	t->gradients = gradients;
	t->model.gradients = gradients;
	return TUTTI_OK;
}

static tutti_result_t host_create(struct training *t, struct why *why)
{
	const size_t rows_max = t->model.rows_max;

	t->x = malloc(rows_max * t->data.features * t->model.numbers->size);
	t->y = malloc(rows_max * sizeof(*t->y));
	if (!t->x || !t->y)
		return why_no_memory(why, "the training");
	return host_renew_gradients(t, why);
}

static void host_finish(struct training *t)
{
	free(t->y);
	free(t->x);
	tutti_mem_free(t->gradients);
}

static tutti_result_t host_begin(struct training *t, struct why *why)
{
	return TUTTI_OK;
}

static void take_samples(struct training *t, const uint32_t *rows, size_t count)
{
	t->model.numbers->gather(t->x, t->data.x, t->data.features, rows, count);
	for (size_t i = 0; i < count; i++)
		t->y[i] = t->data.y[rows[i]];
}

/* Update each bucket as it arrives, while the next are under way. */
static tutti_result_t update(struct training *t, double rate, struct why *why)
{
	const struct numbers *numbers = t->model.numbers;

	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *b = &t->buckets.bucket[i];
		const struct sgd_numbers from = state_now(&t->state, b->first),
					 to = state_next(&t->state, b->first);
		const tutti_result_t result = buckets_wait(&t->buckets, i, t->team, why);

		if (result != TUTTI_OK)
			return result;
		numbers->sgd(from.weights, from.velocity,
			     numbers_from(numbers, t->model.gradients, b->first), b->count, rate,
			     t->options->momentum, t->options->weight_decay, to.weights,
			     to.velocity);
	}
	return TUTTI_OK;
}

/* The loss and hits of the slice travel behind the gradients: they are not lost with the rank. */
static tutti_result_t host_step(struct training *t, size_t place, size_t count, int first,
				struct why *why)
{
	const struct slice mine = slice_of(count, t->team->rank, t->team->size);
	const struct numbers *numbers = t->model.numbers;
	void *behind = numbers_at(numbers, t->gradients, t->model.parameters);
	double numbers_of_sums[SUMS_NUMBERS];
	struct sums sums = { 0 };
	tutti_result_t result;

	t->model.weights = state_now(&t->state, 0).weights;
	take_samples(t, t->order + place + mine.first, mine.count);
	model_forward(&t->model, t->x, mine.count);
	model_loss(&t->model, t->y, mine.count, 1.0 / (double)count, &sums);
	memcpy(numbers_of_sums, &sums, sizeof(sums));
	numbers->store(behind, numbers_of_sums, SUMS_NUMBERS);
	for (unsigned l = t->model.layers; l-- > 0;) {
		model_backward(&t->model, l, mine.count, false);
		result = buckets_layer_ready(&t->buckets, &t->model, l, t->team, why);
		if (result != TUTTI_OK)
			return result;
	}
	result = update(t, sgd_rate(&t->plan, t->state.step), why);
	if (result != TUTTI_OK)
		return result;
	numbers->load(numbers_of_sums, behind, SUMS_NUMBERS);
	memcpy(&sums, numbers_of_sums, sizeof(sums));
	state_advance(&t->state, &sums, first);
	return TUTTI_OK;
}

static tutti_result_t host_fetch(struct training *t, struct why *why)
{
	return TUTTI_OK;
}

static tutti_result_t host_validate(struct training *t, struct sums *sums, struct why *why)
{
	const struct slice mine = slice_of(t->split.test_rows, t->team->rank, t->team->size);
	const uint32_t *rows = t->split.test + mine.first;

	*sums = (struct sums){ 0 };
	t->model.weights = state_now(&t->state, 0).weights;
	for (size_t done = 0; done < mine.count; done += t->model.rows_max) {
		const size_t left = mine.count - done;
		const size_t count = left < t->model.rows_max ? left : t->model.rows_max;

		take_samples(t, rows + done, count);
		model_forward(&t->model, t->x, count);
		model_loss(&t->model, t->y, count, 0, sums);
	}
	return TUTTI_OK;
}

static void host_drain(struct training *t)
{
	buckets_drain(&t->buckets);
}

const struct engine engine_host = {
	.name = "host",
	.create = host_create,
	.begin = host_begin,
	.step = host_step,
	.fetch = host_fetch,
	.validate = host_validate,
	.drain = host_drain,
	.renew_gradients = host_renew_gradients,
	.finish = host_finish,
};
