/* SPDX-License-Identifier: BSD-3-Clause */
/* What TUTTI_LOOP asks for, parsed; the grammar is in loop.h. */
#ifndef TT_LOOP_FAULTS_H
#define TT_LOOP_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#define LOOP_PAIRS_MAX 8

/* From one rank to another, after so many bytes (refusals: at once). */
struct loop_pair {
	int from, to;
	uint64_t after;
};

struct loop_pairs {
	struct loop_pair pair[LOOP_PAIRS_MAX];
	int count;
};

struct loop_faults {
	uint64_t longest; /* bytes a link operation moves at most; 0: any number */
	uint64_t stall;	  /* one operation in so many moves nothing; 0: none */
	uint64_t capacity;
	uint64_t delay_ns, jitter_ns, news_ns;
	uint64_t seed;
	struct loop_pairs cuts, refusals;
	int mortal; /* the rank that dies, -1 for none */
	uint64_t dies_after;
};

/* Parse what tt_loop_set_faults() or else the environment says. TUTTI_ERR_INVALID, with the part
 * that is wrong and what was expected in its place. */
tutti_result_t tt_loop_faults_read(struct loop_faults *out);

/* The pair from → to, NULL if it is not among them. */
const struct loop_pair *tt_loop_pairs_find(const struct loop_pairs *pairs, int from, int to);

#endif
