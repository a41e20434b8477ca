/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways to train together: what ranks do with their gradients so that they have the same
 * weights, after each step or after some. One file has one way.
 *
 * host.c computes, and calls these in the order in which they stand here. Of the training they use
 * model, state, plan, options and team. */
#ifndef TRAIN_SYNC_H
#define TRAIN_SYNC_H

#include <stdbool.h>

#include "batches.h"
#include "model.h"
#include "optimizer.h"
#include "why.h"

struct training;

/* A function that is NULL has nothing to do. */
struct sync {
	const char *name; /* of --sync */
	const char *what; /* in a few words, for reports */
	/* Are weights the same on all ranks after each step, or only after fetch()? A rank's
	 * gradients are divided by the samples of all ranks, or by its own. */
	bool each_step;
	bool shares_velocity; /* each rank keeps a part of it (kept.h): training->state has none */
	size_t bytes;	      /* of training->way, which is all 0 at first */
	/* Collective, before the first step and again when ranks were lost: training->state is what
	 * the next step starts from, the same on all ranks, and the model has its weights. */
	bool (*begin)(struct training *training);
	/* Collective: what is left of an epoch, from 0, where ranks go through no steps together;
	 * else NULL. Until fetch() training->state is that of its beginning. */
	bool (*epoch)(struct training *training, unsigned epoch);
	/* The gradients of layer `l` are complete. The last layer comes first. Behind those of all
	 * layers are the step's sums, complete before the first call. */
	bool (*gradients)(struct training *training, unsigned l);
	/* So are all: the update. On return state.step counts the step. */
	bool (*update)(struct training *training);
	/* Collective, at the end of an epoch: training->state is complete, of the steps that it
	 * counts, and the same on all ranks. */
	bool (*fetch)(struct training *training);
	/* After a failure, or at the end, when the buckets are drained: nothing is under way on
	 * return, and training->state is complete, of the steps that it then counts. */
	void (*drain)(struct training *training);
	void (*finish)(struct training *training);
};

extern const struct sync sync_all_reduce, sync_zero1, sync_local, sync_ps, sync_async;

/* ---- sync.c: what ways have in common */

/* The forward pass is about to read the weights of layer `l`: they are there on return. */
bool sync_weights(struct training *training, unsigned l);

/* Until none of the first `pending` requests is in flight. */
bool sync_wait_all(struct training *training, tutti_request_t *requests, size_t *pending);

/* Put the sums of a step behind the gradients, and take them from there. */
void sync_store_sums(struct training *training, const struct sums *sums);
struct sums sync_load_sums(const struct training *training);

/* Consecutive weights, and where they and their velocity are, before and after an update. */
struct stretch {
	struct slice of;
	struct trained from, to;
};

/* Before any update, when all gradients are there: shorten those of these stretches, for --clip, and
 * measure them, for an optimiser that goes by layers: the `squares` of each. Where each rank has its own stretches (`parted`) collective over
 * the column, and always over this rank's line. */
bool sync_survey(struct training *training, const struct stretch *stretches, unsigned count,
		 bool parted, struct squares squares[MODEL_LAYERS_MAX]);
/* The update of the next step, as the user said, from gradients of a whole batch: its rule, and all of
 * it. */
struct rule sync_rule(const struct training *training);
void sync_update(const struct training *training, const struct stretch *stretch,
		 const struct squares *squares);
/* The step is done: its sums are complete, and the next one reads the new weights. */
void sync_advance(struct training *training);

/* Vector `k` of velocities of all weights, of training->velocity or its like; NULL stays NULL. */
void *sync_velocity(const struct training *training, void *velocity, unsigned k);
/* Does the next update depend on the velocity before? */
bool sync_keeps(const struct training *training);

/* Which of the workers this rank is, of how many; a parameter server is none: -1. */
struct worker {
	int index, count;
};
struct worker sync_worker(const struct training *training);

#endif
