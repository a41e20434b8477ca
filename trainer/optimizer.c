/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the rules by which weights follow from gradients. Owns no numbers. */
#include "optimizer.h"

#include <math.h>

static bool keeps_momentum(double momentum)
{
	return momentum > 0;
}

static bool keeps_always(double momentum)
{
	return true;
}

/* Momentum as a time constant: the parts of a batch together let the velocity decay as a whole one
 * does, and a constant gradient leads to the same velocity and moves the weights as far. */
static void update_sgd(const struct numbers *numbers, const struct rule *rule, struct trained from,
		       const void *gradients, size_t count, struct trained to)
{
	const double part = rule->part, momentum = pow(rule->momentum, part);
	const double gain = (1 - momentum) / (1 - rule->momentum);

	numbers->sgd(from.weights, from.velocity, gradients, count,
		     &(struct update){ .rate = rule->rate * part,
				       .keep = momentum,
				       .gain = gain / part,
				       .decay = gain * rule->decay },
		     to.weights, to.velocity);
}

/* Duchi et al. 2011, the diagonal one; its sum of squares grows by the part. */
static void update_adagrad(const struct numbers *numbers, const struct rule *rule,
			   struct trained from, const void *gradients, size_t count,
			   struct trained to)
{
	numbers->adagrad(from.weights, from.velocity, gradients, count,
			 &(struct update){ .rate = rule->rate * rule->part,
					   .keep = rule->part,
					   .gain = 1 / rule->part,
					   .decay = rule->decay },
			 to.weights, to.velocity);
}

const struct optimizer optimizer_sgd = { "sgd", "velocity", keeps_momentum, update_sgd };
const struct optimizer optimizer_adagrad = { "adagrad", "sum of squares", keeps_always,
					     update_adagrad };
