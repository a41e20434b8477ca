/* SPDX-License-Identifier: BSD-3-Clause */
/* init: the start of ranks. */
#include "claims.h"
#include "runs.h"

static double number_of(const json_t *object, const char *group, const char *key)
{
	const json_t *value = json_object_get(group ? json_object_get(object, group) : object, key);

	if (!json_is_number(value))
		fail_msg("%s %s is no number", group ? group : "", key);
	return json_number_value(value);
}

static void check_start(const json_t *object, const void *context)
{
	const int *runs = context;
	const bool alone = number_of(object, NULL, "ranks") == 1;

	assert_string_equal(string_of(object, "collective"), "init");
	assert_int_equal(number_of(object, NULL, "iters"), *runs);
	assert_int_equal(number_of(object, NULL, "bytes"), 8);
	assert_int_equal(number_of(object, NULL, "wrong"), 0);
	assert_true(0 < number_of(object, "init_us", "min"));
	assert_true(number_of(object, "init_us", "min") <= number_of(object, "time_us", "min"));
	/* the first rank's own time has all of it */
	assert_true(0 < number_of(object, "all_us", "min"));
	assert_true(number_of(object, "all_us", "min") <= number_of(object, "time_us", "p99"));
	assert_true(number_of(object, "memory", "rss") > 0);
	assert_true(alone || number_of(object, "memory", "descriptors") > 0);
	assert_true(alone || number_of(object, NULL, "shared_memory") > 0);
}

static void a_start_is_measured_with_new_processes_each_time(void **state)
{
	const int three = 3, one = 1;
	struct run *run = bench("init -r 2 -n 3 --transport shm --json -");

	expect_status(run, 0, "init");
	assert_int_equal(each_result(run, check_start, &three), 1);
	setenv("TUTTI_RANK", "0", 1);
	setenv("TUTTI_SIZE", "1", 1);
	run = bench("init --json -"); /* a launcher's only rank has one beginning */
	unsetenv("TUTTI_RANK");
	unsetenv("TUTTI_SIZE");
	expect_status(run, 0, "init of a launcher's rank");
	assert_int_equal(each_result(run, check_start, &one), 1);
}

static void a_start_that_fails_is_said(void **state)
{
	struct run *run;

	setenv("TUTTI_MODEL", "/dev/null", 1);
	run = bench("init -r 2 -n 2");
	setenv("TUTTI_MODEL", "builtin", 1);
	expect_status(run, 1, "init with a model that is no file");
	assert_non_null(strstr(run->err_text, "/dev/null is no regular file"));
	assert_string_equal(run->out_text, "");
	expect_refused("init --plot x.svg", "--plot was found with init");
	expect_refused("init --tune", "--tune");
}

int claims_on_starts(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_is_measured_with_new_processes_each_time),
		cmocka_unit_test(a_start_that_fails_is_said),
	};

	return cmocka_run_group_tests_name("starts", tests, NULL, NULL);
}
