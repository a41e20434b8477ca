/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the choice of cpus for each rank. The only file of tutti-run that knows hwloc.
 *
 * A rank is bound by binding the thread that forks it: the new process inherits the set, from its
 * first page on, and nothing but async-signal-safe calls is needed after the fork. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bind.h"

const char *const bind_names[] = { [BIND_SHARE] = "share",
				   [BIND_CORE] = "core",
				   [BIND_NUMA] = "numa",
				   [BIND_NONE] = "none",
				   NULL };

bool bind_policy_by_name(const char *name, enum bind_policy *policy)
{
	for (int i = 0; bind_names[i]; i++) {
		if (strcmp(bind_names[i], name) == 0) {
			*policy = (enum bind_policy)i;
			return true;
		}
	}
	return false;
}

/* Consecutive ranks get consecutive cores, and all hardware threads of theirs: what neighbours
 * exchange then stays in the caches they share. */
static hwloc_cpuset_t share_of_cores(hwloc_topology_t topology, int rank, int ranks)
{
	const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
	hwloc_cpuset_t set;

	if (ranks > cores)
		return NULL;
	set = hwloc_bitmap_alloc();
	const int first = (int)((long)rank * cores / ranks);
	const int end = (int)((long)(rank + 1) * cores / ranks);
	for (int i = first; set && i < end; i++)
		hwloc_bitmap_or(set, set,
				hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, i)->cpuset);
	return set;
}

static hwloc_cpuset_t cpus_of(hwloc_topology_t topology, hwloc_obj_type_t type, int index)
{
	return hwloc_bitmap_dup(hwloc_get_obj_by_type(topology, type, index)->cpuset);
}

hwloc_cpuset_t bind_place(hwloc_topology_t topology, enum bind_policy policy, int rank, int ranks)
{
	const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
	const int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);

	if (policy == BIND_SHARE)
		return share_of_cores(topology, rank, ranks);
	if (policy == BIND_CORE && cores > 0)
		return cpus_of(topology, HWLOC_OBJ_CORE, rank % cores);
	if (policy == BIND_NUMA && nodes > 0)
		return cpus_of(topology, HWLOC_OBJ_NUMANODE, (int)((long)rank * nodes / ranks));
	return NULL;
}

static void say_cannot(enum bind_policy policy, const char *why)
{
	fprintf(stderr,
		"tutti-run: cannot learn which cpus there are, for --bind %s: %s; --bind none does "
		"without\n",
		bind_names[policy], why);
}

/* Keep of the topology what this process may use: cores and NUMA nodes without such cpus go away.
 */
static bool keep_own(struct binder *binder)
{
	binder->own = hwloc_bitmap_alloc();
	if (binder->own && hwloc_get_cpubind(binder->topology, binder->own, 0) == 0 &&
	    hwloc_topology_restrict(binder->topology, binder->own,
				    HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) == 0)
		return true;
	hwloc_bitmap_free(binder->own);
	return false;
}

bool binder_init(struct binder *binder, enum bind_policy policy)
{
	const char *why;

	*binder = (struct binder){ .policy = policy };
	if (policy == BIND_NONE)
		return true;
	if (hwloc_topology_init(&binder->topology) < 0) {
		binder->topology = NULL;
		say_cannot(policy, strerror(errno));
		return false;
	}
	if (hwloc_topology_load(binder->topology) < 0)
		why = strerror(errno);
	else if (!hwloc_topology_is_thissystem(binder->topology))
		why = "HWLOC_SYNTHETIC or HWLOC_XMLFILE describes another machine";
	else if (!keep_own(binder))
		why = strerror(errno);
	else
		return true;
	say_cannot(policy, why);
	hwloc_topology_destroy(binder->topology);
	binder->topology = NULL;
	return false;
}

bool binder_enter(struct binder *binder, int rank, int ranks)
{
	hwloc_cpuset_t set;
	int rc;

	if (!binder->topology)
		return true;
	set = bind_place(binder->topology, binder->policy, rank, ranks);
	if (!set)
		return true;
	rc = hwloc_set_cpubind(binder->topology, set, HWLOC_CPUBIND_THREAD);
	hwloc_bitmap_free(set);
	return rc == 0;
}

void binder_leave(struct binder *binder)
{
	if (binder->topology)
		hwloc_set_cpubind(binder->topology, binder->own, HWLOC_CPUBIND_THREAD);
}

void binder_finish(struct binder *binder)
{
	if (!binder->topology)
		return;
	hwloc_bitmap_free(binder->own);
	hwloc_topology_destroy(binder->topology);
}
