/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that are sent, and those that must arrive.
 *
 * Every rank sends a periodic sequence of small whole numbers, each rank beginning at another place
 * of it and every repetition again at another: result[i] is then periodic too, and inputs are
 * written and outputs verified at the speed of memory. Values are so small that sums and products
 * of all ranks are exact in the type, however they are ordered: but for averages a result is
 * verified bit by bit. */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_NO_OP (-1)

const char *bench_type_name(tutti_dtype_t dtype);
size_t bench_type_size(tutti_dtype_t dtype);
bool bench_type_is_float(tutti_dtype_t dtype);
/* The type that is also called so, such as "float" or "double"; TUTTI_DTYPE_COUNT: there is none. */
int bench_type_alias(const char *name);
const char *bench_op_name(int op); /* "none" for BENCH_NO_OP */
struct bench_format bench_type_format(tutti_dtype_t dtype);
/* All whole numbers up to this are exact, and no signed type overflows. */
uint64_t bench_type_exact(tutti_dtype_t dtype);
/* `value` must be exact in the type. */
void bench_type_encode(tutti_dtype_t dtype, uint64_t value, void *out);

struct bench_pattern {
	tutti_dtype_t dtype;
	int op;
	int ranks;
	uint64_t most; /* no number that is sent is larger */
	/* [BENCH_PERIOD] encoded: what is sent, and the reduction of the first `reduced_ranks` */
	unsigned char *sent, *reduced;
	/* [BENCH_PERIOD] the same reduction as numbers, for averages of floats */
	double *exact;
};

/* Of elements that may travel as `wire`. `reduced_ranks`: how many ranks, from 0
 * on, contribute to a reduction (0: none is verified). False: memory could not be had. */
bool bench_pattern_init(struct bench_pattern *pattern, tutti_dtype_t dtype, int op, int ranks,
			int reduced_ranks, tutti_wire_t wire);
void bench_pattern_fini(struct bench_pattern *pattern); /* zeroed is fine */

/* Write `count` elements of what `rank` sends in repetition `shift`. */
void bench_pattern_fill(const struct bench_pattern *pattern, int rank, uint64_t shift, void *out,
			size_t count);

/* What is at one place of a result: of the reduction, or of what `rank` sent, elements `first` …
 * first+count-1. */
struct bench_part {
	const void *got;
	size_t count;
	size_t base; /* the number of the first one in its result */
	bool reduced;
	int rank;
	size_t first;
};

/* Where in the sequence it begins. */
uint64_t bench_part_place(const struct bench_part *part, uint64_t shift);
/* How the elements are stored, and how often an average may have been rounded. */
struct bench_format bench_pattern_format(const struct bench_pattern *pattern);
/* The numbers that the elements must nearly be; NULL: they must be bit by bit what the pattern
 * has. */
const double *bench_pattern_exact(const struct bench_pattern *pattern, bool reduced);
/* Add to `found` what is wrong there, where a reduction's elements travelled as `wire`. */
void bench_pattern_check(const struct bench_pattern *pattern, const struct bench_part *part,
			 uint64_t shift, tutti_wire_t wire, struct bench_found *found);

#ifdef __cplusplus
}
#endif

#endif
