/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests.h"

#include <stdlib.h>

enum { TESTS_MAX = 100 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t count;

void add_test(const struct CMUnitTest *test)
{
	if (count == TESTS_MAX)
		abort();
	tests[count++] = *test;
}

int run_claims(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	return _cmocka_run_group_tests("tests", tests, count, setup, teardown);
}
