/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control groups of this process allow it. */
#ifndef INFO_CGROUP_H
#define INFO_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The smallest limit of this process's group and those above it; false if there is none. */
bool cgroup_cpu_quota(double *cpus);
bool cgroup_memory_limit(int64_t *bytes);

#endif
