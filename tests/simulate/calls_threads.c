/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads: what the library starts is a task of its process. */
#include "calls.h"

#include <errno.h>

#include "machine.h"

#define FIRST_SELF 4096 /* what pthread_self() gives, apart from anything real */

pthread_t __real_pthread_self(void);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*main)(void *), void *argument)
{
	/* under a lock of all: it is the library's thread for the whole program */
	const int task = machine_spawn(machine_holds_of_all() ? MACHINE_PROCESS : machine_process(),
				       main, argument);

	if (task < 0)
		return EAGAIN;
	*thread = calls_thread(task);
	machine_yield(false);
	return 0;
}

static uint64_t when_ended(const void *task)
{
	return machine_has_ended(*(const int *)task) ? 0 : FOREVER;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	const int task = (int)((long)thread - FIRST_SELF);

	machine_wait(when_ended, &task, FOREVER, false);
	void *given = machine_result(task);

	if (result)
		*result = given;
	return 0;
}

pthread_t calls_thread(int task)
{
	return (pthread_t)(FIRST_SELF + task);
}

pthread_t __wrap_pthread_self(void)
{
	return machine_inside() ? calls_thread(machine_task()) : __real_pthread_self();
}
