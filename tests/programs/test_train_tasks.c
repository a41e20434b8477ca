/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of tasks of an epoch that tutti-train --sync async has. */

#include "tests.h"
#include "async/tasks.h"

TEST(tasks_go_to_whoever_comes)
{
	struct tasks tasks = { 0 };
	struct why why;

	assert_int_equal(tasks_create(3, &tasks, &why), TUTTI_OK);
	tasks_begin(&tasks, 30);
	assert_int_equal(tasks_take(&tasks, 0, 1, 0), 30);
	assert_int_equal(tasks_take(&tasks, 1, 1, 0), 31);
	assert_int_equal(tasks_take(&tasks, 0, 1, 0), 32);
	assert_true(tasks_take(&tasks, 1, 1, 1) == TASK_NONE);
	tasks_finish_one(&tasks, 1, 31);
	tasks_finish_one(&tasks, 1, 31); /* twice is once */
	tasks_finish_one(&tasks, 1, 29); /* of the epoch before */
	assert_int_equal(tasks.done, 1);
	tasks_finish_one(&tasks, 1, 32); /* another worker's */
	assert_int_equal(tasks.done, 1);
	tasks_finish_one(&tasks, 0, 32);
	tasks_finish_one(&tasks, 0, 30);
	assert_true(tasks_all_done(&tasks));
	tasks_begin(&tasks, 33);
	assert_false(tasks_all_done(&tasks));
	assert_int_equal(tasks_take(&tasks, 1, 1, 0), 33);
	tasks_finish(&tasks);
}

TEST(lost_tasks_go_first_and_late_ones_twice)
{
	struct tasks tasks = { 0 };
	struct why why;

	assert_int_equal(tasks_create(3, &tasks, &why), TUTTI_OK);
	tasks_begin(&tasks, 0);
	assert_int_equal(tasks_take(&tasks, 0, 1, 0), 0);
	assert_int_equal(tasks_take(&tasks, 1, 1, 0), 1);
	tasks_lose(&tasks, 0);
	assert_int_equal(tasks_take(&tasks, 2, 1, 10), 0);
	assert_int_equal(tasks_take(&tasks, 2, 1, 10), 2);
	/* worker 1 has had its task for ten times what worker 2 takes */
	assert_int_equal(tasks_take(&tasks, 2, 1, 10), 1);
	assert_int_equal(tasks.backups, 1);
	assert_true(tasks_take(&tasks, 3, 1, 100) == 0); /* late as well by now */
	tasks_lose(&tasks, 1);				 /* the second one has it still */
	assert_true(tasks_take(&tasks, 2, 1, 100) == TASK_NONE);
	assert_true(tasks_take(&tasks, 4, 0, 100) == TASK_NONE); /* nobody knows how fast it is */
	tasks_lose(&tasks, 2);
	tasks_lose(&tasks, 3); /* before anybody has taken what the other lost */
	assert_int_equal(tasks.lost, 3);
	assert_int_equal(tasks_take(&tasks, 4, 0, 100), 0);
	assert_int_equal(tasks_take(&tasks, 4, 0, 100), 1);
	assert_int_equal(tasks_take(&tasks, 4, 0, 100), 2);
	tasks_finish(&tasks);
}
