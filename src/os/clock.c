/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the clock. */
#include "clock.h"

#include <time.h>

uint64_t tt_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
