/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks are put, on machines that hwloc makes up. */
#include <stdlib.h>

#include "tests.h"
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

TEST(core_takes_physical_cores_in_turn)
{
	assert_place(BIND_CORE, 0, 10, "0-1");
	assert_place(BIND_CORE, 1, 10, "2-3");
	assert_place(BIND_CORE, 7, 10, "14-15");
	assert_place(BIND_CORE, 9, 10, "2-3");
}

TEST(numa_gives_neighbours_the_same_node)
{
	assert_place(BIND_NUMA, 0, 2, "0-7");
	assert_place(BIND_NUMA, 1, 2, "8-15");
	assert_place(BIND_NUMA, 1, 4, "0-7");
	assert_place(BIND_NUMA, 2, 4, "8-15");
}

TEST(share_divides_all_cores)
{
	assert_place(BIND_SHARE, 0, 1, "0-15");
	assert_place(BIND_SHARE, 0, 2, "0-7");
	assert_place(BIND_SHARE, 1, 3, "4-9");
	assert_place(BIND_SHARE, 2, 3, "10-15");
	assert_place(BIND_SHARE, 7, 8, "14-15");
}

TEST(share_binds_nobody_when_ranks_outnumber_cores)
{
	assert_null(bind_place(machine, BIND_SHARE, 0, 9));
}

TEST(none_binds_nobody)
{
	assert_null(bind_place(machine, BIND_NONE, 0, 1));
}

TEST(names_are_those_of_the_option)
{
	enum bind_policy policy = BIND_NONE;

	assert_true(bind_policy_by_name("core", &policy));
	assert_int_equal(policy, BIND_CORE);
	assert_false(bind_policy_by_name("cores", &policy));
	assert_int_equal(policy, BIND_CORE);
}

int main(void)
{
	return run_claims(make_machine, destroy_machine);
}
