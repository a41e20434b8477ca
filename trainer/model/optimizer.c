/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the rules by which weights follow from gradients. Owns no numbers. */
#include "optimizer.h"

#include <math.h>

static bool keeps_nothing(double momentum)
{
	return false;
}

static bool keeps_momentum(double momentum)
{
	return momentum > 0;
}

static bool keeps_always(double momentum)
{
	return true;
}

static void update_sgd(const struct numbers *numbers, const struct rule *rule, struct trained from,
		       const void *gradients, size_t count, struct trained to)
{
	numbers->descend(from.weights, gradients, count,
			 &(struct update){ .rate = rule->rate * rule->part,
					   .gain = 1 / rule->part,
					   .decay = rule->decay },
			 to.weights);
}

/* Momentum as a time constant: the parts of a batch together let the velocity decay as a whole one
 * does, and a constant gradient leads to the same velocity and moves the weights as far. */
static void update_momentum(const struct numbers *numbers, const struct rule *rule,
			    struct trained from, const void *gradients, size_t count,
			    struct trained to)
{
	const double part = rule->part, momentum = pow(rule->momentum, part);
	const double gain = (1 - momentum) / (1 - rule->momentum);

	numbers->momentum(from.weights, from.velocity[0], gradients, count,
			  &(struct update){ .rate = rule->rate * part,
					    .keep = momentum,
					    .gain = gain / part,
					    .decay = gain * rule->decay },
			  to.weights, to.velocity[0]);
}

/* Sutskever et al. 2013, as PyTorch has it: from where the velocity is about to lead. */
static void update_nesterov(const struct numbers *numbers, const struct rule *rule,
			    struct trained from, const void *gradients, size_t count,
			    struct trained to)
{
	numbers->nesterov(from.weights, from.velocity[0], gradients, count,
			  &(struct update){ .rate = rule->rate,
					    .keep = rule->momentum,
					    .gain = 1,
					    .decay = rule->decay },
			  to.weights, to.velocity[0]);
}

/* Duchi et al. 2011, the diagonal one; its sum of squares grows by the part. */
static void update_adagrad(const struct numbers *numbers, const struct rule *rule,
			   struct trained from, const void *gradients, size_t count,
			   struct trained to)
{
	numbers->adagrad(from.weights, from.velocity[0], gradients, count,
			 &(struct update){ .rate = rule->rate * rule->part,
					   .keep = rule->part,
					   .gain = 1 / rule->part,
					   .decay = rule->decay },
			 to.weights, to.velocity[0]);
}

/* ---- by means of gradients and their squares */

/* Both means begin at 0, and are divided by what they would be of a constant 1. */
static struct update means(const struct rule *rule)
{
	return (struct update){ .rate = rule->rate,
				.gain = 1,
				.keep = rule->momentum,
				.keep2 = rule->momentum2,
				.epsilon = rule->epsilon,
				.whole = 1 - pow(rule->momentum, (double)rule->step),
				.whole2 = 1 - pow(rule->momentum2, (double)rule->step) };
}

static void move(const struct numbers *numbers, const struct update *u, struct trained from,
		 const void *gradients, size_t count, struct trained to)
{
	numbers->adam(from.weights, from.velocity[0], from.velocity[1], gradients, count, u,
		      to.weights, to.velocity[0], to.velocity[1]);
}

/* Kingma and Ba 2015, algorithm 1. */
static void update_adam(const struct numbers *numbers, const struct rule *rule, struct trained from,
			const void *gradients, size_t count, struct trained to)
{
	struct update u = means(rule);

	u.decay = rule->decay;
	move(numbers, &u, from, gradients, count, to);
}

/* Loshchilov and Hutter 2019, algorithm 2: weights decay beside the means. */
static void update_adamw(const struct numbers *numbers, const struct rule *rule,
			 struct trained from, const void *gradients, size_t count,
			 struct trained to)
{
	struct update u = means(rule);

	u.shrink = rule->decay;
	move(numbers, &u, from, gradients, count, to);
}

/* ---- by layers */

/* You et al. 2017 (LARS), algorithm 1. */
static void update_lars(const struct numbers *numbers, const struct rule *rule, struct trained from,
			const void *gradients, size_t count, struct trained to)
{
	const double rate = rule->rate * rule->trust;

	numbers->momentum(from.weights, from.velocity[0], gradients, count,
			  &(struct update){ .rate = 1,
					    .keep = rule->momentum,
					    .gain = rate,
					    .decay = rate * rule->decay },
			  to.weights, to.velocity[0]);
}

