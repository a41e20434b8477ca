/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients on their way: consecutive whole layers of at least so many bytes are one bucket, whose
 * all-reduce starts when the backward pass has finished the bucket's last layer, and goes on behind
 * the rest of the pass. New weights may come by the same buckets, behind the next forward pass. */
#ifndef TRAIN_BUCKETS_H
#define TRAIN_BUCKETS_H

#include "model.h"
#include "team.h"

struct bucket {
	size_t first, count;	 /* of the model's gradients */
	unsigned last_layer;	 /* finished last by the backward pass: the lowest */
	tutti_request_t request; /* NULL: not in flight */
	/* Where each rank updates some of the weights (kept.h): in rank order, so many are each
	 * rank's, or NULL; which of all weights are this rank's; where in a vector of its velocity
	 * theirs begins. */
	const size_t *counts;
	struct slice mine;
	size_t place;
};

struct buckets {
	unsigned count;
	/* The step's sums, which are behind the gradients and complete before these, travel by
	 * themselves, as they are of another type, or ranks get some of the gradients each; else
	 * with the last bucket. */
	bool apart;
	tutti_request_t apart_request;
	struct bucket bucket[MODEL_LAYERS_MAX]; /* in the order they become ready */
};

void buckets_init(struct buckets *buckets, const struct model *model, size_t bytes);

/* The bucket that layer `l` is in. */
struct bucket *buckets_find(struct buckets *buckets, unsigned l);

/* The gradients of `layer` are there: start the all-reduce of its bucket if it is complete. */
bool buckets_layer_ready(struct buckets *buckets, const struct model *model, unsigned layer,
			 struct team *team);

/* Bucket `i` holds the sum over all ranks on return; and with the last one the step's sums do. */
bool buckets_wait(struct buckets *buckets, unsigned i, struct team *team);

bool buckets_wait_all(struct buckets *buckets, struct team *team);

/* End what is in flight after a failure, so that the memory of the gradients may be freed. */
void buckets_drain(struct buckets *buckets);

#endif
