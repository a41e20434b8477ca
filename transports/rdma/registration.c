/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how registrations of callers' memory are made, and when the threads run that they need.
 * What is made goes on the list (cache.h), what cannot be made is refused (negative.h), what is
 * done with is buried (deferred.h).
 *
 * Memory of tutti_mem_alloc() is registered by whole allocations: the heap tells when it is
 * freed. Of other memory exactly the pages that are asked for, and those next to them that are
 * registered already: the kernel (monitor.h) tells of pages that are discarded before it does so,
 * and a registration made in between would keep them. Only the owner can know that nobody is
 * discarding pages, and who sends from them is the owner. Not what lies between, and not the
 * mapping that they are in. Only what is private, writable and of no file: for shared memory
 * there is no word of who cuts its file or punches holes.
 *
 * The lock is monitor.h's: nothing is allocated, freed or registered while it is held. So a
 * registration is put on the list and watched first, as one that nobody finds, then made. */
#include "registration.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "deferred.h"
#include "cache.h"
#include "memory.h"
#include "negative.h"
#include "transport.h"

#define PATIENCE 100 /* looks for word that is on its way, each of a turn of the processor */
#define AGAIN_NS 1000000000ull /* what there was too little of is looked for again */

static struct {
	pthread_mutex_t life; /* taken before the lock of monitor.h */
	int adapters;
	bool listening; /* there are threads */
	uint64_t again; /* not before that are they tried once more */
	size_t page;
} cache = { .life = PTHREAD_MUTEX_INITIALIZER };

/* ---- making one */

static void gone(struct rdma_watch *watch)
{
	tt_rdma_cache_drop((struct rdma_registration *)((char *)watch -
							offsetof(struct rdma_registration, watch)));
	tt_rdma_deferred_call();
}

/* Has anything been given back that was in the way? */
static bool make_space(size_t bytes)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (bytes > limit.rlim_cur)
		return false;
	tt_rdma_monitor_lock();
	tt_rdma_cache_evict(bytes);
	return tt_rdma_deferred_finish();
}

static struct ibv_mr *register_pages(const struct rdma_registration *r, struct rdma_reason *why_not)
{
	struct rdma_adapter *adapter = r->adapter;
	struct ibv_mr *mr;

	if (r->of == RDMA_OF_PROGRAM && !tt_rdma_is_plain(r->begin, r->begin + r->bytes))
		return NULL;
	do {
		mr = adapter->verbs->reg_mr(adapter->pd, (void *)r->begin, r->bytes, RDMA_ACCESS);
		*why_not = (struct rdma_reason){ RDMA_VERBS, errno };
	} while (!mr && (why_not->error == ENOMEM || why_not->error == EAGAIN) &&
		 make_space(r->bytes));
	return mr;
}

/* All that is registered already, is no longer than `r`, and next to it. So what is sent chunk
 * by chunk is registered in few chunks in the end, and each page a few times at most. Lock held. */
static void reach_out(struct rdma_registration *r)
{
	const struct rdma_registration *near = tt_rdma_cache_first();

	while (near) {
		const uintptr_t end = r->begin + r->bytes, near_end = near->begin + near->bytes;

		if (!near->mr || near->of != RDMA_OF_PROGRAM || near->adapter != r->adapter ||
		    near->bytes > r->bytes || near->begin > end || near_end < r->begin ||
		    tt_rdma_covers(r, near->adapter, near->begin, near_end)) {
			near = near->next;
			continue;
		}
		r->begin = near->begin < r->begin ? near->begin : r->begin;
		r->bytes = (near_end > end ? near_end : end) - r->begin;
		near = tt_rdma_cache_first();
	}
}

/* Put it on the list, to be made. Lock held. */
static bool announce(struct rdma_registration *r, bool more, struct rdma_reason *why_not)
{
	if (r->of == RDMA_OF_PROGRAM) {
		if (more)
			reach_out(r);
		r->watch = (struct rdma_watch){ .begin = r->begin,
						.end = r->begin + r->bytes,
						.gone = gone };
		if (!tt_rdma_monitor_watch(&r->watch)) {
			*why_not = (struct rdma_reason){ RDMA_KERNEL, errno };
			return false;
		}
	}
	tt_rdma_cache_add(r);
	return true;
}

/* It is made: what it covers need not be kept besides. Lock held. */
static void supersede(const struct rdma_registration *r)
{
	struct rdma_registration *other, *next;

	for (other = tt_rdma_cache_first(); other; other = next) {
		next = other->next;
		if (other != r && other->of == r->of && other->uses == 0 &&
		    tt_rdma_covers(r, other->adapter, other->begin, other->begin + other->bytes))
			tt_rdma_cache_drop(other);
	}
}

static bool settle(void)
{
	tt_rdma_monitor_lock();
	for (int i = 0; i < PATIENCE && !tt_rdma_monitor_is_settled(); i++) {
		tt_rdma_monitor_unlock();
		sched_yield();
		tt_rdma_monitor_lock();
	}
	return tt_rdma_monitor_is_settled();
}

/* Lock taken; false: it is not known what becomes of these pages right now. */
static bool take_lock(enum rdma_origin of)
{
	if (of == RDMA_OF_PROGRAM)
		return settle();
	tt_rdma_monitor_lock();
	return true;
}

/* Nothing of it is left if it cannot be made. `more`: *reached tells whether more than was asked
 * for was tried. */
