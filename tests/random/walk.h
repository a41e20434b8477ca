/* SPDX-License-Identifier: BSD-3-Clause */
/* What one thread of a rank calls, step by step: flights of operations on several communicators,
 * blocking, pending or in groups, that end in any order, and changes of its communicators. Each
 * step has a seed of its own, so that it can be taken alone. */
#ifndef TT_RANDOM_WALK_H
#define TT_RANDOM_WALK_H

#include "communicators.h"
#include "draw.h"
#include "setting.h"
#include "tally.h"

#define ITEMS	4 /* of a flight */
#define GROUPED 5 /* calls of a group */

/* A call, or a group of some. */
struct item {
	struct communicator *on; /* NULL: this rank has no part in it */
	struct call calls[GROUPED];
	int n;
	bool grouped;
	tutti_request_t request;
};

struct walker {
	const struct setting *setting;
	struct tally *tally;
	int rank, caller; /* of the job; which thread of the rank */
	long step, only;  /* the step that is taken; the one flight that is made, -1: all */
	long flip;	  /* from this step on a byte of the next buffer is changed, -1: none is */
	struct communicators communicators;
	struct item items[ITEMS];
	int n;
};

/* Steps from `from` to before `to`. False: something was wrong, and is reported. */
bool walk(struct walker *walker, long from, long to);
/* As the first call on a communicator: every connection of it is made. */
bool walk_warm_up(struct walker *walker);
/* Destroys the parts of the communicator. */
bool walk_rest(struct walker *walker);
/* Reports what was wrong, if nobody has yet, and ends what the others wait for. False. */
bool walk_fail(struct walker *walker, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
