/* SPDX-License-Identifier: BSD-3-Clause */
/* A shard of the weights and its updates. They follow from its own order of updates alone, bit for
 * bit: so a journal of these is enough to make them again. */
#ifndef TRAIN_SHARD_H
#define TRAIN_SHARD_H

#include "batches.h"
#include "tasks.h"
#include "why.h"

struct training;

/* Zeroed is empty. */
struct shard {
	struct slice slice; /* of the weights */
	void *weights;	    /* the training's: of the slice */
	void *velocity;	    /* owned: likewise */
	uint64_t version;   /* updates so far */
};

/* That of server `server`; no velocity yet. */
tutti_result_t shard_create(struct training *training, unsigned server, struct shard *out,
			    struct why *why);
void shard_finish(struct shard *shard);

struct slice shard_slice(const struct training *training, unsigned server);

/* One update by what `count` tasks contribute: their `gradients` of the shard are added up in this
 * order, into the first. */
void shard_update(struct training *training, struct shard *shard, void *const *gradients,
		  const uint64_t *tasks, size_t count);

#endif
