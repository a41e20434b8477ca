/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the algebra of symbolic values; see test_schedules_values.h. */
#include <stdlib.h>

#include "calls/random.h"
#include "test_schedules_values.h"

enum { EXACT_RANKS = 64 };

/* A well-mixed function of x. */
static uint64_t mix(uint64_t x)
{
	struct random random = { x };

	return random_next(&random);
}

static void contributor(const struct values *values, int rank, uint64_t who[2])
{
	if (values->ranks <= EXACT_RANKS) {
		who[0] = (uint64_t)1 << rank;
		who[1] = 0;
	} else {
		who[0] = mix((uint64_t)rank);
		who[1] = mix((uint64_t)rank + ((uint64_t)1 << 40));
	}
}

void values_init(struct values *values, int ranks, int blocks)
{
	*values = (struct values){ .ranks = ranks, .blocks = blocks, .count = 1 };
	values->first = calloc((size_t)ranks + 1, sizeof(*values->first));
	if (!values->first)
		abort();
	for (int r = 0; r < ranks; r++) {
		uint64_t who[2];

		contributor(values, r, who);
		values->first[r + 1][0] = values->first[r][0] + who[0];
		values->first[r + 1][1] = values->first[r][1] + who[1];
	}
}

void values_fini(struct values *values)
{
	free(values->made);
	free(values->first);
}

int32_t value_input(const struct values *values, int rank, int block)
{
	return -(rank * values->blocks + block) - 1;
}

struct value value_of(const struct values *values, int32_t number)
{
	struct value input = { .count = 1, .in_order = true, .fold = true };

	if (number > 0)
		return values->made[number];
	input.first = -(number + 1) / values->blocks;
	input.block = -(number + 1) % values->blocks;
	input.term = mix((uint64_t)-number);
	contributor(values, input.first, input.who);
	return input;
}

int32_t value_keep(struct values *values, const struct value *value)
{
	if (values->count >= values->capacity) {
		values->capacity = values->capacity ? 2 * values->capacity : 1024;
		values->made = realloc(values->made, (size_t)values->capacity * sizeof(*value));
		if (!values->made)
			abort();
	}
	values->made[values->count] = *value;
	return values->count++;
}

const char *value_combine(const struct values *values, struct value *left,
			  const struct value *right)
{
	const bool next =
		left->in_order && right->in_order && right->first == left->first + left->count;

	if (left->block != right->block)
		return "different blocks are combined";
	if (left->finals || right->finals)
		return "a completed block is combined";
	if (values->ranks <= EXACT_RANKS && (left->who[0] & right->who[0]))
		return "a rank is counted twice";
	left->fold = next && left->fold && right->count == 1;
	left->in_order = next;
	left->who[0] += right->who[0];
	left->who[1] += right->who[1];
	left->count += right->count;
	if (right->steps > left->steps)
		left->steps = right->steps;
	left->term = mix(left->term + 3 * mix(right->term));
	return NULL;
}

bool value_is_total(const struct values *values, const struct value *value, int ranks)
{
	const uint64_t *all = values->first[ranks];

	return value->count == ranks && value->who[0] == all[0] && value->who[1] == all[1];
}