static struct rdma_registration *make(const struct rdma_registration *wanted, bool more,
				      bool *reached, struct rdma_reason *why_not)
{
	struct rdma_registration *r = malloc(sizeof(*r));
	struct ibv_mr *mr = NULL;

	*reached = false;
	*why_not = (struct rdma_reason){ RDMA_NOT_NOW };
	if (!r)
		return NULL;
	*r = *wanted;
	const bool announced = take_lock(r->of) && announce(r, more, why_not);
	tt_rdma_monitor_unlock();
	*reached = r->bytes > wanted->bytes;
	if (announced)
		mr = register_pages(r, why_not);
	tt_rdma_monitor_lock();
	r->mr = mr;
	if (mr && r->valid)
		supersede(r);
	else if (!mr && r->valid)
		tt_rdma_cache_drop(r);
	tt_rdma_cache_limit();
	tt_rdma_deferred_unlock();
	if (mr)
		return r;
	free(r);
	return NULL;
}

static struct rdma_registration *make_or_refuse(const struct rdma_registration *wanted)
{
	bool reached;
	struct rdma_reason why_not;
	struct rdma_registration *r = make(wanted, true, &reached, &why_not);

	if (!r && reached)
		r = make(wanted, false, &reached, &why_not);
	if (!r)
		tt_rdma_refuse(wanted, &why_not);
	return r;
}

/* ---- threads */

static bool begin_threads(void)
{
	if (!tt_rdma_monitor_begin())
		return false;
	const bool both = tt_rdma_undertaker_begin();

	if (!both)
		tt_rdma_monitor_end();
	return both;
}

/* Is the kernel listened to? */
static bool listen_to_kernel(void)
{
	pthread_mutex_lock(&cache.life);
	if (!cache.listening && tt_now() >= cache.again) {
		cache.listening = begin_threads();
		cache.again = cache.listening ? 0 : tt_now() + AGAIN_NS;
	}
	const bool listening = cache.listening;

	pthread_mutex_unlock(&cache.life);
	return listening;
}

/* cache.life is held. */
static void end_threads(void)
{
	tt_rdma_undertaker_end();
	tt_rdma_monitor_end();
	cache.listening = false;
}

/* ---- from outside */

struct rdma_registration *tt_rdma_registration_get(struct rdma_adapter *adapter,
						   const void *pointer, size_t bytes)
{
	const uintptr_t first = (uintptr_t)pointer & ~(cache.page - 1);
	const uintptr_t end = ((uintptr_t)pointer + bytes + cache.page - 1) & ~(cache.page - 1);
	struct rdma_registration *r = NULL, wanted = { .adapter = adapter,
						       .begin = first,
						       .bytes = end - first };
	uint64_t offset;
	bool settled, refused = false;
	void *begin;

	wanted.of = tt_heap_offset(pointer, bytes, &offset) ? RDMA_OF_HEAP : RDMA_OF_PROGRAM;
	if (bytes == 0 || !adapter->keeps || (wanted.of == RDMA_OF_PROGRAM && !listen_to_kernel()))
		return NULL;
	settled = take_lock(wanted.of);
	if (settled) {
		r = tt_rdma_cache_find(adapter, first, end);
		refused = !r && tt_rdma_is_refused(adapter, first, end);
	}
	if (r)
		tt_rdma_cache_use(r);
	tt_rdma_monitor_unlock();
	if (r || !settled || refused)
		return r;
	if (wanted.of == RDMA_OF_HEAP) {
		if (!tt_heap_allocation(pointer, bytes, &begin, &wanted.bytes))
			return NULL;
		wanted.begin = (uintptr_t)begin;
	}
	return make_or_refuse(&wanted);
}

void tt_rdma_registration_put(struct rdma_registration *r)
{
	tt_rdma_monitor_lock();
	tt_rdma_cache_put(r);
	tt_rdma_deferred_unlock();
}

/* Memory of tutti_mem_alloc() is not what it was. */
static void heap_gone(const void *pointer, size_t bytes)
{
	tt_rdma_monitor_lock();
	tt_rdma_cache_drop_all(RDMA_OF_HEAP, pointer, bytes);
	tt_rdma_deferred_unlock();
}

/* A child begins with nothing. */
static void forget(void)
{
	pthread_mutex_init(&cache.life, NULL);
	cache.adapters = 0;
	cache.listening = false;
	cache.again = 0;
	tt_rdma_cache_forget();
	tt_rdma_deferred_forget();
	tt_rdma_negative_forget(NULL);
}

static void prepare(void)
{
	static struct tt_heap_watch watch = { .gone = heap_gone };

	cache.page = (size_t)sysconf(_SC_PAGESIZE);
	tt_rdma_cache_prepare();
	pthread_atfork(NULL, NULL, forget);
	tt_heap_watch(&watch);
}

void tt_rdma_registrations_open(struct rdma_adapter *adapter)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare);
	/* an older libibverbs or kernel keeps registered memory from children of fork() instead
	 * of copying it: a link's own memory may be missed there, but not the program's */
	adapter->keeps = adapter->verbs->is_fork_initialized &&
			 adapter->verbs->is_fork_initialized() == VERBS_FORK_UNNEEDED;
	if (!adapter->keeps)
		tt_rdma_refuse_all(adapter);
	pthread_mutex_lock(&cache.life);
	cache.adapters++;
	pthread_mutex_unlock(&cache.life);
}

void tt_rdma_registrations_close(struct rdma_adapter *adapter)
{
	struct rdma_registration *r, *next;

	tt_rdma_monitor_lock();
	for (r = tt_rdma_cache_first(); r; r = next) {
		next = r->next;
		if (r->adapter != adapter)
			continue;
		assert(r->uses == 0);
		tt_rdma_cache_drop(r);
	}
	tt_rdma_negative_forget(adapter);
	tt_rdma_deferred_finish();
	pthread_mutex_lock(&cache.life);
	if (--cache.adapters == 0 && cache.listening)
		end_threads();
	pthread_mutex_unlock(&cache.life);
}