static void measure_lars(const struct numbers *numbers, const struct rule *rule,
			 struct trained from, const void *gradients, size_t count,
			 struct squares *sum)
{
	sum->weights += numbers->square_sum(from.weights, count);
	sum->steps += numbers->gradients->square_sum(gradients, count);
}

static double trust_lars(const struct rule *rule, const struct squares *layer, double trust)
{
	const double weights = sqrt(layer->weights), gradients = sqrt(layer->steps);

	return weights > 0 && gradients > 0 ? trust * weights / (gradients + rule->decay * weights)
					    : 1;
}

/* You et al. 2020 (LAMB), algorithm 2, with the identity for φ. */
static void update_lamb(const struct numbers *numbers, const struct rule *rule, struct trained from,
			const void *gradients, size_t count, struct trained to)
{
	struct update u = means(rule);

	u.shrink = rule->decay;
	u.rate *= rule->trust;
	move(numbers, &u, from, gradients, count, to);
}

static void measure_lamb(const struct numbers *numbers, const struct rule *rule,
			 struct trained from, const void *gradients, size_t count,
			 struct squares *sum)
{
	struct update u = means(rule);

	u.shrink = rule->decay;
	sum->weights += numbers->square_sum(from.weights, count);
	sum->steps += numbers->adam_squares(from.weights, from.velocity[0], from.velocity[1],
					    gradients, count, &u);
}

static double trust_lamb(const struct rule *rule, const struct squares *layer, double trust)
{
	return layer->weights > 0 && layer->steps > 0 ? sqrt(layer->weights / layer->steps) : 1;
}

/* ---- all */

const struct optimizer optimizer_sgd = { .name = "sgd",
					 .linear = true,
					 .kept = "nothing",
					 .rate = 0.1,
					 .momentum = -1,
					 .takes_parts = true,
					 .keeps = keeps_nothing,
					 .update = update_sgd };
const struct optimizer optimizer_momentum = { .name = "momentum",
					      .linear = true,
					      .kept = "velocity",
					      .velocities = 1,
					      .rate = 0.1,
					      .momentum = 0.9,
					      .takes_parts = true,
					      .keeps = keeps_momentum,
					      .update = update_momentum };
static const struct optimizer nesterov = { .name = "nesterov",
					   .linear = true,
					   .kept = "velocity",
					   .velocities = 1,
					   .rate = 0.1,
					   .momentum = 0.9,
					   .keeps = keeps_momentum,
					   .update = update_nesterov };
static const struct optimizer adagrad = { .name = "adagrad",
					  .kept = "sum of squares",
					  .velocities = 1,
					  .rate = 0.02,
					  .momentum = -1,
					  .takes_parts = true,
					  .keeps = keeps_always,
					  .update = update_adagrad };
static const struct optimizer adam = { .name = "adam",
				       .kept = "mean of gradients and squares",
				       .velocities = 2,
				       .rate = 0.001,
				       .momentum = 0.9,
				       .scaling = SCALE_SQRT,
				       .squares = true,
				       .keeps = keeps_always,
				       .update = update_adam };
static const struct optimizer adamw = { .name = "adamw",
					.kept = "mean of gradients and squares",
					.velocities = 2,
					.rate = 0.001,
					.momentum = 0.9,
					.scaling = SCALE_SQRT,
					.squares = true,
					.keeps = keeps_always,
					.update = update_adamw };
static const struct optimizer lars = { .name = "lars",
				       .kept = "velocity",
				       .velocities = 1,
				       .rate = 10,
				       .scaling = SCALE_NONE,
				       .momentum = 0.9,
				       .keeps = keeps_momentum,
				       .update = update_lars,
				       .measure = measure_lars,
				       .trust = trust_lars };
static const struct optimizer lamb = { .name = "lamb",
				       .kept = "mean of gradients and squares",
				       .velocities = 2,
				       .rate = 0.005,
				       .momentum = 0.9,
				       .scaling = SCALE_SQRT,
				       .squares = true,
				       .keeps = keeps_always,
				       .update = update_lamb,
				       .measure = measure_lamb,
				       .trust = trust_lamb };

const struct optimizer *const optimizers[] = {
	&optimizer_sgd, &optimizer_momentum, &nesterov, &adagrad, &adam, &adamw, &lars, &lamb, NULL
};
