/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that make steps of their own, by the mean gradient of their own slices: what --sync local
 * has. training->state is what all go on from, and is gone back to when ranks are lost;
 * steps from there on are ahead of it.
 *
 * One rank can play several (--simulate-ranks). */
#ifndef TRAIN_OWN_H
#define TRAIN_OWN_H

#include "optimizer.h"
#include "sync.h"

/* A rank, ahead of the state. */
struct own {
	void *numbers;	  /* owned: weights, velocities, and behind them room for the sums; of
			   * tutti_mem_alloc(): ranks of a host sum them without a copy */
	size_t samples;	  /* that it has had */
	struct sums sums; /* over these */
};

/* Zeroed is empty. */
struct owns {
	struct own *own; /* [replicas], owned */
	size_t samples;	 /* of all ranks */
	size_t ahead;	 /* steps, which training->state.step counts already */
	int begins;	 /* an epoch, with the first of those steps */
	bool begun;	 /* ranks may have seen `own` */
};

tutti_result_t owns_create(struct training *training, struct owns *out, struct why *why);
void owns_finish(const struct training *training, struct owns *owns);

/* All go on from the state. Again when ranks were lost: one that was stuck may still write into the old
 * memory, which is left as it is. */
tutti_result_t owns_begin(struct training *training, struct owns *owns, struct why *why);
void owns_start(struct training *training, struct owns *owns);
/* They go on from where they are, and the state is as far. */
void owns_go_on(const struct training *training, struct owns *owns);

struct own *owns_current(const struct training *training, const struct owns *owns);
/* A step of the rank that is played now. `complete`: it was the last that is played. */
tutti_result_t owns_step(struct training *training, struct owns *owns, const struct step *step,
			 bool *complete, struct why *why);
/* Steps that were ahead are no more. */
void owns_drain(struct training *training, struct owns *owns);

/* How many numbers of `own` a mean is of: weights, and velocities where the next step depends on them. */
size_t owns_meant(const struct training *training);
/* `mean` of these, and behind them the sums over all ranks, is the state from now on. */
void owns_take_mean(struct training *training, const struct owns *owns, const void *mean);

#endif
