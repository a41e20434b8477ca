/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the rules by which weights follow from gradients. Owns no numbers. */
#include "optimizer.h"

#include <math.h>

static struct update sgd(const struct rule *rule)
{
	return (struct update){ .rate = rule->rate * rule->part,
				.gain = 1 / rule->part,
				.decay = rule->decay };
}

/* Momentum as a time constant: the parts of a batch together let the velocity decay as a whole one
 * does, and a constant gradient leads to the same velocity and moves the weights as far. */
static struct update momentum(const struct rule *rule)
{
	const double part = rule->part, keep = pow(rule->momentum, part);
	const double gain = (1 - keep) / (1 - rule->momentum);

	return (struct update){ .rate = rule->rate * part,
				.keep = keep,
				.gain = gain / part,
				.decay = gain * rule->decay };
}

/* Sutskever et al. 2013, as PyTorch has it: from where the velocity is about to lead. */
static struct update nesterov(const struct rule *rule)
{
	return (struct update){
		.rate = rule->rate, .keep = rule->momentum, .gain = 1, .decay = rule->decay
	};
}

/* Duchi et al. 2011, the diagonal one; its sum of squares grows by the part. */
static struct update adagrad(const struct rule *rule)
{
	struct update u = sgd(rule);

	u.keep = rule->part;
	return u;
}

/* Kingma and Ba 2015, algorithm 1. Both means begin at 0, and are divided by what they would be of a
 * constant 1. */
static struct update adam(const struct rule *rule)
{
	return (struct update){ .rate = rule->rate,
				.gain = 1,
				.decay = rule->decay,
				.keep = rule->momentum,
				.keep2 = rule->momentum2,
				.epsilon = rule->epsilon,
				.whole = 1 / (1 - pow(rule->momentum, (double)rule->step)),
				.whole2 = 1 / (1 - pow(rule->momentum2, (double)rule->step)) };
}

/* Loshchilov and Hutter 2019, algorithm 2: weights decay beside the means. */
static struct update adamw(const struct rule *rule)
{
	struct update u = adam(rule);

	u.decay = 0;
	u.shrink = rule->decay;
	return u;
}

/* You et al. 2017 (LARS), algorithm 1. */
static struct update lars(const struct rule *rule)
{
	const double rate = rule->rate * rule->trust;

	return (struct update){
		.rate = 1, .keep = rule->momentum, .gain = rate, .decay = rate * rule->decay
	};
}

static double trust_lars(const struct rule *rule, const struct squares *layer, double trust)
{
	const double weights = sqrt(layer->weights), gradients = sqrt(layer->steps);

	return weights > 0 && gradients > 0 ? trust * weights / (gradients + rule->decay * weights)
					    : 1;
}

/* You et al. 2020 (LAMB), algorithm 2, with the identity for φ. */
static struct update lamb(const struct rule *rule)
{
	struct update u = adamw(rule);

	u.rate *= rule->trust;
	return u;
}

static double trust_lamb(const struct rule *rule, const struct squares *layer, double trust)
{
	return layer->weights > 0 && layer->steps > 0 ? sqrt(layer->weights / layer->steps) : 1;
}

/* ---- all */

void optimizer_update(const struct optimizer *o, const struct numbers *numbers,
		      const struct rule *rule, struct trained from, const void *gradients,
		      size_t count, struct trained to)
{
	const struct update update = o->update(rule);

	numbers->move(o->by, &update, from, gradients, count, to);
}

void optimizer_measure(const struct optimizer *o, const struct numbers *numbers,
		       const struct rule *rule, struct trained from, const void *gradients,
		       size_t count, struct squares *sum)
{
	const struct update update = o->update(rule);

	sum->weights += numbers->square_sum(from.weights, count);
	sum->steps += o->by == MOVE_ADAM ? numbers->adam_squares(&update, from, gradients, count)
					 : numbers->gradients->square_sum(gradients, count);
}

/* What optimisers have alike. */
#define BY_VELOCITY .kept = "velocity", .velocities = 1, .momentum = 0.9
#define BY_MEANS                                                                                   \
	.kept = "mean of gradients and squares", .velocities = 2, .momentum = 0.9,                 \
	.scaling = SCALE_SQRT, .by = MOVE_ADAM

static const struct optimizer all[] = {
	{ .name = "sgd",
	  .linear = true,
	  .rate = 0.1,
	  .momentum = -1,
	  .takes_parts = true,
	  .by = MOVE_DESCEND,
	  .update = sgd },
	{ .name = "momentum",
	  BY_VELOCITY,
	  .linear = true,
	  .rate = 0.1,
	  .takes_parts = true,
	  .by = MOVE_MOMENTUM,
	  .update = momentum },
	{ .name = "nesterov",
	  BY_VELOCITY,
	  .linear = true,
	  .rate = 0.1,
	  .by = MOVE_NESTEROV,
	  .update = nesterov },
	{ .name = "adagrad",
	  .kept = "sum of squares",
	  .velocities = 1,
	  .rate = 0.02,
	  .momentum = -1,
	  .takes_parts = true,
	  .by = MOVE_ADAGRAD,
	  .update = adagrad },
	{ .name = "adam", BY_MEANS, .rate = 0.001, .update = adam },
	{ .name = "adamw", BY_MEANS, .rate = 0.001, .update = adamw },
	{ .name = "lars",
	  BY_VELOCITY,
	  .rate = 10,
	  .scaling = SCALE_NONE,
	  .by = MOVE_MOMENTUM,
	  .update = lars,
	  .trust = trust_lars },
	{ .name = "lamb", BY_MEANS, .rate = 0.005, .update = lamb, .trust = trust_lamb },
};

const struct optimizer *const optimizers[] = { &all[0], &all[1], &all[2], &all[3], &all[4],
					       &all[5], &all[6], &all[7], NULL };
