/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of tutti-train that are disturbed at random: each rank prints "pid N" before it begins. */
#ifndef TRAIN_JOBS_H
#define TRAIN_JOBS_H

#include <sched.h>
#include <stdio.h>

#include "launched.h"

static unsigned long seed;

static inline unsigned long draw(unsigned long below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

/* Of the process that is rank `rank` for the `time`th time. */
static inline pid_t pid_of(struct launched *l, int rank, int time)
{
	char key[32];
	long pids[8];

	snprintf(key, sizeof(key), "[%d] pid ", rank);
	launched_await(l, 0, key, time);
	assert_int_equal(numbers_after(launched_out(l), key, pids, 8), time);
	return (pid_t)pids[time - 1];
}

/* Somewhere in the middle of a step, after so many more epochs. */
static inline void let_train(struct launched *l, int more)
{
	launched_await(l, 0, "  loss ", count_of(launched_out(l), "  loss ") + more);
	for (unsigned long n = draw(2000); n > 0; n--)
		sched_yield();
}

#endif
