/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows when ranks are lost: those that are left go on, with replacements if the launcher
 * starts some. */
#ifndef TRAIN_SURVIVE_H
#define TRAIN_SURVIVE_H

#include <stdbool.h>

#include "report.h"
#include "team.h"

struct training;

/* The ranks that hold the state, as they settled last. */
struct members {
	int count;
	int *origin;
	bool *fresh;
};

/* Zeroed is empty. */
struct survival {
	bool fresh;	  /* this rank has not trained with the others yet */
	bool lacks_state; /* this rank has not got all weights since the others have trained on */
	bool left_out;	  /* the others have gone on without this rank, or nobody can */
	int min_ranks;	  /* go on while there are so many */
	int restarts;	  /* lost ranks that are still replaced */
	int wanted;	  /* ranks that there would be, had every replacement come */
	struct members members;
	int *before;	  /* the members' origins when the first rank was lost; NULL: none is */
	struct loss loss; /* that is being recovered from */
};

/* Read what the launcher says (TUTTI_MIN_RANKS, TUTTI_RESTART, TUTTI_JOIN). */
tutti_result_t survival_init(struct survival *survival, const struct team *team, struct why *why);
void survival_finish(struct survival *survival);

/* May those that are left go on after `fault`? */
bool survival_possible(const struct training *training, tutti_result_t fault);

/* Collective over those that are left after `fault`, which is told by `why`: come together and
 * settle. A failure may be survived again. */
tutti_result_t survive(struct training *training, tutti_result_t fault, struct why *why);

#endif
