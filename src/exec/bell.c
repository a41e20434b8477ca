/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: a mutex and a condition of the waiting thread's stack. */
#include "bell.h"

#include "clock.h"
#include "thread.h"

void tt_bell_init(struct tt_bell *bell)
{
	tt_thread_condition(&bell->rung);
	pthread_mutex_init(&bell->lock, NULL);
	bell->rings = false;
}

void tt_bell_finish(struct tt_bell *bell)
{
	pthread_mutex_destroy(&bell->lock);
	pthread_cond_destroy(&bell->rung);
}

void tt_bell_ring(struct tt_bell *bell)
{
	pthread_mutex_lock(&bell->lock);
	bell->rings = true;
	pthread_cond_signal(&bell->rung);
	pthread_mutex_unlock(&bell->lock);
}

void tt_bell_wait(struct tt_bell *bell, uint64_t until_ns)
{
	const struct timespec until = tt_timespec(until_ns);
	int error = 0;

	pthread_mutex_lock(&bell->lock);
	while (!bell->rings && !error)
		error = pthread_cond_timedwait(&bell->rung, &bell->lock, &until);
	pthread_mutex_unlock(&bell->lock);
}
