/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the program that the library calls. Each must return: locks are held around some of
 * them, and operations in flight point to the stack below others.
 *
 *	TT_CALLBACK callback = tt_callback_begin("the function of tutti_notify()");
 *	function(context);
 *	tt_callback_end(&callback);
 *
 * One that throws an exception (C++), or in which the thread is ended, ends the process with a message.
 * That rests on -fexceptions (meson.build). A longjmp() passes unseen: but where the function must not
 * call tutti, its thread is marked meanwhile, and then stays so. Calls of such a thread would wait for
 * a lock that it holds itself, so they are refused. */
#ifndef TT_SPI_CALLBACK_H
#define TT_SPI_CALLBACK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* Calls that were made under one lock. Relaxed: who waits for the lock looks for seconds. */
struct tt_callback_calls {
	atomic_uint begun, ended;
};

struct tt_callback {
	const char *running;		 /* what it is, for messages; NULL: it has returned */
	struct tt_callback_calls *calls; /* not NULL: it must not call tutti … */
	const char *around;		 /* … nor must this one, in which it is called; or NULL */
};

#define TT_CALLBACK __attribute__((cleanup(tt_callback_check))) struct tt_callback

/* `what`: a string that stays. */
static inline struct tt_callback tt_callback_begin(const char *what)
{
	return (struct tt_callback){ .running = what };
}
/* Of one that must not call tutti, and is one of `calls`. */
struct tt_callback tt_callback_begin_alone(const char *what, struct tt_callback_calls *calls);
void tt_callback_end(struct tt_callback *callback);

/* Has the program handed over one that must not call tutti? Relaxed: such a one is called later. */
extern atomic_bool tt_callbacks_exist;

extern struct tt_callback_calls tt_callback_sink_calls; /* of the log's sink, under any lock */

bool tt_callback_lock_timed(pthread_mutex_t *lock, const struct tt_callback_calls *calls,
			    uint64_t timeout_ns);
/* A lock that is held around `calls`. False: not got, and one of them, or of the sink's, has not returned
 * for `timeout_ns`, or was left by a jump. Without any, the C library's way is the faster one: it takes no
 * atomic in a process of one thread. */
static inline bool tt_callback_lock(pthread_mutex_t *lock, const struct tt_callback_calls *calls,
				    uint64_t timeout_ns)
{
	if (__builtin_expect(atomic_load_explicit(&tt_callbacks_exist, memory_order_relaxed), 0))
		return tt_callback_lock_timed(lock, calls, timeout_ns);
	pthread_mutex_lock(lock);
	return true;
}

/* Ends the process, with a message. */
_Noreturn void tt_callback_is_missed(uint64_t timeout_ns);
_Noreturn void tt_callback_was_left(const struct tt_callback *callback);

static inline void tt_callback_check(const struct tt_callback *callback)
{
	if (callback->running)
		tt_callback_was_left(callback);
}

extern atomic_uint tt_callbacks_alone; /* how many there are. Relaxed: a thread looks for its own */
/* In which of them is this thread, or has left it by a jump? NULL: in none. */
const char *tt_callback_of_thread(void);

static inline const char *tt_callback_here(void)
{
	return __builtin_expect(atomic_load_explicit(&tt_callbacks_alone, memory_order_relaxed) > 0,
				0)
		       ? tt_callback_of_thread()
		       : NULL;
}

/* TUTTI_ERR_INVALID, with the error message: `call` was made there. */
tutti_result_t tt_fail_callback(const char *call);

#endif
