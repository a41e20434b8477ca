/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the knowledge of control groups, version 1 and 2.
 *
 * A group inside a container may be named by a path that only the host sees: directories that are
 * not there are passed over, up to the root of the hierarchy. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup.h"
#include "files.h"

/* Reads the limit set in one directory; false if none is. */
typedef bool limit_fn(const char *directory, double *limit);

/* "N:controllers:path" of /proc/self/cgroup; version 2 has no controllers. */
static bool group_path(const char *controller, char *path, size_t capacity)
{
	char *groups = files_read("proc/self/cgroup"), *rest = groups, *line;
	bool found = false;

	while (!found && rest && (line = strsep(&rest, "\n"))) {
		strsep(&line, ":");
		char *list = line ? strsep(&line, ":") : NULL;

		while (!found && line && list)
			found = strcmp(strsep(&list, ","), controller) == 0;
		if (found)
			snprintf(path, capacity, "%s", line);
	}
	free(groups);
	return found;
}

/* The smallest limit from `path` below `mount` up to `mount` itself. */
static bool smallest(const char *mount, char *path, limit_fn *read_limit, double *limit)
{
	bool any = false;

	for (;;) {
		char directory[PATH_MAX];
		double here;

		snprintf(directory, sizeof(directory), "%s%s", mount, path);
		if (read_limit(directory, &here) && (!any || here < *limit)) {
			*limit = here;
			any = true;
		}
		char *slash = strrchr(path, '/');
		if (!slash)
			return any;
		*slash = '\0';
	}
}

static bool find(const char *controller, limit_fn *v1, limit_fn *v2, double *limit)
{
	char path[PATH_MAX - 64], mount[64];

	snprintf(mount, sizeof(mount), "sys/fs/cgroup/%s", controller);
	if (group_path(controller, path, sizeof(path)))
		return smallest(mount, path, v1, limit);
	return group_path("", path, sizeof(path)) && smallest("sys/fs/cgroup", path, v2, limit);
}

static bool cpu_v1(const char *directory, double *cpus)
{
	int64_t quota, period;

	if (!files_read_number(&quota, "%s/cpu.cfs_quota_us", directory) ||
	    !files_read_number(&period, "%s/cpu.cfs_period_us", directory) || quota <= 0 ||
	    period <= 0)
		return false;
	*cpus = (double)quota / (double)period;
	return true;
}

static bool cpu_v2(const char *directory, double *cpus)
{
	char *text = files_read("%s/cpu.max", directory);
	double quota, period;
	const bool ok = text && sscanf(text, "%lf %lf", &quota, &period) == 2 && period > 0;

	if (ok)
		*cpus = quota / period;
	free(text);
	return ok;
}

static bool memory_v1(const char *directory, double *bytes)
{
	int64_t limit;

	/* the largest number of pages stands for no limit */
	if (!files_read_number(&limit, "%s/memory.limit_in_bytes", directory) ||
	    limit >= INT64_MAX / 2)
		return false;
	*bytes = (double)limit;
	return true;
}

static bool memory_v2(const char *directory, double *bytes)
{
	int64_t limit;

	if (!files_read_number(&limit, "%s/memory.max", directory))
		return false;
	*bytes = (double)limit;
	return true;
}

bool cgroup_cpu_quota(double *cpus)
{
	return find("cpu", cpu_v1, cpu_v2, cpus);
}

bool cgroup_memory_limit(int64_t *bytes)
{
	double limit;

	if (!find("memory", memory_v1, memory_v2, &limit))
		return false;
	*bytes = (int64_t)limit;
	return true;
}
