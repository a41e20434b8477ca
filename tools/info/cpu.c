/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about processors, caches and NUMA nodes. The topology is hwloc's, so that
 * HWLOC_SYNTHETIC and HWLOC_XMLFILE describe another machine. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include <hwloc.h>

#include "cgroup.h"
#include "files.h"
#include "sections.h"

static void put_model(json_t *section, hwloc_topology_t topology)
{
	hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
	const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
	struct utsname name;

	if (model || !hwloc_topology_is_thissystem(topology)) {
		value_text(section, "model", model);
	} else {
		char *text = files_read("proc/cpuinfo");

		value_take_text(section, "model", files_field(text, "model name"));
		free(text);
	}
	value_text(section, "architecture", uname(&name) == 0 ? name.machine : NULL);
}

static void put_set(json_t *section, const char *key, hwloc_const_cpuset_t set)
{
	char *text = NULL;

	value_text(section, key, hwloc_bitmap_list_asprintf(&text, set) >= 0 ? text : NULL);
	free(text);
}

static int cores_within(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
	hwloc_obj_t core = NULL;
	int count = 0;

	while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)))
		count += hwloc_bitmap_intersects(core->cpuset, set);
	return count;
}

static void put_counts(json_t *section, hwloc_topology_t topology)
{
	value_number(section, "packages", hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));
	value_number(section, "cores", hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE));
	value_number(section, "threads", hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU));
}

/* What this process may use: its affinity, then the share of time its control group has. */
static void put_allowed(json_t *section, hwloc_topology_t topology)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	double quota = 0;
	const bool limited = cgroup_cpu_quota(&quota);

	/* a topology that is not this machine's knows no affinity: all of it is allowed */
	if (!set || !hwloc_topology_is_thissystem(topology) ||
	    hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) < 0) {
		hwloc_bitmap_free(set);
		set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
	}
	const int cores = cores_within(topology, set);
	put_set(section, "allowed_cpus", set);
	value_number(section, "allowed_threads", hwloc_bitmap_weight(set));
	value_number(section, "allowed_cores", cores);
	value_real_if(section, "quota_limit_cpus", limited, quota);
	if (cores < hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE))
		value_hint(section, "allowed_cores",
			   "the affinity of this process leaves out cores: start it without "
			   "taskset, or "
			   "give the job more cpus, to use all");
	if (limited && quota < cores)
		value_hint(section, "quota_limit_cpus",
			   "the control group grants less time than there are cores: more than %d "
			   "rank%s "
			   "will be stopped now and then",
			   quota < 1 ? 1 : (int)quota, quota < 2 ? "" : "s");
	hwloc_bitmap_free(set);
}

static void put_cache(json_t *list, hwloc_topology_t topology, hwloc_obj_type_t type)
{
	hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
	char name[32];

	if (!cache)
		return;
	json_t *entry = json_object();
	hwloc_obj_type_snprintf(name, sizeof(name), cache, 0);
	value_text(entry, "name", name);
	value_number(entry, "size_bytes", (int64_t)cache->attr->cache.size);
	value_number(entry, "line_bytes", cache->attr->cache.linesize);
	value_number(entry, "count", hwloc_get_nbobjs_by_type(topology, type));
	value_number(entry, "threads_each", hwloc_bitmap_weight(cache->cpuset));
	json_array_append_new(list, entry);
}

static void put_caches(json_t *section, hwloc_topology_t topology)
{
	static const hwloc_obj_type_t types[] = { HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L1ICACHE,
						  HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
						  HWLOC_OBJ_L4CACHE };
	json_t *list = value_list(section, "caches");

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		put_cache(list, topology, types[i]);
}

static void put_nodes(json_t *section, hwloc_topology_t topology)
{
	json_t *list = value_list(section, "numa_nodes");
	hwloc_obj_t node = NULL;

	while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))) {
		json_t *entry = json_object();

		value_number(entry, "name", node->os_index);
		put_set(entry, "cpus", node->cpuset);
		value_number(entry, "memory_bytes", (int64_t)node->attr->numanode.local_memory);
		json_array_append_new(list, entry);
	}
}

static bool load(hwloc_topology_t *topology)
{
	if (hwloc_topology_init(topology) < 0)
		return false;
	/* instruction caches are filtered out otherwise */
	hwloc_topology_set_icache_types_filter(*topology, HWLOC_TYPE_FILTER_KEEP_ALL);
	if (hwloc_topology_load(*topology) == 0)
		return true;
	hwloc_topology_destroy(*topology);
	return false;
}

json_t *section_cpu(void)
{
	json_t *section = value_section();
	hwloc_topology_t topology;

	if (!load(&topology)) {
		value_hint(section, "model",
			   "hwloc cannot read the topology: is HWLOC_SYNTHETIC or HWLOC_XMLFILE "
			   "set wrongly?");
		return section;
	}
	put_model(section, topology);
	put_counts(section, topology);
	put_allowed(section, topology);
	put_caches(section, topology);
	put_nodes(section, topology);
	hwloc_topology_destroy(topology);
	return section;
}
