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

/* Which samples a step of this rank had, of how many of all ranks; `first` of an epoch. */
struct step {
	size_t mine, all;
	int first;
};

struct sync {
	const char *name; /* of --sync */
	const char *what; /* in a few words, for reports */
	/* Are weights the same on all ranks after each step, or only after fetch()? */
	bool each_step;
	bool shares_velocity; /* each rank keeps a part of it: training->state has none */
	/* Memory, and whatever else has to be there before ranks meet. */
	bool (*create)(struct training *training);
	/* Collective, before the first step and again when ranks were lost: training->state is what
	 * the next step starts from, the same on all ranks. */
	bool (*begin)(struct training *training);
	/* Collective: what is left of an epoch, from 0, where ranks go through no steps together; else
	 * NULL. Until fetch() training->state is that of its beginning. */
	bool (*epoch)(struct training *training, unsigned epoch);
	/* The forward pass is about to read the weights of layer `l`: model.weights points at where
	 * they are on return. */
	bool (*weights)(struct training *training, unsigned l);
	/* What a rank's gradients are divided by: the samples of all ranks, or its own. */
	size_t (*divisor)(const struct step *step);
	/* The gradients of layer `l` are complete. The last layer comes first. Behind those of all
	 * layers are the step's sums, complete before the first call. */
	bool (*gradients)(struct training *training, unsigned l);
	/* So are all: the update. On return state.step counts the step. */
	bool (*update)(struct training *training, const struct step *step);
	/* Collective, at the end of an epoch: training->state is complete, of the steps that it
	 * counts, and the same on all ranks. */
	bool (*fetch)(struct training *training);
	/* Collective, after fetch(), where velocity is kept in shares (else NULL): all of it to rank 0, at
	 * `velocity`, one vector of all weights' behind the other; NULL elsewhere. */
	bool (*collect)(struct training *training, void *velocity);
	/* Collective, after the last epoch. */
	bool (*end)(struct training *training);
	/* After a failure, or at the end: nothing is under way on return, and training->state is
	 * complete, of the steps that it then counts. */
	void (*drain)(struct training *training);
	/* Also of what create() left half done. */
	void (*finish)(struct training *training);
};

extern const struct sync sync_all_reduce, sync_zero1, sync_local, sync_ps, sync_async;

/* ---- sync.c: what ways have in common */

/* Where the sums of a step are, behind the gradients: numbers of model.numbers->sums. */
void *sync_sums(const struct training *training);
/* Put them there, and take them from there. */
void sync_store_sums(struct training *training, const struct sums *sums);
struct sums sync_load_sums(const struct training *training);

/* Squares of each layer, for optimisers that go by layers. */
struct layer_squares {
	struct squares of[MODEL_LAYERS_MAX];
};

/* The update of the next step, as the user said, from gradients of a whole batch: of the weights of
 * `range`, of which these are the first numbers. The range is of whole layers … */
bool sync_update(struct training *training, struct slice range, struct trained from,
		 const void *gradients, struct trained to);
/* … or the squares of its layers are known already: those of all ranges, added up. */
void sync_measure(const struct training *training, struct slice range, struct trained from,
		  const void *gradients, struct layer_squares *sum);
void sync_update_measured(const struct training *training, struct slice range, struct trained from,
			  const void *gradients, struct trained to,
			  const struct layer_squares *squares);
/* Of all weights, where all gradients are there; before that no longer than --clip, if that is said. */
bool sync_clip(struct training *training);
bool sync_update_all(struct training *training);
/* The step is done: its sums are complete, and the next one reads the new weights. */
void sync_advance(struct training *training, const struct step *step);

/* Where layers are in parts, their squares are added up over these. */
bool sync_sum_squares(struct training *training, struct layer_squares *squares);
/* Vector `k` of velocities of all weights, of training->velocity or its like; NULL stays NULL. */
void *sync_velocity(const struct training *training, void *velocity, unsigned k);
/* Does that depend on the velocity before? */
bool sync_keeps(const struct training *training);

/* After a loss of ranks: say that the velocity of `what` begins anew, if that makes a difference. */
void sync_tell_velocity_lost(const struct training *training, const char *what);

/* The velocity that rank 0 read from a checkpoint is where it belongs. */
void sync_velocity_shared(struct training *training);

/* What gradients whose squares add up to `square_sum` are multiplied by, for none longer than
 * --clip. */
double sync_clip_factor(const struct training *training, double square_sum);

/* Which of the workers this rank is, of how many; a parameter server is none: -1. */
struct worker {
	int index, count;
};
struct worker sync_worker(const struct training *training);

/* A way that has nothing to do here. */
bool sync_nothing(struct training *training);
bool sync_no_layer(struct training *training, unsigned l);
size_t sync_all_samples(const struct step *step);
size_t sync_own_samples(const struct step *step);

#endif
