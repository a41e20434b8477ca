/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of registrations, and how many of them are kept though nobody uses them. */
#include "cache.h"

#include <unistd.h>

#include "deferred.h"

#define UNUSED_MAX  1024
#define UNUSED_PART 4 /* of the machine's memory this part at most */

static struct {
	struct rdma_registration *first, *last;
	int unused;
	size_t unused_bytes, unused_bytes_max;
} kept;

static void link_first(struct rdma_registration *r)
{
	r->before = NULL;
	r->next = kept.first;
	*(kept.first ? &kept.first->before : &kept.last) = r;
	kept.first = r;
}

static void unlink_one(struct rdma_registration *r)
{
	*(r->before ? &r->before->next : &kept.first) = r->next;
	*(r->next ? &r->next->before : &kept.last) = r->before;
}

static void count_unused(const struct rdma_registration *r, int sign)
{
	kept.unused += sign;
	kept.unused_bytes += (size_t)sign * r->bytes;
}

struct rdma_registration *tt_rdma_cache_first(void)
{
	return kept.first;
}

struct rdma_registration *tt_rdma_cache_find(const struct rdma_adapter *adapter, uintptr_t begin,
					     uintptr_t end)
{
	struct rdma_registration *r = kept.first;

	while (r && (!r->mr || !tt_rdma_covers(r, adapter, begin, end)))
		r = r->next;
	return r;
}

void tt_rdma_cache_add(struct rdma_registration *r)
{
	r->uses = 1;
	r->valid = true;
	link_first(r);
}

void tt_rdma_cache_use(struct rdma_registration *r)
{
	if (r->uses++ == 0)
		count_unused(r, -1);
	unlink_one(r);
	link_first(r);
}

void tt_rdma_cache_put(struct rdma_registration *r)
{
	if (--r->uses > 0)
		return;
	if (r->valid) {
		count_unused(r, 1);
		tt_rdma_cache_limit();
	} else {
		tt_rdma_deferred_add(r);
	}
}

void tt_rdma_cache_drop(struct rdma_registration *r)
{
	unlink_one(r);
	tt_rdma_monitor_unwatch(&r->watch);
	r->valid = false;
	if (r->uses > 0)
		return;
	count_unused(r, -1);
	tt_rdma_deferred_add(r);
}

void tt_rdma_cache_drop_all(enum rdma_origin of, const void *pointer, size_t bytes)
{
	const uintptr_t begin = (uintptr_t)pointer, end = begin + bytes;
	struct rdma_registration *r, *next;

	for (r = kept.first; r; r = next) {
		next = r->next;
		if (r->of == of && r->begin < end && r->begin + r->bytes > begin)
			tt_rdma_cache_drop(r);
	}
}

void tt_rdma_cache_evict(size_t bytes)
{
	struct rdma_registration *r, *before;
	size_t freed = 0;

	for (r = kept.last; r && freed < bytes; r = before) {
		before = r->before;
		if (r->uses > 0)
			continue;
		freed += r->bytes;
		tt_rdma_cache_drop(r);
	}
}

void tt_rdma_cache_limit(void)
{
	while (kept.unused > UNUSED_MAX || kept.unused_bytes > kept.unused_bytes_max)
		tt_rdma_cache_evict(1);
}

void tt_rdma_cache_prepare(void)
{
	kept.unused_bytes_max =
		(size_t)sysconf(_SC_PHYS_PAGES) / UNUSED_PART * (size_t)sysconf(_SC_PAGESIZE);
}

void tt_rdma_cache_forget(void)
{
	kept.first = kept.last = NULL;
	kept.unused = 0;
	kept.unused_bytes = 0;
}
