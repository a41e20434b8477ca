/* SPDX-License-Identifier: BSD-3-Clause */
/* The learning rate of each step. */
#ifndef TRAIN_RATE_H
#define TRAIN_RATE_H

#include <stddef.h>

#define RATE_BASE_BATCH 64 /* the global batch for which a learning rate is meant */

enum rate_schedule { RATE_CONSTANT, RATE_COSINE };
enum rate_scaling { SCALE_LINEAR, SCALE_SQRT, SCALE_NONE };

struct rate_plan {
	double base; /* at a global batch of RATE_BASE_BATCH */
	enum rate_scaling scaling;
	enum rate_schedule schedule;
	size_t batch;	     /* global */
	size_t steps;	     /* of the whole training */
	size_t warmup_steps; /* linear rise to the scaled rate; at most `steps` */
};

/* The rate of `step`, from 0. */
double rate_at(const struct rate_plan *plan, size_t step);

#endif
