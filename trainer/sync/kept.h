/* SPDX-License-Identifier: BSD-3-Clause */
/* Which weights are whose, where one rank alone updates each and has the velocity of it: a server
 * those of its shard; where there are no servers, each rank a part of each bucket. */
#ifndef TRAIN_KEPT_H
#define TRAIN_KEPT_H

#include "model.h"

struct training;
struct stretch;

/* Zeroed is empty. */
struct kept {
	size_t *counts; /* owned: of all buckets */
	size_t count;	/* of this rank's weights */
	/* owned: their velocity, one vector behind the other: after step `step`; and that before,
	 * in place of which the step under way writes. NULL: weights change in place */
	void *now, *next;
	size_t step;
	struct slice of; /* where there are servers: of which weights */
	bool arriving;	 /* where there are none: the state's weights may be on their way */
};

/* The part of all weights that is a server's. */
struct slice kept_shard(const struct training *training, unsigned server);
/* Is this rank a server? */
bool kept_serves(const struct training *training);

/* Cut training->buckets among the ranks that there are now; for servers they are one, of all
 * weights. */
bool kept_lay_out(struct training *training);
/* The velocity of this rank's weights begins anew, or, collective, is what rank 0 read from a
 * checkpoint. `lost`: whose weights, says an error message after a loss of ranks; NULL: nothing is
 * said. */
bool kept_renew(struct training *training, const char *lost);
/* Is what there is of the shard that is this server's now? And of the step that all go on from? It
 * goes back one step if it has to. */
bool kept_is_of_shard(const struct training *training);
bool kept_is_current(struct training *training);
void kept_finish(struct kept *kept);

/* This rank's weights of a bucket. */
struct stretch kept_stretch(const struct training *training, unsigned bucket);
/* The step under way is complete. */
void kept_advance(struct training *training);

/* Collective: what is kept to each rank from rank 0's `velocity`, one vector of all weights' behind
 * the other, NULL elsewhere; or, where that `collects` it, the way back. */
bool kept_exchange(struct training *training, void *velocity, bool collects);

#endif
