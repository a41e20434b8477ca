/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks hold alike, bit for bit: the state of the training after a number of steps. It is
 * one vector of weights and velocities, which survivors and newcomers exchange as it lies in
 * memory, and checkpoints have as it is at the end of an epoch, when the sums behind it are
 * over. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "model.h"
#include "optimizer.h"
#include "report.h"
#include "team.h"

struct training;

/* Zeroed is empty. */
struct state {
	const struct numbers *numbers;
	size_t step;	   /* steps that are done */
	size_t parameters; /* of the model */
	size_t kept; /* of their velocities: all, or none where each rank has a share elsewhere */
	void *now;   /* after `step` steps: weights, velocity, the epoch's sums so far */
	void *next;  /* the same of the step under way, as far as it has come */
};

/* All zero. On failure, too, what there is of it is for state_finish(). */
bool state_create(const struct numbers *numbers, size_t parameters, size_t kept, struct state *out);
void state_finish(struct state *state);

/* How many bytes `now` is, for those who hand it on. */
size_t state_bytes(const struct state *state);
uint64_t state_hash(const struct state *state);

/* Where the numbers from `first` on are, of the weights and of the velocities that are kept. */
struct trained state_now(const struct state *state, size_t first);
struct trained state_next(const struct state *state, size_t first);
/* Over all ranks and the steps of this epoch. */
struct sums *state_sums(const struct state *state);

/* `next` is complete, of `step` steps: another rank's, or this one's before its last step. It is
 * `now` from now on. */
void state_adopt(struct state *state, size_t step);

/* Collective: what rank `source` has, after `step` steps, is everybody's from now on. On failure a rank has what
 * it had before. */
bool state_broadcast(struct state *state, struct team *team, size_t step, int source);

/* The step under way is complete: it adds `sums`, to none if it is the epoch's first. */
void state_advance(struct state *state, const struct sums *sums, int first_of_epoch);

/* ---- how ranks come to hold the same state, at the start and when ranks were lost: those that are left
 * go on, with replacements if the launcher starts some */

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
