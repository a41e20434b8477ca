/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing. */
#include "rate.h"

#include <math.h>

static double scale_of(const struct rate_plan *plan)
{
	const double times = (double)plan->batch / RATE_BASE_BATCH;

	switch (plan->scaling) {
	case SCALE_LINEAR: return times;
	case SCALE_SQRT: return sqrt(times);
	case SCALE_NONE: break;
	}
	return 1;
}

/* Warm-up (Goyal et al. 2017): a large batch scales the rate to where the first, steep steps would
 * diverge. */
double rate_at(const struct rate_plan *plan, size_t step)
{
	const double peak = plan->base * scale_of(plan);
	double done;

	if (step < plan->warmup_steps)
		return peak * (double)(step + 1) / (double)plan->warmup_steps;
	switch (plan->schedule.course) {
	case RATE_CONSTANT: return peak;
	case RATE_STEP:
		return peak * pow(plan->schedule.factor,
				  (double)(step / plan->epoch_steps / plan->schedule.every));
	case RATE_COSINE: break;
	}
	done = (double)(step - plan->warmup_steps) / (double)(plan->steps - plan->warmup_steps);
	return 0.5 * peak * (1 + cos(M_PI * done));
}
