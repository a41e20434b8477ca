/* SPDX-License-Identifier: BSD-3-Clause */
/* The learning rate of each step. */
#ifndef TRAIN_RATE_H
#define TRAIN_RATE_H

#include <stddef.h>

#define RATE_BASE_BATCH 64 /* the global batch for which a learning rate is meant */

enum rate_course { RATE_CONSTANT, RATE_COSINE, RATE_STEP };
enum rate_scaling { SCALE_LINEAR, SCALE_SQRT, SCALE_NONE };

/* After the warm-up. */
struct rate_schedule {
	enum rate_course course;
	unsigned every; /* RATE_STEP: epochs, counted from the first, after which the rate … */
	double factor;	/* … is multiplied by this */
};

struct rate_plan {
	double peak; /* behind the warm-up */
	struct rate_schedule schedule;
	size_t steps; /* of the whole training */
	size_t epoch_steps;
	size_t warmup_steps; /* linear rise to the peak; at most `steps` */
};

/* The rate at such a global batch that is `base` at one of RATE_BASE_BATCH. */
double rate_scaled(double base, enum rate_scaling scaling, size_t batch);
/* The rate of `step`, from 0. */
double rate_at(const struct rate_plan *plan, size_t step);

#endif
