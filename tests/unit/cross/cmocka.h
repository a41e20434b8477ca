/* SPDX-License-Identifier: BSD-3-Clause */
/* The few words of cmocka that the kernels' tests use, for targets it is not packaged for. One test
 * after another; the first claim that does not hold ends the program. */
#ifndef TEST_CROSS_CMOCKA_H
#define TEST_CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*function)(void **state);
	void *state;
};

#define cmocka_unit_test(function)                                                                 \
	{                                                                                          \
#function, function, NULL                                                          \
	}
#define cmocka_unit_test_prestate(function, state)                                                 \
	{                                                                                          \
#function, function, state                                                         \
	}

static jmp_buf skipped;

#define skip() longjmp(skipped, 1)
#define fail_msg(...)                                                                              \
	do {                                                                                       \
		printf("%s:%d: ", __FILE__, __LINE__);                                             \
		printf(__VA_ARGS__);                                                               \
		printf("\n");                                                                      \
		exit(1);                                                                           \
	} while (0)
#define assert_true(claim)                                                                         \
	do {                                                                                       \
		if (!(claim))                                                                      \
			fail_msg("does not hold: %s", #claim);                                     \
	} while (0)
#define assert_false(claim)	     assert_true(!(claim))
#define assert_non_null(pointer)     assert_true((pointer) != NULL)
#define assert_int_equal(a, b)	     assert_true((long long)(a) == (long long)(b))
#define assert_string_equal(a, b)    assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)

static inline void run_test(const struct CMUnitTest *test)
{
	void *state = test->state;

	if (setjmp(skipped) == 0) {
		test->function(&state);
		printf("ok %s\n", test->name);
	} else {
		printf("skipped %s\n", test->name);
	}
}

static inline int run_tests(const struct CMUnitTest *tests, size_t count, int (*setup)(void **),
			    int (*teardown)(void **))
{
	if (setup)
		setup(NULL);
	for (size_t i = 0; i < count; i++)
		run_test(&tests[i]);
	if (teardown)
		teardown(NULL);
	return 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
	run_tests(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
