/* SPDX-License-Identifier: BSD-3-Clause */
/* How weights follow from gradients. An optimiser keeps one number for each weight, which starts at 0:
 * here and in checkpoints it is called velocity, whatever it is. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include <stdbool.h>

#include "numbers.h"

/* Weights and velocity: the same number of both. */
struct trained {
	void *weights, *velocity;
};

/* One update. */
struct rule {
	double rate, momentum, decay;
	/* The gradients are a sum over this part of a batch, divided by all of its samples: 1 but
	 * where ranks do not wait for each other; more than 0. */
	double part;
};

struct optimizer {
	const char *name; /* of --optimizer */
	const char *kept; /* what it calls velocity */
	/* Does the next update depend on the velocity that this one leaves? */
	bool (*keeps)(double momentum);
	/* `from` stays as it is, unless it is the same memory as `to`. */
	void (*update)(const struct numbers *numbers, const struct rule *rule, struct trained from,
		       const void *gradients, size_t count, struct trained to);
};

extern const struct optimizer optimizer_sgd, optimizer_adagrad;

#endif
