/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a rank has ahead of the state. */
#include "own.h"

#include <stdlib.h>
#include <string.h>

#include "train.h"

/* Weights and velocities. */
static size_t all_numbers(const struct training *t)
{
	return (1 + t->options->optimizer->velocities) * t->model.parameters;
}

size_t owns_meant(const struct training *t)
{
	return sync_keeps(t) ? all_numbers(t) : t->model.parameters;
}

static tutti_result_t take_memory(struct training *t, struct owns *owns, struct why *why)
{
	const size_t bytes = (all_numbers(t) + SUMS_NUMBERS) * t->model.numbers->size;

	for (unsigned r = 0; r < t->options->replicas; r++) {
		const tutti_result_t result = tutti_mem_alloc(bytes, &owns->own[r].numbers);

		if (result != TUTTI_OK)
			return why_set(why, result, "no memory for a rank's own steps: %s",
				       tutti_last_error(NULL));
	}
	return TUTTI_OK;
}

tutti_result_t owns_create(struct training *t, struct owns *owns, struct why *why)
{
	owns->own = calloc(t->options->replicas, sizeof(*owns->own));
	return owns->own ? take_memory(t, owns, why) : why_no_memory(why, "a rank's own steps");
}

void owns_finish(const struct training *t, struct owns *owns)
{
	for (unsigned r = 0; owns->own && r < t->options->replicas; r++)
		tutti_mem_free(owns->own[r].numbers);
	free(owns->own);
	*owns = (struct owns){ 0 };
}

void owns_go_on(const struct training *t, struct owns *owns)
{
	for (unsigned r = 0; r < t->options->replicas; r++) {
		owns->own[r].samples = 0;
		owns->own[r].sums = (struct sums){ 0 };
	}
	owns->samples = owns->ahead = 0;
}

void owns_start(struct training *t, struct owns *owns)
{
	for (unsigned r = 0; r < t->options->replicas; r++) /* velocities lie behind the weights */
		memcpy(owns->own[r].numbers, state_now(&t->state, 0).weights,
		       all_numbers(t) * t->model.numbers->size);
	owns_go_on(t, owns);
	t->model.weights = state_now(&t->state, 0).weights;
}

tutti_result_t owns_begin(struct training *t, struct owns *owns, struct why *why)
{
	const tutti_result_t result = owns->begun ? take_memory(t, owns, why) : TUTTI_OK;

	if (result != TUTTI_OK)
		return result;
	owns->begun = true;
	owns_start(t, owns);
	return TUTTI_OK;
}

struct own *owns_current(const struct training *t, const struct owns *owns)
{
	return &owns->own[t->replica];
}

static struct trained trained_of(const struct training *t, const struct own *own)
{
	const size_t count = t->model.parameters;

	return trained_at(t->model.numbers, own->numbers,
			  numbers_at(t->model.numbers, own->numbers, count), count, 0);
}

static tutti_result_t step_alone(struct training *t, struct own *own, struct why *why)
{
	const struct numbers *numbers = t->model.numbers->gradients;
	const size_t count = t->model.parameters;
	const struct trained mine = trained_of(t, own);

	if (t->options->clip > 0)
		numbers->scale(t->gradients, count,
			       sync_clip_factor(t, numbers->square_sum(t->gradients, count)));
	return sync_update(t, (struct slice){ 0, count }, mine, t->gradients, mine, why);
}

tutti_result_t owns_step(struct training *t, struct owns *owns, const struct step *step,
			 bool *complete, struct why *why)
{
	const struct sums sums = sync_load_sums(t);
	struct own *own = owns_current(t, owns);
	tutti_result_t result = TUTTI_OK;

	if (step->mine > 0)
		result = step_alone(t, own, why);
	if (result != TUTTI_OK)
		return result;
	own->samples += step->mine;
	own->sums.loss += sums.loss;
	own->sums.correct += sums.correct;
	own->sums.samples += sums.samples;
	*complete = t->replica == t->options->replicas - 1;
	if (!*complete)
		return TUTTI_OK;
	owns->begins = owns->ahead == 0 ? step->first : owns->begins;
	owns->samples += step->all;
	owns->ahead++;
	t->state.step++;
	return TUTTI_OK;
}

void owns_drain(struct training *t, struct owns *owns)
{
	t->state.step -= owns->ahead;
	owns_start(t, owns);
}

void owns_take_mean(struct training *t, const struct owns *owns, const void *mean)
{
	const struct numbers *numbers = t->model.numbers;
	double sums[SUMS_NUMBERS];

	numbers->load(sums, numbers_from(numbers, mean, owns_meant(t)), SUMS_NUMBERS);
	memcpy(state_next(&t->state, 0).weights, mean, owns_meant(t) * numbers->size);
	t->state.step--; /* owns_step() has counted it already */
	state_advance(&t->state, &(struct sums){ sums[0], sums[1], sums[2] }, owns->begins);
}
