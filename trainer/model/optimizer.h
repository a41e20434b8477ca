/* SPDX-License-Identifier: BSD-3-Clause */
/* How weights follow from gradients. An optimiser keeps up to two numbers for each weight, which start
 * at 0: here and in checkpoints they are called velocity, whatever they are. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "numbers.h"
#include "rate.h"

/* One update. */
struct rule {
	double rate, momentum, decay;
	double momentum2; /* of squares: β₂ */
	double epsilon;
	/* The gradients are a sum over this part of a batch, divided by all of its samples: 1 but
	 * where ranks do not wait for each other; more than 0. */
	double part;
	size_t step;  /* of those since the velocity began, from 1 */
	double trust; /* of optimisers by layers: what the rate is multiplied by in this one */
};

/* Of a layer, or a part of it: sums of squares. */
struct squares {
	double weights, steps; /* steps: of what the weights are to move along */
};

struct optimizer {
	const char *name;	   /* of --optimizer */
	const char *kept;	   /* what it calls velocity, if it has any */
	unsigned velocities;	   /* that it keeps */
	double rate, momentum;	   /* unless the user says them; momentum -1: it has none */
	enum rate_scaling scaling; /* likewise */
	/* May an update be made of a part of a batch? */
	bool takes_parts;
	/* Is the mean of updates by some gradients the update by their mean? */
	bool linear;
	enum move by;
	struct update (*update)(const struct rule *rule);
	/* NULL: all weights have the same rate. Otherwise each layer has its own: what it is multiplied
	 * by, from the squares of a whole layer. `trust`: --trust. */
	double (*trust)(const struct rule *rule, const struct squares *layer, double trust);
};

/* All of them; ends with NULL. */
extern const struct optimizer *const optimizers[];

/* `from` stays as it is, unless it is the same memory as `to`. */
void optimizer_update(const struct optimizer *optimizer, const struct numbers *numbers,
		      const struct rule *rule, struct trained from, const void *gradients,
		      size_t count, struct trained to);
/* Of an optimiser by layers: add the squares of these weights, which are of one layer. */
void optimizer_measure(const struct optimizer *optimizer, const struct numbers *numbers,
		       const struct rule *rule, struct trained from, const void *gradients,
		       size_t count, struct squares *sum);

#endif
