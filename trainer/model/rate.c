/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing. */
#include "rate.h"

#include <math.h>

double rate_scaled(double base, enum rate_scaling scaling, size_t batch)
{
	const double times = (double)batch / RATE_BASE_BATCH;

	switch (scaling) {
	case SCALE_LINEAR: return base * times;
	case SCALE_SQRT: return base * sqrt(times);
	case SCALE_NONE: break;
	}
	return base;
}

/* Warm-up (Goyal et al. 2017): a large batch scales the rate to where the first, steep steps would
 * diverge. */
double rate_at(const struct rate_plan *plan, size_t step)
{
	double done;

	if (step < plan->warmup_steps)
		return plan->peak * (double)(step + 1) / (double)plan->warmup_steps;
	switch (plan->schedule.course) {
	case RATE_CONSTANT: return plan->peak;
	case RATE_STEP:
		return plan->peak * pow(plan->schedule.factor,
					(double)(step / plan->epoch_steps / plan->schedule.every));
	case RATE_COSINE: break;
	}
	done = (double)(step - plan->warmup_steps) / (double)(plan->steps - plan->warmup_steps);
	return 0.5 * plan->peak * (1 + cos(M_PI * done));
}
