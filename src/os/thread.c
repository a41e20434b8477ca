/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what all threads of the library have in common: signals, stack and clock. */
#include "thread.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <time.h>

#define STACK (1 << 20) /* CUDA's driver runs on some, and functions of the program */
#define PAGES (1 << 16) /* of any processor */

/* Of the program's thread-local variables, for which the C library takes room from each stack. */
static size_t of_each;

static int add_thread_locals(struct dl_phdr_info *info, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

/* What is loaded later has no room on stacks. And the loader has a lock, which a thread that is not
 * in a child of fork() may have held there: nobody asks it later. */
__attribute__((constructor)) static void measure_thread_locals(void)
{
	size_t sum = 0;

	dl_iterate_phdr(add_thread_locals, &sum);
	of_each = (sum + PAGES - 1) / PAGES * PAGES;
}

/* stack: 0 for as much as the program's own threads have */
static int create(pthread_t *thread, size_t stack, void *(*body)(void *), void *argument)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	const int error = pthread_create(thread, &attributes, body, argument);

	pthread_attr_destroy(&attributes);
	return error;
}

int tt_thread_begin(pthread_t *thread, void *(*body)(void *), void *argument)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = create(thread, STACK + of_each, body, argument);

	/* the C library may take more from it than was known */
	if (error == EINVAL)
		error = create(thread, 0, body, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

void tt_thread_condition(pthread_cond_t *out)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(out, &monotonic);
	pthread_condattr_destroy(&monotonic);
}
