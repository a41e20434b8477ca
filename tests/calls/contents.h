/* SPDX-License-Identifier: BSD-3-Clause */
/* What buffers hold, and what results must be: computed alone, from the numbers that all ranks draw
 * alike.
 *
 * Element i of what a rank contributes repeats with a period of PERIOD elements, a prime, so that a
 * table of one period stands for a vector of any length, and a result is compared at the speed of
 * memcmp(). A part of the data at a wrong offset shows unless it is off by a multiple of PERIOD
 * elements. */
#ifndef TT_CONTENTS_H
#define TT_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bounds.h"
#include "what.h"

#define PERIOD	   509
#define CALL_RANKS 16 /* at most */

/* Where tables and buffers come from: malloc(), or what the program sets before it makes the first call. */
struct call_memory {
	void *(*take)(size_t bytes); /* never of 0 bytes */
	void (*give)(void *memory);
};
extern struct call_memory call_memory;

struct table {
	tutti_dtype_t dtype;
	size_t n; /* elements, PERIOD at most */
	unsigned char *bytes;
	long double *near; /* NULL: the bits are right. Otherwise: a number, with digits to
			    * spare, */
	double *magnitude; /* of what is combined, and, once it is known by which algorithm, */
	double *within;	   /* how far a result may be from that number */
};

/* What decides about the elements of an operation. */
struct contents {
	tutti_dtype_t dtype;
	int combine, size; /* how the elements of `size` ranks are combined */
	bool rounds;   /* floats of all digits; otherwise no combination of the elements is rounded,
			  in whatever order */
	bool in_order; /* results are those of a left fold in rank order, bit by bit, although they
			  are rounded */
	uint64_t salt;
	size_t n; /* elements of a table that are used */
};

bool combine_is_defined(int combine, tutti_dtype_t dtype);
/* Results of floats of all digits are rounded, or whatever the numbers are. */
bool combine_may_round(int combine, tutti_dtype_t dtype);
bool combine_must_round(int combine, tutti_dtype_t dtype);
const char *combine_name(int combine);

/* What rank `rank` contributes. */
struct table contents_of(const struct contents *contents, int rank);
/* The factor of rank `rank` of a pre-multiplied sum, as an element. */
void contents_factor(const struct contents *contents, int rank, unsigned char element[8]);
/* The reduction of what the ranks 0 … `last` contribute. */
struct table contents_combined(const struct contents *contents, int last);
/* So a table was made: how far from it a result may be. */
void contents_allow(const struct value_way *way, struct table *table);
void table_finish(struct table *table);

/* The user's operations, as tutti_reduce_fn_t. */
void combine_add(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context);
void combine_compose(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context);

#endif
