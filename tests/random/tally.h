/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks of all jobs share, without the library: how much was called and compared, whether
 * anything was wrong, and what results ranks must have alike. */
#ifndef TT_RANDOM_TALLY_H
#define TT_RANDOM_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls/call.h"

#define AGREED_MAX 4096

struct tally {
	atomic_int failed;	    /* something was wrong: who finds it so first reports it */
	atomic_ullong calls[WHATS]; /* of ranks */
	atomic_ullong elements;	    /* compared */
	atomic_ullong agreed[AGREED_MAX]; /* results that ranks have alike: which one it is, and a
					     hash of its bits */
	atomic_int arrived;		  /* ranks at the end of a part of a job */
};

void tally_call(struct tally *tally, const struct call *call);
unsigned long long tally_calls(const struct tally *tally);
/* Has no rank had other bits as the result that `which` says? */
bool tally_agrees(struct tally *tally, uint64_t which, const void *bits, size_t bytes);
/* Wait for all of `ranks` ranks, each of which has been here `before` times before. False:
 * something has failed. */
bool tally_meet(struct tally *tally, int ranks, int before);

#endif
