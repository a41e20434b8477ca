/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes and conditions. A mutex's memory holds who has it: 0 is nobody, as in one that is
 * initialised statically. */
#include "calls.h"

#include <errno.h>

#include "callback.h"
#include "machine.h"

#define TRY_NS 20000 /* how long it takes at most to find a lock taken */

struct lock {
	int holder;  /* 1 + task; -1: who is no task */
	int process; /* that has made it */
};
_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock fits into a mutex");

extern char __data_start[], _end[];

/* Of the whole program and so of all processes, which in truth have one each. Nobody else runs
 * while one is held, if its holder calls nothing. */
static bool is_of_all(const void *mutex)
{
	return (const char *)mutex >= __data_start && (const char *)mutex < _end;
}

static int self(void)
{
	return machine_inside() ? 1 + machine_task() : -1;
}

static bool is_free(const void *mutex)
{
	return ((const struct lock *)mutex)->holder == 0;
}

static uint64_t when_free(const void *mutex)
{
	return is_free(mutex) ? 0 : FOREVER;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
	*(struct lock *)mutex = (struct lock){ .process = machine_process() };
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	if (!is_free(mutex))
		machine_accuse("destroys a mutex that somebody holds");
	return 0;
}

static void take(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	while (!is_free(lock)) {
		if (!machine_inside() || lock->holder == self())
			machine_accuse("takes a mutex that it holds");
		machine_wait(when_free, lock, FOREVER, false);
	}
	lock->holder = self();
	if (machine_inside())
		machine_holds(1, is_of_all(mutex));
}

static void give_back(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	if (lock->holder != self())
		machine_accuse("gives back a mutex that it does not hold");
	lock->holder = 0;
	if (machine_inside())
		machine_holds(-1, is_of_all(mutex));
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (machine_inside() && !is_of_all(mutex))
		machine_yield(false);
	take(mutex);
	return 0;
}

/* No function of the program is left by a jump here: what waits by the clock waits for the lock. */
bool __wrap_tt_callback_lock_timed(pthread_mutex_t *mutex, const struct tt_callback_calls *calls,
				   uint64_t timeout_ns)
{
	return __wrap_pthread_mutex_lock(mutex) == 0;
}

/* The library's thread for all communicators of a process is here one for all processes: one
 * that does not run must not be served by it. Who tries in vain tries again, so that takes a
 * while. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	if (is_free(mutex) &&
	    (!machine_inside() || machine_runs(((const struct lock *)mutex)->process))) {
		take(mutex);
		return 0;
	}
	if (machine_inside()) {
		machine_pass(TRY_NS);
		machine_yield(true);
	}
	return EBUSY;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	give_back(mutex);
	if (machine_inside() && !is_of_all(mutex))
		machine_yield(false);
	return 0;
}

/* ---- conditions */

struct waiter {
	struct waiter *next;
	const pthread_cond_t *cond;
	bool called;
};

static struct waiter *waiters;

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
	for (const struct waiter *waiter = waiters; waiter; waiter = waiter->next)
		if (waiter->cond == cond && !waiter->called)
			machine_accuse("destroys a condition that somebody waits for");
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	uint64_t count = 0;

	machine_stir();
	for (const struct waiter *waiter = waiters; waiter; waiter = waiter->next)
		count += waiter->cond == cond && !waiter->called;
	uint64_t lot = count > 1 ? random_below(machine_random(), count) : 0;
	for (struct waiter *waiter = waiters; waiter && count > 0; waiter = waiter->next) {
		if (waiter->cond != cond || waiter->called || lot-- > 0)
			continue;
		waiter->called = true;
		break;
	}
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	machine_stir();
	for (struct waiter *waiter = waiters; waiter; waiter = waiter->next)
		waiter->called |= waiter->cond == cond;
	return 0;
}

static uint64_t when_called(const void *waiter)
{
	return ((const struct waiter *)waiter)->called ? 0 : FOREVER;
}

static int wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until)
{
	struct waiter waiter = { .next = waiters, .cond = cond };
	struct waiter **link = &waiters;

	waiters = &waiter;
	give_back(mutex);
	const bool in_time = machine_wait(when_called, &waiter, until, true);
	while (*link != &waiter)
		link = &(*link)->next;
	*link = waiter.next;
	take(mutex);
	return in_time ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return wait_for(cond, mutex, FOREVER);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until)
{
	return wait_for(cond, mutex, calls_nanoseconds(until));
}
