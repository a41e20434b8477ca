/* SPDX-License-Identifier: BSD-3-Clause */
/* The operating system of the simulated machine: what tutti calls of the C library is led here
 * by the linker (--wrap), so that the library is simulated as it is. Outside of tasks the calls
 * do what they always do. Each family of calls has a file: the clock, descriptors, locks,
 * threads, memory, and bytes on their way. */
#ifndef TT_SIMULATE_CALLS_H
#define TT_SIMULATE_CALLS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* the linker knows the functions' names, and nobody else calls them */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define CALLS_DESCRIPTORS_END 1024 /* descriptors of the simulated machine are below */

void calls_set_cores(int n);
/* Of the allocations that processes make from now on, one in so many fails; 0: none. */
void calls_fail_memory(uint64_t one_in);
/* How many of this task's process have failed. */
unsigned calls_refused(void);

/* What a task is to itself by pthread_self(). */
pthread_t calls_thread(int task);

/* What tasks have not given back. The trace says where it was allocated. */
int calls_open_descriptors(void);
size_t calls_unfreed(void);

/* Memory of the simulation's own, which never fails and counts nowhere. */
void *calls_allocate(size_t size);
void calls_release(void *pointer);

static inline uint64_t calls_nanoseconds(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

#endif
