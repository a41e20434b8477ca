/* SPDX-License-Identifier: BSD-3-Clause */
/* How weights follow from gradients. An optimiser keeps up to two numbers for each weight, which start
 * at 0: here and in checkpoints they are called velocity, whatever they are. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "numbers.h"
#include "rate.h"

enum { OPTIMIZER_VELOCITIES = 2 };

/* Weights and velocities: the same number of each. */
struct trained {
	void *weights, *velocity[OPTIMIZER_VELOCITIES];
};

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
	const char *kept;	   /* what it calls velocity */
	unsigned velocities;	   /* that it keeps */
	double rate, momentum;	   /* unless the user says them; momentum -1: it has none */
	enum rate_scaling scaling; /* likewise */
	bool squares;		   /* it has --beta2 and --epsilon */
	/* May an update be made of a part of a batch? */
	bool takes_parts;
	/* Is the mean of updates by some gradients the update by their mean? */
	bool linear;
	/* Does the next update depend on the velocity that this one leaves? */
	bool (*keeps)(double momentum);
	/* `from` stays as it is, unless it is the same memory as `to`. */
	void (*update)(const struct numbers *numbers, const struct rule *rule, struct trained from,
		       const void *gradients, size_t count, struct trained to);
	/* NULL: all weights have the same rate. Otherwise each layer has its own, which depends on all of
	 * it: add this part's squares … */
	void (*measure)(const struct numbers *numbers, const struct rule *rule, struct trained from,
			const void *gradients, size_t count, struct squares *sum);
	/* … and from those of a whole layer, what its rate is multiplied by. `trust`: --trust. */
	double (*trust)(const struct rule *rule, const struct squares *layer, double trust);
};

/* All of them; ends with NULL. */
extern const struct optimizer *const optimizers[];
extern const struct optimizer optimizer_sgd, optimizer_momentum;

/* Where weight `first` and its velocities are. Of `count` weights the velocities lie at `velocity`,
 * one vector behind the other. */
static inline struct trained trained_at(const struct numbers *numbers, void *weights,
					void *velocity, size_t count, size_t first)
{
	struct trained trained = { .weights = numbers_at(numbers, weights, first) };

	for (size_t k = 0; k < OPTIMIZER_VELOCITIES; k++)
		trained.velocity[k] = numbers_at(numbers, velocity, k * count + first);
	return trained;
}

#endif
