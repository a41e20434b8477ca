/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the short memory of what could not be registered, and the error messages about it. */
#include "negative.h"

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
	enum rdma_memory kind;
	uint64_t until;
};

static struct refusal refused[REFUSED_MAX];
static unsigned refusals;

/* What is said once a process, and each time at level debug. */
static bool said_too_much, said_of_kernel, said_of_verbs, said_of_forks,
	said_of_memory[RDMA_MEMORY_KINDS];

bool tt_rdma_is_refused(const struct rdma_adapter *adapter, uintptr_t begin, uintptr_t end)
{
	const uint64_t now = tt_now();

	for (int i = 0; i < REFUSED_MAX; i++) {
		const struct refusal *f = &refused[i];

		if (f->adapter == adapter && now < f->until &&
		    (f->any_of_it ? f->begin < end && f->end > begin
				  : f->begin >= begin && f->end <= end))
			return true;
	}
	return false;
}

void tt_rdma_negative_forget(const struct rdma_adapter *adapter)
{
	for (int i = 0; i < REFUSED_MAX; i++)
		if (!adapter || refused[i].adapter == adapter)
			refused[i] = (struct refusal){ 0 };
}

static bool is_plain(const struct rdma_mapping *mapping, void *context)
{
	struct refusal *rest = context;

	if (mapping->kind == RDMA_PLAIN && mapping->begin <= rest->begin) {
		rest->begin = mapping->end;
		return true;
	}
	if (mapping->begin <= rest->begin)
		rest->begin = mapping->begin;
	rest->kind = mapping->begin > rest->begin ? RDMA_UNMAPPED : mapping->kind;
	rest->end = mapping->begin > rest->begin ? mapping->begin : mapping->end;
	rest->any_of_it = true;
	return false;
}

/* Or what comes first that is not: the rest, if nothing is mapped there, or any of one mapping
 * or hole. All of it, if that is not known: errno says why. */
static bool all_plain(uintptr_t begin, uintptr_t end, struct refusal *rest)
{
	*rest = (struct refusal){ .begin = begin, .end = end, .kind = RDMA_UNMAPPED };
	if (tt_rdma_mappings(begin, end, is_plain, rest))
		return rest->begin >= end;
	rest->kind = RDMA_UNKNOWN;
	return false;
}

bool tt_rdma_is_plain(uintptr_t begin, uintptr_t end)
{
	struct refusal rest;

	return all_plain(begin, end, &rest);
}

/* ---- what is said */

static tutti_log_level_t once(bool *said, tutti_log_level_t level)
{
	return __atomic_exchange_n(said, true, __ATOMIC_RELAXED)
		       ? TUTTI_LOG_DEBUG
		       : level; /* relaxed: it guards nothing */
}

#define say(level, ...)                                                                            \
	do {                                                                                       \
		const tutti_log_level_t at = (level);                                              \
		if (at <= tt_log_levels[TT_LOG_RDMA])                                              \
			tt_log_write(at, TT_LOG_RDMA, __VA_ARGS__);                                \
	} while (0)

static void log_too_much(const struct rdma_registration *r)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	say(once(&said_too_much, TUTTI_LOG_WARN),
	    "%zu bytes of a caller cannot be locked for %s, and long messages are copied instead: the limit of locked memory is %llu KiB "
	    "(ulimit -l); raise it by \"* - memlock unlimited\" in /etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, "
	    "or docker run --ulimit memlock=-1",
	    r->bytes, r->adapter->name, (unsigned long long)limit.rlim_cur / 1024);
}

static void log_not_plain(const struct rdma_registration *r, enum rdma_memory kind)
{
	static const char *const found[RDMA_MEMORY_KINDS] = {
		[RDMA_SHARED] = "is shared with other mappings (MAP_SHARED, shmat)",
		[RDMA_OF_FILE] = "is mapped from a file",
		[RDMA_HUGE_PAGES] = "is of hugetlbfs (MAP_HUGETLB)",
		[RDMA_CONSTANT] = "cannot be written",
		[RDMA_UNMAPPED] = "is not mapped as a whole",
	};

	say(once(&said_of_memory[kind], TUTTI_LOG_INFO),
	    "%zu bytes at %#zx are copied on their way: this memory %s, and devices are shown private, writable memory of no file alone, such as "
	    "malloc's, or tutti_mem_alloc()'s",
	    r->bytes, (size_t)r->begin, found[kind]);
}

static void log_not_known(const struct rdma_registration *r)
{
	char why[TT_ERRNO_MAX];

	say(once(&said_of_memory[RDMA_UNKNOWN], TUTTI_LOG_INFO),
	    "%zu bytes at %#zx are copied on their way: what memory this is cannot be known, as /proc/self/maps cannot be opened (%s); "
	    "tutti_mem_alloc() gives memory that is",
	    r->bytes, (size_t)r->begin, tt_errno_text(errno, why));
}

static void log_reason(const struct rdma_registration *r, const struct rdma_reason *reason)
{
	switch (reason->of) {
	case RDMA_NOT_NOW: break;
	case RDMA_KERNEL:
		say(once(&said_of_kernel, TUTTI_LOG_INFO),
		    "%zu bytes at %#zx are copied on their way: the kernel does not tell of changes to them (%s), as where another userfaultfd of the "
		    "program is registered for them; tutti_mem_alloc() gives memory that needs none",
		    r->bytes, (size_t)r->begin, strerror(reason->error));
		break;
	case RDMA_VERBS:
		if (reason->error == ENOMEM || reason->error == EAGAIN)
			log_too_much(r);
		else
			say(once(&said_of_verbs, TUTTI_LOG_INFO),
			    "%zu bytes at %#zx are copied on their way: %s does not register them: %s",
			    r->bytes, (size_t)r->begin, r->adapter->name, strerror(reason->error));
		break;
	}
}

void tt_rdma_refuse(const struct rdma_registration *r, const struct rdma_reason *reason)
{
	const uintptr_t end = r->begin + r->bytes;
	struct refusal why = { .begin = r->begin, .end = end, .any_of_it = true };

	if (r->of == RDMA_OF_HEAP || all_plain(r->begin, end, &why)) {
		log_reason(r, reason);
		why = (struct refusal){ .begin = r->begin,
					.end = end,
					.any_of_it = r->of == RDMA_OF_HEAP };
	} else if (why.kind == RDMA_UNKNOWN) {
		log_not_known(r);
	} else {
		log_not_plain(r, why.kind);
	}
	why.adapter = r->adapter;
	why.until = tt_now() + REFUSED_NS;
	tt_rdma_monitor_lock();
	refused[refusals++ % REFUSED_MAX] = why;
	tt_rdma_monitor_unlock();
}

void tt_rdma_refuse_all(const struct rdma_adapter *adapter)
{
	say(once(&said_of_forks, TUTTI_LOG_INFO),
	    "long messages by %s are copied on their way: children of fork() would lack memory of callers that is registered; Linux 5.12 and libibverbs of "
	    "rdma-core 35 have what it takes",
	    adapter->name);
}
