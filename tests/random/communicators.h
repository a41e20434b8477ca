/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicators on which one thread of a rank calls: that of all ranks, and parts of it, or of
 * parts, that come and go and overlap. Who is in a part is drawn alike by all ranks of the job. */
#ifndef TT_RANDOM_COMMUNICATORS_H
#define TT_RANDOM_COMMUNICATORS_H

#include <tutti/tutti.h>

#include "calls/random.h"
#include "setting.h"

#define COMMUNICATORS 4

struct communicator {
	tutti_comm_t comm;		    /* NULL: this rank is in none here */
	int members[RANKS_MAX], size, rank; /* ranks of the job */
};

struct communicators {
	struct communicator at[COMMUNICATORS]; /* the first has all ranks */
};

void communicators_init(struct communicators *all, tutti_comm_t comm);
/* A part of another one takes the place of one. On an error what is wrong is in `*what`. */
tutti_result_t communicators_change(struct communicators *all, struct random *random,
				    const char **what);
/* All but the first are destroyed. */
void communicators_drop(struct communicators *all);
void communicators_abort(struct communicators *all);

#endif
