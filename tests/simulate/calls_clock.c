/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock, the cores, random numbers, and files, of which there are none. */
#include "calls.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "machine.h"

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __real_sched_yield(void);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
ssize_t __real_getrandom(void *out, size_t length, unsigned flags);
FILE *__real_fopen(const char *path, const char *mode);

static int cores;

void calls_set_cores(int n)
{
	cores = n;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	if (!machine_inside())
		return __real_clock_gettime(clock, out);
	/* the time of day is for the log alone, which must change nothing */
	const uint64_t now = clock == CLOCK_REALTIME ? machine_now() : machine_read_clock();

	*out = (struct timespec){ (time_t)(now / 1000000000u), (long)(now % 1000000000u) };
	return 0;
}

int __wrap_sched_yield(void)
{
	if (!machine_inside())
		return __real_sched_yield();
	machine_yield(true);
	return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (!machine_inside())
		return __real_sched_getaffinity(pid, size, set);
	memset(set, 0, size);
	for (int core = 0; core < cores; core++)
		CPU_SET(core, set);
	return 0;
}

ssize_t __wrap_getrandom(void *out, size_t length, unsigned flags)
{
	if (!machine_inside())
		return __real_getrandom(out, length, flags);
	for (size_t i = 0; i < length; i++)
		((uint8_t *)out)[i] = (uint8_t)random_next(machine_random());
	return (ssize_t)length;
}

/* This machine has no files: nothing may depend on those of the real one. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (!machine_inside())
		return __real_fopen(path, mode);
	errno = ENOENT;
	return NULL;
}
