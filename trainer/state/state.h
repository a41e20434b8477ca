/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks hold alike, bit for bit: the state of the training after a number of steps. It is
 * one vector of weights and velocities, which survivors and newcomers exchange as it lies in
 * memory, and checkpoints have as it is at the end of an epoch, when the sums behind it are
 * over. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "model.h"
#include "optimizer.h"
#include "team.h"

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

#endif
