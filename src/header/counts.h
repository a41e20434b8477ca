/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests of tables of counts, and what they say of a table that another rank has.
 *
 * An operation header has room for three words of a table: the sum, the moment (the sum of position
 * times count, from 1) and a hash. They say that two tables differ. They also say where, in most
 * cases: a table that differs in one or two places from the own one, is a multiple of it, or has
 * the same count everywhere follows from sum and moment, and the hash proves that it is the one. */
#ifndef TT_COUNTS_H
#define TT_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_counts {
	const size_t *at;
	size_t n;
};

/* All modulo 2^64. Zeros at the end change nothing. */
struct tt_counts_digest {
	uint64_t sum, moment, hash;
};

struct tt_counts_digest tt_counts_digest(const struct tt_counts *counts);
/* Find the table of `digest` from another one, `own`; `out` has room for as many. False: it is none
 * of those that can be found. */
bool tt_counts_find(const struct tt_counts *own, const struct tt_counts_digest *digest,
		    size_t *out);

#endif
