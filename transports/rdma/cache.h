/* SPDX-License-Identifier: BSD-3-Clause */
/* The registrations of the process, of all adapters: one list, the one used last first. What
 * nobody uses stays on it until its memory changes, something else needs the room, or its
 * adapter is closed. The lock is monitor.h's, and held in all of these. */
#ifndef TT_RDMA_CACHE_H
#define TT_RDMA_CACHE_H

#include "registration.h"

static inline bool tt_rdma_covers(const struct rdma_registration *r,
				  const struct rdma_adapter *adapter, uintptr_t begin,
				  uintptr_t end)
{
	return r->adapter == adapter && r->begin <= begin && r->begin + r->bytes >= end;
}

/* The first of the list, for who goes by its `next`; one of them may be dropped meanwhile, if
 * its `next` was taken before. */
struct rdma_registration *tt_rdma_cache_first(void);
/* One that is made and covers all of it, or NULL. */
struct rdma_registration *tt_rdma_cache_find(const struct rdma_adapter *adapter, uintptr_t begin,
					     uintptr_t end);

/* In use once. Nobody finds it before it has an `mr`. */
void tt_rdma_cache_add(struct rdma_registration *r);
/* One user more, one fewer. What is dropped is buried (deferred.h) with its last use. */
void tt_rdma_cache_use(struct rdma_registration *r);
void tt_rdma_cache_put(struct rdma_registration *r);
/* Nobody gets it any more; who has it keeps it. */
void tt_rdma_cache_drop(struct rdma_registration *r);
/* All of this origin that have some of pointer … + bytes. */
void tt_rdma_cache_drop_all(enum rdma_origin of, const void *pointer, size_t bytes);

/* Drop those that were not used for longest, until `bytes` are free. */
void tt_rdma_cache_evict(size_t bytes);
/* As many as are too many. */
void tt_rdma_cache_limit(void);

/* Once, without the lock: how much may be kept. And for a child of fork(), which begins with
 * nothing. */
void tt_rdma_cache_prepare(void);
void tt_rdma_cache_forget(void);

#endif
