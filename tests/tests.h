/* SPDX-License-Identifier: BSD-3-Clause */
/* What a test program in C is made of. A claim stands where it is shown:
 *
 *	TEST(a_barrier_waits_for_all)
 *	{
 *		…
 *	}
 *
 * All claims of a program run in the order in which they stand, by a main() that does nothing else; one of the
 * program's own calls run_claims(). */
#ifndef TT_TESTS_H
#define TT_TESTS_H

/* what cmocka.h needs before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#define TEST(name) TEST_WITH(name, NULL, NULL)
/* Between functions that return 0, or another number for what they could not do; NULL: none. */
#define TEST_WITH(name, setup, teardown)                                                           \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void add_##name(void)                                  \
	{                                                                                          \
		add_test(&(const struct CMUnitTest){ #name, name, setup, teardown, NULL });        \
	}                                                                                          \
	static void name(void **state)

/* One that is a call: such claims differ in its arguments. */
#define TEST_OF(name, call) TEST_OF_WITH(name, NULL, NULL, call)
#define TEST_OF_WITH(name, setup, teardown, call)                                                  \
	TEST_WITH(name, setup, teardown)                                                           \
	{                                                                                          \
		call;                                                                              \
	}

void add_test(const struct CMUnitTest *test);
/* All that were added, between functions for all of them, or NULL; returns how many failed. */
int run_claims(CMFixtureFunction setup, CMFixtureFunction teardown);

/* What all claims are made about, one after another: the state that they get, and its name, which those
 * of the claims follow. */
struct subject {
	const char *name;
	const void *state;
};
int run_claims_about(const struct subject *subjects, size_t n);

/* The text has these words. */
#define assert_says(text, words) expect_words(text, words, __FILE__, __LINE__)
void expect_words(const char *text, const char *words, const char *file, int line);

/* A child that has begun so, which must succeed, or with nothing (NULL), and waits to be killed, by
 * end_child() or its parent's end. */
pid_t child_that(bool (*begins)(void *argument), void *argument);
/* It stops, and has before this returns. */
void stop_child(pid_t child);
void end_child(pid_t child);
/* A child that ends by itself: it has, or will, with this exit status. */
void await_exit(pid_t child, int status);
/* Such a child, whose exit status is what `body` returns: 0. */
void in_child(int (*body)(void *argument), void *argument);

/* Skips the claim, and says why. */
void leave_out(const char *why);
/* Where there is no ip(8), or where this process can have no network namespaces. */
void need_namespaces(void);
/* Where the hard limit of descriptors does not allow so many. */
void need_descriptors(unsigned n);

#endif
