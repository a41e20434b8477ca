/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns two copies of weights, velocity and sums: one that is complete, and one that the step under
 * way writes, bucket by bucket. When that is complete, too, they change places. So whatever becomes
 * of a step, each rank holds a state between two steps; ranks that are there after a failure differ
 * by one step at most, since no bucket of a step arrives before all ranks have begun that step. */
#include "state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

static_assert(sizeof(struct sums) == SUMS_NUMBERS * sizeof(double), "sums travel as a vector");

size_t state_count(const struct state *state)
{
	return 2 * state->parameters + SUMS_NUMBERS;
}

tutti_result_t state_create(size_t parameters, struct state *out, struct why *why)
{
	struct state state = { .parameters = parameters };

	state.now = calloc(state_count(&state), sizeof(double));
	state.next = calloc(state_count(&state), sizeof(double));
	if (!state.now || !state.next) {
		state_finish(&state);
		return why_no_memory(why, "weights and velocity");
	}
	*out = state;
	return TUTTI_OK;
}

void state_finish(struct state *state)
{
	free(state->now);
	free(state->next);
	*state = (struct state){ 0 };
}

uint64_t state_hash(const struct state *state)
{
	return hash_bytes(state->step, state->now, state_count(state) * sizeof(double));
}

static struct sgd_numbers numbers_of(const struct state *state, double *copy, size_t first)
{
	return (struct sgd_numbers){ copy + first, copy + state->parameters + first };
}

struct sgd_numbers state_now(const struct state *state, size_t first)
{
	return numbers_of(state, state->now, first);
}

struct sgd_numbers state_next(const struct state *state, size_t first)
{
	return numbers_of(state, state->next, first);
}

struct sums state_sums(const struct state *state)
{
	struct sums sums;

	memcpy(&sums, state->now + 2 * state->parameters, sizeof(sums));
	return sums;
}

void state_adopt(struct state *state, size_t step)
{
	double *complete = state->next;

	state->next = state->now;
	state->now = complete;
	state->step = step;
}

void state_advance(struct state *state, const struct sums *sums, int first_of_epoch)
{
	struct sums all = first_of_epoch ? (struct sums){ 0 } : state_sums(state);

	all.loss += sums->loss;
	all.correct += sums->correct;
	all.samples += sums->samples;
	memcpy(state->next + 2 * state->parameters, &all, sizeof(all));
	state_adopt(state, state->step + 1);
}
