/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library leave signals to the program and take little memory, but they begin,
 * however much the program has on each thread: OF_EACH bytes here, which differ from one build
 * of this to another. */
#include <pthread.h>
#include <signal.h>

#include "tests.h"
#include "thread.h"

#define SMALL (1u << 20)

static _Thread_local volatile char of_each[OF_EACH];

struct seen {
	sigset_t blocked;
	size_t stack;
};

static void *look_around(void *argument)
{
	struct seen *seen = argument;
	pthread_attr_t attributes;

	of_each[OF_EACH - 1] = 1;
	pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstacksize(&attributes, &seen->stack);
	pthread_attr_destroy(&attributes);
	return seen;
}

/* But those that the C library keeps for itself, and the two that nobody can block. */
TEST(it_takes_no_signals_and_leaves_the_callers_as_they_were)
{
	sigset_t some, after;
	struct seen seen;
	pthread_t thread;
	void *result;

	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &some, NULL);
	assert_int_equal(tt_thread_begin(&thread, look_around, &seen), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &seen);
	for (int signal = 1; signal < NSIG; signal++) {
		assert_int_equal(sigismember(&after, signal), signal == SIGUSR2);
		if (signal != SIGKILL && signal != SIGSTOP && (signal < 32 || signal >= SIGRTMIN))
			assert_int_equal(sigismember(&seen.blocked, signal), 1);
	}
}

TEST(its_stack_is_small_beside_what_the_program_has_there)
{
	struct seen seen;
	pthread_t thread;

	assert_int_equal(tt_thread_begin(&thread, look_around, &seen), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(seen.stack, OF_EACH + SMALL / 2, OF_EACH + SMALL + SMALL / 2);
}
