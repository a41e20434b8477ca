/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of callers, registered with an adapter and kept so: registering takes longer than to
 * send a good part of it. Any thread. */
#ifndef TT_RDMA_REGISTRATION_H
#define TT_RDMA_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter.h"
#include "monitor.h"

#define RDMA_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

enum rdma_origin {
	RDMA_OF_PROGRAM,
	RDMA_OF_HEAP /* of tutti_mem_alloc() */
};

struct rdma_registration {
	struct ibv_mr *mr; /* lkey, rkey */
	uintptr_t begin;
	size_t bytes; /* of whole pages */
	/* The rest is the cache's. */
	int uses;
	bool valid; /* not: its memory has changed since, nobody gets it any more, and it ends
		     * with its last use; under the lock */
	enum rdma_origin of;
	struct rdma_adapter *adapter;
	struct rdma_registration *next, *before;
	struct rdma_watch watch; /* of the program's */
};

/* One that covers all of pointer … + bytes, for what the adapter reads and writes there and for
 * what peers write. It is the caller's until he puts it back, which he does before he puts back
 * the adapter. NULL: this memory cannot be registered, or not now, and goes through the rings;
 * the log says why. That is no error. */
struct rdma_registration *tt_rdma_registration_get(struct rdma_adapter *adapter,
						   const void *pointer, size_t bytes);
void tt_rdma_registration_put(struct rdma_registration *registration);

/* For adapter.c: one adapter more that may be asked for them; and it ends, with all that are
 * kept. */
void tt_rdma_registrations_open(struct rdma_adapter *adapter);
void tt_rdma_registrations_close(struct rdma_adapter *adapter);

#endif
