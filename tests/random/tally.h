/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks of all jobs share, without the library: how much was called and compared, and
 * whether anything was wrong. */
#ifndef TT_RANDOM_TALLY_H
#define TT_RANDOM_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "calls/call.h"

struct tally {
	atomic_int failed;	    /* something was wrong: who finds it so first reports it */
	atomic_ullong calls[WHATS]; /* of ranks */
	atomic_ullong elements;	    /* compared */
	atomic_int arrived;	    /* ranks at the end of a part of a job */
};

void tally_call(struct tally *tally, const struct call *call);
unsigned long long tally_calls(const struct tally *tally);
/* Wait for all of `ranks` ranks, each of which has been here `before` times before. False:
 * something has failed. */
bool tally_meet(struct tally *tally, int ranks, int before);

#endif
