/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the library does something else than was asked for, or does it worse, it says so.
 *
 *   test_warnings shm|tcp|mixed */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"

#define RANKS 4

/* The warnings of plans in this process. */
static struct {
	int count;
	char last[1024];
} plan;

static void keep(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	if (level != TUTTI_LOG_WARN || strcmp(subsystem, "plan") != 0)
		return;
	plan.count++;
	snprintf(plan.last, sizeof(plan.last), "%s", line);
}

/* ---- an algorithm that cannot */

/* Did rank 0, and nobody else, warn of `collective` as the `count`-th, and name what is used? */
static int warned_of(tutti_comm_t comm, const char *collective, int count)
{
	tutti_plan_info_t info = { .size = sizeof(info) };
	char words[256];

	SUCCEEDS(tutti_comm_last_plan(comm, &info));
	snprintf(words, sizeof(words),
		 "cannot do %s with these ranks and this operation: %s is used", collective,
		 info.algorithm);
	CLAIM(plan.count == (tutti_comm_rank(comm) == 0 ? count : 0),
	      "%d warnings, the last: \"%s\"", plan.count, plan.last);
	if (tutti_comm_rank(comm) != 0)
		return 0;
	CLAIM(strstr(plan.last, "algorithm bruck,"), "\"%s\" does not name bruck", plan.last);
	CLAIM(strstr(plan.last, words), "\"%s\" does not say \"%s\"", plan.last, words);
	return 0;
}

static int ask_for_bruck(tutti_comm_t comm, void *argument)
{
	static float send[RANKS * 64], recv[RANKS * 64];
	tutti_comm_t copy;

	tutti_log_set_sink(keep, NULL);
	SUCCEEDS(tutti_all_gather(comm, send, recv, 64, TUTTI_FLOAT32, NULL));
	CLAIM(plan.count == 0, "a warning of what bruck can do: \"%s\"", plan.last);
	SUCCEEDS(tutti_all_reduce(comm, send, recv, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	if (warned_of(comm, "all_reduce", 1))
		return 1;
	SUCCEEDS(tutti_all_reduce(comm, send, recv, 64, TUTTI_FLOAT32, TUTTI_MAX, NULL));
	CLAIM(plan.count <= 1, "the second all_reduce is warned of, too");
	SUCCEEDS(tutti_broadcast(comm, send, send, 64, TUTTI_FLOAT32, 1, NULL));
	if (warned_of(comm, "broadcast", 2))
		return 1;
	SUCCEEDS(tutti_comm_split(comm, 0, tutti_comm_rank(comm), &copy));
	SUCCEEDS(tutti_all_reduce(copy, send, recv, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	const int failed = warned_of(copy, "all_reduce", 3);

	tutti_comm_destroy(copy);
	return failed;
}

static void an_algorithm_that_cannot_is_warned_of_once(void **state)
{
	static const char *const bruck[] = { "TUTTI_ALGORITHM=bruck", NULL };
	const struct job job = { .ranks = RANKS, .env = bruck, .body = ask_for_bruck };

	assert_int_equal(run_job(&job), 0);
}

static int ask_for_nothing(tutti_comm_t comm, void *argument)
{
	float value = 1, sum;

	tutti_log_set_sink(keep, NULL);
	SUCCEEDS(tutti_all_reduce(comm, &value, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	CLAIM(plan.count == 0, "nothing was asked for, and yet: \"%s\"", plan.last);
	return 0;
}

static void a_choice_by_cost_is_no_reason_to_warn(void **state)
{
	const struct job job = { .ranks = RANKS, .body = ask_for_nothing };

	assert_int_equal(run_job(&job), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_algorithm_that_cannot_is_warned_of_once),
		cmocka_unit_test(a_choice_by_cost_is_no_reason_to_warn),
	};

	if (choose_transport(argc, argv))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
