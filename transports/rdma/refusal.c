/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the short memory of what could not be registered, and the sentences about it. */
#include "refusal.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "log.h"
#include "mappings.h"
#include "transport.h"

#define REFUSED_MAX 16
#define REFUSED_NS  1000000000ull

struct refusal {
	const struct rdma_adapter *adapter;
	uintptr_t begin, end;
	bool any_of_it; /* not a byte of it can be; else not all of it at once */
	uint64_t until;
};

static struct refusal refused[REFUSED_MAX];
static unsigned refusals;
static bool said; /* that locked memory does not suffice */

bool tt_rdma_is_refused(const struct rdma_adapter *adapter, uintptr_t begin, uintptr_t end)
{
	const uint64_t now = tt_now();

	for (int i = 0; i < REFUSED_MAX; i++) {
		const struct refusal *f = &refused[i];

		if (f->adapter == adapter && now < f->until &&
		    (f->any_of_it ? f->begin < end && f->end > begin : f->begin >= begin && f->end <= end))
			return true;
	}
	return false;
}

void tt_rdma_refusals_forget(const struct rdma_adapter *adapter)
{
	for (int i = 0; i < REFUSED_MAX; i++)
		if (!adapter || refused[i].adapter == adapter)
			refused[i] = (struct refusal){ 0 };
}

static bool is_plain(const struct rdma_mapping *mapping, void *context)
{
	struct refusal *rest = context;

	if (mapping->plain && mapping->begin <= rest->begin) {
		rest->begin = mapping->end;
		return true;
	}
	if (mapping->begin <= rest->begin)
		rest->begin = mapping->begin;
	rest->end = mapping->begin > rest->begin ? mapping->begin : mapping->end;
	rest->any_of_it = true;
	return false;
}

/* Or what comes first that is not: the rest, if nothing is mapped there, or any of one mapping or hole. */
static bool all_plain(uintptr_t begin, uintptr_t end, struct refusal *rest)
{
	*rest = (struct refusal){ .begin = begin, .end = end };
	return tt_rdma_mappings(begin, end, is_plain, rest) && rest->begin >= end;
}

bool tt_rdma_is_plain(uintptr_t begin, uintptr_t end)
{
	struct refusal rest;

	return all_plain(begin, end, &rest);
}

void tt_rdma_refuse(const struct rdma_registration *r)
{
	const uintptr_t end = r->begin + r->bytes;
	struct refusal why = { .begin = r->begin, .end = end, .any_of_it = true };

	if (!r->heap && all_plain(r->begin, end, &why))
		why = (struct refusal){ .begin = r->begin, .end = end };
	why.adapter = r->adapter;
	why.until = tt_now() + REFUSED_NS;
	tt_rdma_notice_lock();
	refused[refusals++ % REFUSED_MAX] = why;
	tt_rdma_notice_unlock();
}

static void say_too_much(const struct rdma_registration *r)
{
	struct rlimit limit = { 0 };

	if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) /* relaxed: it guards nothing */
		return;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	tt_log(WARN, RDMA,
	       "%zu bytes of a caller cannot be locked for %s, and long messages are copied instead: the limit of locked memory is %llu KiB "
	       "(ulimit -l); raise it by \"* - memlock unlimited\" in /etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, "
	       "or docker run --ulimit memlock=-1",
	       r->bytes, r->adapter->name, (unsigned long long)limit.rlim_cur / 1024);
}

void tt_rdma_say_not_plain(const struct rdma_registration *r)
{
	tt_log(DEBUG, RDMA, "%zu bytes at %#zx are copied: expected private, writable memory that is of no file, or of tutti_mem_alloc()",
	       r->bytes, (size_t)r->begin);
}

void tt_rdma_say_not_registered(const struct rdma_registration *r, int error)
{
	if (error == ENOMEM || error == EAGAIN)
		say_too_much(r);
	else
		tt_log(DEBUG, RDMA, "%zu bytes at %#zx are copied: %s does not register them: %s", r->bytes, (size_t)r->begin, r->adapter->name,
		       strerror(error));
}
