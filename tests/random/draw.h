/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls drawn at random. What all ranks must agree on is drawn alike by all of them; what is each
 * rank's own (in place or not, memory, displacements) is drawn for itself. */
#ifndef TT_RANDOM_DRAW_H
#define TT_RANDOM_DRAW_H

#include "calls/call.h"
#include "calls/random.h"

/* What a call is drawn for. */
struct situation {
	int rank, size;
	int hosts, fullest;	    /* of the communicator: hosts, and ranks of the fullest one */
	bool reproducible, grouped; /* in a group a rank may send to itself */
	size_t bytes;		    /* at most, in a buffer */
};

/* `like`, or NULL: an all-reduce with the same type and operation, and little data. */
void draw_call(struct call *call, const struct situation *in, struct random *all,
	       const struct call *like);
/* Its buffers, filled. False: there is no memory. */
bool draw_buffers(struct call *call, struct random *own);

#endif
