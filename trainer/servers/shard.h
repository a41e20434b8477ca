/* SPDX-License-Identifier: BSD-3-Clause */
/* The first --servers ranks compute nothing, but hold a shard of the weights each, and what the
 * optimiser keeps for it. */
#ifndef TRAIN_SHARD_H
#define TRAIN_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batches.h"
#include "why.h"

struct training;

bool shard_serves(const struct training *training); /* is this rank a server? */
struct slice shard_slice(const struct training *training, unsigned server);

/* How many numbers each rank's shard has, of a worker 0: [ranks], the caller's. NULL: no memory. */
size_t *shard_counts(const struct training *training);

/* Collective: what an optimiser keeps, one vector behind the other, from rank 0's training->velocity
 * to the servers, and from them to rank 0's `all`. At `mine` it is of this rank's shard. Rank 0 keeps
 * what it has until all servers have theirs. */
bool shard_share_out(struct training *training, const size_t *counts, void *mine);
bool shard_collect(struct training *training, const size_t *counts, void *mine, void *all);

/* One that changes in place. Zeroed is empty. */
struct shard {
	struct slice slice; /* of the weights */
	void *weights;	    /* owned */
	void *velocity;	    /* owned */
	uint64_t version;   /* updates so far */
};

/* Gradients of a task, and the version of the weights that its worker had. */
struct push {
	void *gradients;
	uint64_t task, version;
};

/* This server's, with the weights that the training has; no velocity yet. */
bool shard_create(struct training *training, struct shard *out);
void shard_finish(struct shard *shard);

/* One update by what has been pushed. Gradients are added up in this order, into the first. */
void shard_update(struct training *training, struct shard *shard, const struct push *pushes,
		  size_t count);

#endif
