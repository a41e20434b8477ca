/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks come to hold the same state, at the start and when ranks were lost: those that are left
 * go on, with replacements if the launcher starts some. */
#ifndef TRAIN_SURVIVE_H
#define TRAIN_SURVIVE_H

#include <stdbool.h>

#include "report.h"
#include "team.h"

struct training;

/* Where a rank stands when ranks settle. Numbers of eight bytes: no gaps to send. */
struct stand {
	uint64_t step, epochs, losses;
	uint64_t hash;		 /* of the state */
	int64_t origin;		 /* its number, by the launcher */
	int64_t fresh;		 /* it has not trained with the others yet */
	int64_t settled;	 /* it has settled with others before */
	int64_t resumes;	 /* it has velocity from a checkpoint, to be shared out */
	int64_t losing;		 /* it knows of a loss that is not over */
	int64_t lacks, restarts; /* as in survival */
	double elapsed_s;
};

/* Zeroed is empty. */
struct survival {
	bool lacks_state; /* this rank has not got all weights since the others have trained on */
	bool left_out;	  /* the others have gone on without this rank, or nobody can */
	int min_ranks;	  /* go on while there are so many */
	int restarts;	  /* lost ranks that are still replaced */
	int wanted;	  /* ranks that there would be, had every replacement come */
	int member_count;
	struct stand *members; /* owned: of those that hold the state, since they have settled */
	struct stand *before;  /* owned: these when the first rank was lost; NULL: none is */
	struct loss loss;      /* that is being recovered from */
};

/* Read what the launcher says (TUTTI_MIN_RANKS, TUTTI_RESTART, TUTTI_JOIN). */
bool survival_init(struct survival *survival, const struct team *team);
void survival_finish(struct survival *survival);

/* settle.c: collective. On return all ranks hold the state of the one that was furthest, bit for
 * bit. */
bool settle(struct training *training);

/* Collective over those that are left, after the failure that why tells of: come together and
 * settle. More may be lost on the way. False: they may not go on, or nobody can; why says why. */
bool survive(struct training *training);

#endif
