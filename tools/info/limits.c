/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about limits and settings of the system that a job can run into. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "cgroup.h"
#include "files.h"
#include "sections.h"

enum { FILES_ENOUGH = 1024, LOCKED_ENOUGH = 64 << 20 };

static void put_locked(json_t *section)
{
	struct rlimit limit = { 0 };
	const bool known =
		getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
	char **devices = files_list("sys/class/infiniband");

	value_number_if(section, "memlock_limit_bytes", known, (int64_t)limit.rlim_cur);
	if (known && devices && limit.rlim_cur < LOCKED_ENOUGH)
		value_hint(section, "memlock_limit_bytes",
			   "RDMA needs memory that is locked: raise the limit (ulimit -l "
			   "unlimited, or memlock in "
			   "/etc/security/limits.conf)");
	files_free_list(devices);
}

static void put_files(json_t *section)
{
	struct rlimit limit = { 0 };
	const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;

	value_number_if(section, "open_files_limit", known && limit.rlim_cur != RLIM_INFINITY,
			(int64_t)limit.rlim_cur);
	value_number_if(section, "open_files_hard_limit", known && limit.rlim_max != RLIM_INFINITY,
			(int64_t)limit.rlim_max);
	if (known && limit.rlim_cur < FILES_ENOUGH)
		value_hint(section, "open_files_limit",
			   "every connection to a rank is an open file: raise the limit (ulimit -n "
			   "%d) for "
			   "jobs of many ranks",
			   FILES_ENOUGH);
}

static void put_ptrace(json_t *section)
{
	int64_t scope;
	/* without the security module Yama there is no file, and no restriction */
	const bool known = files_read_number(&scope, "proc/sys/kernel/yama/ptrace_scope");

	value_number(section, "ptrace_scope", known ? scope : 0);
	if (known && scope > 0)
		value_hint(section, "ptrace_scope",
			   "ranks may not read each other's memory (process_vm_readv): use "
			   "tutti_mem_alloc() for "
			   "large buffers, or sysctl kernel.yama.ptrace_scope=0");
}

static void put_tcp(json_t *section)
{
	char *available = files_read("proc/sys/net/ipv4/tcp_available_congestion_control");
	char *rest = available, *name;
	json_t *list;

	value_take_text(section, "tcp_congestion_control",
			files_read("proc/sys/net/ipv4/tcp_congestion_control"));
	list = value_list(section, "tcp_congestion_control_available");
	while (available && (name = strsep(&rest, " ")))
		if (*name)
			json_array_append_new(list, json_string(name));
	free(available);
}

static void put_scheduler(json_t *section)
{
	static const char *const names[] = {
		[SCHED_OTHER] = "other", [SCHED_FIFO] = "fifo", [SCHED_RR] = "rr",
		[SCHED_BATCH] = "batch", [SCHED_IDLE] = "idle",
	};
	const int policy = sched_getscheduler(0);
	const bool known = policy >= 0 && policy < (int)(sizeof(names) / sizeof(names[0]));
	struct utsname name;

	value_text(section, "scheduler", known ? names[policy] : NULL);
	value_number(section, "nice", getpriority(PRIO_PROCESS, 0));
	value_text(section, "kernel", uname(&name) == 0 ? name.release : NULL);
	if (policy == SCHED_IDLE)
		value_hint(
			section, "scheduler",
			"ranks run only when nothing else does: start the job with chrt --other 0");
}

static void put_memory(json_t *section)
{
	int64_t limit = 0;
	const bool known = cgroup_memory_limit(&limit);

	value_number_if(section, "memory_limit_bytes", known, limit);
	if (known && limit < (int64_t)1 << 30)
		value_hint(section, "memory_limit_bytes",
			   "the control group ends ranks that together use more: raise its memory "
			   "limit for "
			   "jobs with large buffers");
}

json_t *section_limits(void)
{
	json_t *section = value_section();

	put_locked(section);
	put_files(section);
	put_memory(section);
	put_ptrace(section);
	put_tcp(section);
	put_scheduler(section);
	return section;
}
