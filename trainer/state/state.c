/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns two copies of weights, velocity and sums: one that is complete, and one that the step under
 * way writes, bucket by bucket. When that is complete, too, they change places. So whatever becomes
 * of a step, each rank holds a state between two steps; ranks that are there after a failure differ
 * by one step at most, since no bucket of a step arrives before all ranks have begun that step. */
#include "state.h"

#include <assert.h>
#include <stdlib.h>

#include "bits.h"

static_assert(sizeof(struct sums) == SUMS_NUMBERS * sizeof(double), "sums travel as a vector");

/* The sums are behind weights and velocity, aligned for themselves. */
size_t state_bytes(const struct state *state)
{
	const size_t unit = sizeof(double),
		     bytes = (state->parameters + state->kept) * state->numbers->size;

	return (bytes + unit - 1) / unit * unit + sizeof(struct sums);
}

static struct sums *sums_in(const struct state *state, void *copy)
{
	return (struct sums *)((char *)copy + state_bytes(state)) - 1;
}

bool state_create(const struct numbers *numbers, size_t parameters, size_t kept, struct state *out)
{
	*out = (struct state){ .numbers = numbers, .parameters = parameters, .kept = kept };
	out->now = calloc(1, state_bytes(out));
	out->next = calloc(1, state_bytes(out));
	return (out->now && out->next) || why_no_memory("weights and velocity");
}

void state_finish(struct state *state)
{
	free(state->now);
	free(state->next);
	*state = (struct state){ 0 };
}

uint64_t state_hash(const struct state *state)
{
	return hash_bytes(state->step, state->now, state_bytes(state));
}

static struct trained numbers_of(const struct state *state, void *copy, size_t first)
{
	return trained_at(state->numbers, copy, numbers_at(state->numbers, copy, state->parameters),
			  state->parameters, first);
}

struct trained state_now(const struct state *state, size_t first)
{
	return numbers_of(state, state->now, first);
}

struct trained state_next(const struct state *state, size_t first)
{
	return numbers_of(state, state->next, first);
}

struct sums *state_sums(const struct state *state)
{
	return sums_in(state, state->now);
}

void state_adopt(struct state *state, size_t step)
{
	void *complete = state->next;

	state->next = state->now;
	state->now = complete;
	state->step = step;
}

bool state_broadcast(struct state *state, struct team *team, size_t step, int source)
{
	const bool gives = team->rank == source;

	if (!team_broadcast(team, state->now, gives ? state->now : state->next, state_bytes(state),
			    source))
		return false;
	if (!gives)
		state_adopt(state, step);
	return true;
}

void state_advance(struct state *state, const struct sums *sums, int first_of_epoch)
{
	struct sums *all = sums_in(state, state->next);

	*all = first_of_epoch ? (struct sums){ 0 } : *state_sums(state);
	numbers_f64.add(all, sums, SUMS_NUMBERS);
	state_adopt(state, state->step + 1);
}
