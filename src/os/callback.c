/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what becomes of functions of the program that do not return. */
#include "callback.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

atomic_uint tt_callbacks_alone;

static _Thread_local const char *alone;

struct tt_callback tt_callback_begin_alone(const char *what)
{
	const struct tt_callback callback = { .running = what, .alone = true, .around = alone };

	atomic_fetch_add_explicit(&tt_callbacks_alone, 1, memory_order_relaxed);
	alone = what;
	return callback;
}

void tt_callback_end(struct tt_callback *callback)
{
	callback->running = NULL;
	if (!callback->alone)
		return;
	alone = callback->around;
	atomic_fetch_sub_explicit(&tt_callbacks_alone, 1, memory_order_relaxed);
}

_Noreturn void tt_callback_was_left(const struct tt_callback *callback)
{
	fprintf(stderr,
		"tutti: %s did not return: it threw an exception, or its thread was ended in it; expected it to "
		"return: have it catch what it may throw\n",
		callback->running);
	abort();
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
