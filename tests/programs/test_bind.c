/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks are put, on machines that hwloc makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bind.h"

/* two NUMA nodes with four cores of two threads each: cpus 0-1 are core 0, … 14-15 core 7 */
static hwloc_topology_t machine;

static int make_machine(void **state)
{
	return hwloc_topology_init(&machine) < 0 ||
	       hwloc_topology_set_synthetic(machine, "numa:2 core:4 pu:2") < 0 ||
	       hwloc_topology_load(machine) < 0;
}

static int destroy_machine(void **state)
{
	hwloc_topology_destroy(machine);
	return 0;
}

static void assert_place(enum bind_policy policy, int rank, int ranks, const char *expected)
{
	hwloc_cpuset_t set = bind_place(machine, policy, rank, ranks);
	char *list = NULL;

	assert_non_null(set);
	assert_true(hwloc_bitmap_list_asprintf(&list, set) >= 0);
	assert_string_equal(list, expected);
	free(list);
	hwloc_bitmap_free(set);
}

static void core_takes_physical_cores_in_turn(void **state)
{
	assert_place(BIND_CORE, 0, 10, "0-1");
	assert_place(BIND_CORE, 1, 10, "2-3");
	assert_place(BIND_CORE, 7, 10, "14-15");
	assert_place(BIND_CORE, 9, 10, "2-3");
}

static void numa_gives_neighbours_the_same_node(void **state)
{
	assert_place(BIND_NUMA, 0, 2, "0-7");
	assert_place(BIND_NUMA, 1, 2, "8-15");
	assert_place(BIND_NUMA, 1, 4, "0-7");
	assert_place(BIND_NUMA, 2, 4, "8-15");
}

static void share_divides_all_cores(void **state)
{
	assert_place(BIND_SHARE, 0, 1, "0-15");
	assert_place(BIND_SHARE, 0, 2, "0-7");
	assert_place(BIND_SHARE, 1, 3, "4-9");
	assert_place(BIND_SHARE, 2, 3, "10-15");
	assert_place(BIND_SHARE, 7, 8, "14-15");
}

static void share_binds_nobody_when_ranks_outnumber_cores(void **state)
{
	assert_null(bind_place(machine, BIND_SHARE, 0, 9));
}

static void none_binds_nobody(void **state)
{
	assert_null(bind_place(machine, BIND_NONE, 0, 1));
}

static void names_are_those_of_the_option(void **state)
{
	enum bind_policy policy = BIND_NONE;

	assert_true(bind_policy_by_name("core", &policy));
	assert_int_equal(policy, BIND_CORE);
	assert_false(bind_policy_by_name("cores", &policy));
	assert_int_equal(policy, BIND_CORE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(core_takes_physical_cores_in_turn),
		cmocka_unit_test(numa_gives_neighbours_the_same_node),
		cmocka_unit_test(share_divides_all_cores),
		cmocka_unit_test(share_binds_nobody_when_ranks_outnumber_cores),
		cmocka_unit_test(none_binds_nobody),
		cmocka_unit_test(names_are_those_of_the_option),
	};

	return cmocka_run_group_tests(tests, make_machine, destroy_machine);
}
