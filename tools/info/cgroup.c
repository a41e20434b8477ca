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
static bool group_path(const char *groups, const char *controller, char *path, size_t capacity)
{
	const size_t length = strlen(controller);

	for (const char *line = groups; line && *line;) {
		const char *list = line + strcspn(line, ":\n");
		const char *end = line + strcspn(line, "\n");

		while (*list == ':' || (*list == ',' && list < end)) {
			const size_t name = strcspn(++list, ",:\n");

			if (name == length && strncmp(list, controller, length) == 0 &&
			    strchr(list, ':')) {
				const char *start = strchr(list, ':') + 1;

				snprintf(path, capacity, "%.*s", (int)(end - start), start);
				return true;
			}
			list += name;
			if (*list != ',')
				break;
		}
		line = *end ? end + 1 : end;
	}
	return false;
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
	char *groups = files_read("proc/self/cgroup");
	bool found = false;

	snprintf(mount, sizeof(mount), "sys/fs/cgroup/%s", controller);
	if (group_path(groups, controller, path, sizeof(path)))
		found = smallest(mount, path, v1, limit);
	else if (group_path(groups, "", path, sizeof(path)))
		found = smallest("sys/fs/cgroup", path, v2, limit);
	free(groups);
	return found;
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
