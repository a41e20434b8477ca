/* SPDX-License-Identifier: BSD-3-Clause */
/* The training itself. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "batches.h"
#include "buckets.h"
#include "engine.h"
#include "grid.h"
#include "kept.h"
#include "options.h"
#include "report.h"
#include "sharded.h"
#include "shares.h"
#include "state.h"
#include "sync.h"
#include "team.h"

/* Zeroed is empty. */
struct training {
	const struct options *options;
	const struct engine *engine;
	const struct sync *sync; /* of engine_host */
	struct team *team;
	struct report *report;
	struct data data;
	struct split split;
	struct model model;
	struct buckets buckets;
	struct state state;
	uint32_t *order;  /* of an epoch: … */
	unsigned ordered; /* … this one, from 1; 0: none */
	size_t batch;	  /* samples of a step, of all ranks */
	size_t workers;	  /* ranks that compute, at the start */
	struct rate_plan plan;
	struct summary summary;
	struct survival survival;
	void *velocity;	       /* rank 0's, from a checkpoint, until it is shared out; or NULL */
	size_t velocity_since; /* the step with which this rank's velocity began */
	double resumed_s;      /* how long the training had taken then */
	void *whole;	    /* rank 0's, of a model that is cut: all of a checkpoint's state, until
				 * it is shared out; or NULL */
	bool resumes;	    /* rank 0 has such velocity: the same on all ranks */
	bool settled;	    /* this rank has settled with others (settle.c) */
	size_t steps_begun; /* by this rank */
	size_t ahead;	    /* steps of this epoch that servers of async are beyond the state */
	double share;	    /* of all samples so far, of a worker of async */
	bool failed_alike;  /* as all ranks have: one says why */
	double start_s, here_s; /* now_s() when the training began, and when this rank came */

	struct cuda *cuda; /* engine_cuda's */
	void *way;	   /* owned: sync's own */
	struct kept kept;
	struct grid grid;
	struct pipeline *pipeline; /* owned: pipeline.c's */
	struct shares shares;
	struct sharded *sharded; /* owned; NULL: each rank has all samples */
	double reading_s;	 /* that the samples took to be read */
};

/* prepare.c: read the data, make the model; with --shard, read this rank's part alone. Touches no other rank.
 * What is there after a failure is for training_finish(). */
bool training_create(const struct options *options, struct team *team, struct report *report,
		     struct training *out);
/* Collective, with --shard: make all else. */
bool training_share(struct training *training);
/* Train. All ranks return alike; on success `training->summary` is complete. No call of tutti is
 * under way on return. */
bool training_run(struct training *training);
void training_finish(struct training *training);

/* account.c: collective, at the end: what all ranks tell of themselves, in `training->summary`. */
bool training_account(struct training *training);

/* From now on training->order is that of `epoch`, from 0. */
void training_order(struct training *training, unsigned epoch);
/* The places in that of the samples of step `s` of an epoch, from 0. */
struct slice training_batch(const struct training *training, size_t s);

#endif
