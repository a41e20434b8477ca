/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what all threads of the library have in common: signals, stack and clock. */
#include "thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define STACK (1 << 20) /* CUDA's driver runs on some */

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
	int error = create(thread, STACK, body, argument);

	/* the C library takes room for the program's thread-local variables from the stack, and
	 * here there are more */
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
