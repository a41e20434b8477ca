/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks may run. */
#ifndef RUN_BIND_H
#define RUN_BIND_H

#include <stdbool.h>

#include <hwloc.h>

enum bind_policy { BIND_SHARE, BIND_CORE, BIND_NUMA, BIND_NONE };

extern const char *const bind_names[]; /* of the policies, NULL at the end */

/* false if no policy has that name */
bool bind_policy_by_name(const char *name, enum bind_policy *policy);

/* The cpus of rank `rank` of `ranks`, a new set; NULL if it is not to be bound (or memory is
 * short). `topology` holds the cpus that may be used and no other. */
hwloc_cpuset_t bind_place(hwloc_topology_t topology, enum bind_policy policy, int rank, int ranks);

struct binder {
	enum bind_policy policy;
	hwloc_topology_t topology; /* NULL: nothing is bound */
	hwloc_cpuset_t own;	   /* where this process may run */
};

/* Learn the cpus that this process may use. false: what is wrong was said. */
bool binder_init(struct binder *binder, enum bind_policy policy);
/* Put the calling thread where rank `rank` shall run, so that a process forked now starts there;
 * false with errno if the system refuses. */
bool binder_enter(struct binder *binder, int rank, int ranks);
/* Put the calling thread back where it was. */
void binder_leave(struct binder *binder);
void binder_finish(struct binder *binder);

#endif
