/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the clock of tutti-run-tested: each SIGRTMIN sets it forward by LATER_S, so that no test waits for
 * that to pass. The linker leads calls of clock_gettime() to here (--wrap): the program that is installed
 * knows nothing of it. A SIGCHLD has the program look at its clock. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define LATER_S 11 /* longer than tutti-run waits for anything by itself: JOB_LEFT_OUT_GRACE */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

static atomic_int later;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const int status = __real_clock_gettime(clock, now);

	now->tv_sec += atomic_load(&later) * (clock == CLOCK_MONOTONIC ? LATER_S : 0);
	return status;
}

static void set_forward(int number)
{
	(void)number;
	atomic_fetch_add(&later, 1);
}

__attribute__((constructor)) static void start(void)
{
	const struct sigaction action = { .sa_handler = set_forward, .sa_flags = SA_RESTART };

	if (sigaction(SIGRTMIN, &action, NULL) < 0)
		abort();
}
