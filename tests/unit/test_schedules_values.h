/* SPDX-License-Identifier: BSD-3-Clause */
/* What a block holds, symbolically: whose contributions, combined in which order. Up to 64 ranks
 * the set of contributors is exact; above it is a sum of 128 random bits per rank, wrong once in
 * 2^128. */
#ifndef TEST_SCHEDULES_VALUES_H
#define TEST_SCHEDULES_VALUES_H

#include <stdbool.h>
#include <stdint.h>

struct value {
	uint64_t who[2];  /* the set of contributors */
	uint64_t term;	  /* of the expression as written, so that equal bits need equal terms */
	int32_t block;	  /* which block of the contributors' input */
	int32_t first;	  /* if in order: the lowest contributor */
	int32_t count;	  /* contributions */
	int32_t steps;	  /* in which contributions were combined, at most, of any on its way */
	uint8_t in_order; /* first, first + 1, … from left to right */
	uint8_t fold;	  /* ((first op first + 1) op first + 2) … */
	uint8_t finals;	  /* how often it was completed */
};

/* Values by number: 0 is none, negative ones are inputs, positive ones were computed. */
struct values {
	struct value *made;
	int32_t count, capacity;
	int ranks, blocks;
	uint64_t (*first)[2]; /* [ranks + 1]: the set of the first so many ranks */
};

void values_init(struct values *values, int ranks, int blocks);
void values_fini(struct values *values);

int32_t value_input(const struct values *values, int rank, int block);
struct value value_of(const struct values *values, int32_t number);
int32_t value_keep(struct values *values, const struct value *value);

/* left = left op right; an error message if that makes no sense, NULL otherwise */
const char *value_combine(const struct values *values, struct value *left,
			  const struct value *right);
/* Does it hold ranks 0 … ranks - 1, each once? */
bool value_is_total(const struct values *values, const struct value *value, int ranks);

#endif
