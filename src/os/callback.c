/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what becomes of functions of the program that do not return. */
#include "callback.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "log.h"

#define LOOK_NS 100000000 /* between two looks at the clock, as that of locks can be set */

atomic_uint tt_callbacks_alone;
atomic_bool tt_callbacks_exist;
struct tt_callback_calls tt_callback_sink_calls;

static _Thread_local const char *alone;

struct tt_callback tt_callback_begin_alone(const char *what, struct tt_callback_calls *calls)
{
	const struct tt_callback callback = { .running = what, .calls = calls, .around = alone };

	atomic_fetch_add_explicit(&calls->begun, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&tt_callbacks_alone, 1, memory_order_relaxed);
	alone = what;
	return callback;
}

void tt_callback_end(struct tt_callback *callback)
{
	callback->running = NULL;
	if (!callback->calls)
		return;
	atomic_fetch_add_explicit(&callback->calls->ended, 1, memory_order_relaxed);
	alone = callback->around;
	atomic_fetch_sub_explicit(&tt_callbacks_alone, 1, memory_order_relaxed);
}

_Noreturn void tt_callback_is_missed(uint64_t timeout_ns)
{
	fprintf(stderr,
		"tutti: an operation of tutti_op_create(), or the log's sink, has not returned for %.3g s, the "
		"communicator's deadline, or was left by longjmp(), and another thread waits for it: expected it to "
		"return\n",
		(double)timeout_ns * 1e-9);
	abort();
}

_Noreturn void tt_callback_was_left(const struct tt_callback *callback)
{
	fprintf(stderr,
		"tutti: %s did not return: it threw an exception, or its thread was ended in it; expected it to "
		"return: have it catch what it may throw\n",
		callback->running);
	abort();
}

/* How long one call has been seen to run. */
struct watch {
	const struct tt_callback_calls *calls;
	unsigned ended;
	uint64_t since;
};

static struct watch watch(const struct tt_callback_calls *calls)
{
	return (struct watch){ calls, atomic_load_explicit(&calls->ended, memory_order_relaxed),
			       tt_now() };
}

static bool is_missed(struct watch *watched, uint64_t timeout_ns)
{
	const struct watch now = watch(watched->calls);

	if (now.ended != watched->ended ||
	    now.ended == atomic_load_explicit(&now.calls->begun, memory_order_relaxed))
		*watched = now;
	return now.since - watched->since >= timeout_ns;
}

bool tt_callback_lock_timed(pthread_mutex_t *lock, const struct tt_callback_calls *calls,
			    uint64_t timeout_ns)
{
	struct timespec at;

	if (__builtin_expect(pthread_mutex_trylock(lock) == 0, 1))
		return true;
	struct watch own = watch(calls), sink = watch(&tt_callback_sink_calls);
	do {
		clock_gettime(CLOCK_REALTIME, &at);
		at.tv_nsec += LOOK_NS;
		at.tv_sec += at.tv_nsec / 1000000000;
		at.tv_nsec %= 1000000000;
		if (pthread_mutex_timedlock(lock, &at) == 0)
			return true;
	} while (!is_missed(&own, timeout_ns) && !is_missed(&sink, timeout_ns));
	return false;
}

const char *tt_callback_of_thread(void)
{
	return alone;
}

tutti_result_t tt_fail_callback(const char *call)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"%s: this thread is in %s, or left it by longjmp(): expected it to return, and to call nothing of "
		"tutti that takes a communicator; after a jump, end the process",
		call, alone);
}
