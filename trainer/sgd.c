/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing. The update is the same sequence of operations on every rank: equal gradients keep
 * equal weights equal, bit for bit. */
#include "sgd.h"

#include <math.h>

static double scale_of(const struct rate_plan *plan)
{
	const double times = (double)plan->batch / SGD_BASE_BATCH;

	switch (plan->scaling) {
	case SCALE_LINEAR: return times;
	case SCALE_SQRT: return sqrt(times);
	case SCALE_NONE: break;
	}
	return 1;
}

/* Warm-up (Goyal et al. 2017): a large batch scales the rate to where the first, steep steps would
 * diverge. */
double sgd_rate(const struct rate_plan *plan, size_t step)
{
	const double peak = plan->base * scale_of(plan);
	double done;

	if (step < plan->warmup_steps)
		return peak * (double)(step + 1) / (double)plan->warmup_steps;
	if (plan->schedule == RATE_CONSTANT)
		return peak;
	done = (double)(step - plan->warmup_steps) / (double)(plan->steps - plan->warmup_steps);
	return 0.5 * peak * (1 + cos(M_PI * done));
}

void sgd_update(struct sgd_numbers from, struct sgd_numbers to, const double *gradients,
		size_t count, double rate, double momentum, double decay)
{
	const double *w = from.weights, *v = from.velocity;
	double *restrict new_w = to.weights, *restrict new_v = to.velocity;

	for (size_t i = 0; i < count; i++) {
		new_v[i] = momentum * v[i] + gradients[i] + decay * w[i];
		new_w[i] = w[i] - rate * new_v[i];
	}
}
