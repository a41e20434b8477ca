/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the registrations of callers' memory, of all adapters of the process: one list, the one used last first. What is not used stays registered until its
 * memory changes, something else needs the room, or its adapter is closed.
 *
 * Memory of tutti_mem_alloc() is registered by whole allocations: the heap tells when it is freed. Of other memory exactly the
 * pages that are asked for, and those next to them that are registered already: the kernel (notice.h) tells of pages that are
 * discarded before it does so, and a registration made in between would keep them. Only the owner can know that nobody is
 * discarding pages, and who sends from them is the owner. Not what lies between, and not the mapping that they are in.
 * Only what is private, writable and of no file: for shared memory there is no word of who cuts its file or punches holes.
 *
 * The lock is notice.h's: nothing is allocated, freed or registered while it is held. So a registration is put on the list and watched first, as
 * one that nobody finds, then made; and what is done with is put on a list of the dead, to be buried without the lock: by who put it
 * there, or, where that was the thread which listens, by a thread for that. */
#include "registration.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log.h"
#include "mappings.h"
#include "memory.h"
#include "thread.h"
#include "transport.h"

#define UNUSED_MAX  1024	 /* registrations that are kept though nobody uses them */
#define UNUSED_PART 4		 /* and of the machine's memory this part at most */
#define PATIENCE    100		 /* looks for word that is on its way, each of a turn of the processor */
#define REFUSED_MAX 16
#define REFUSED_NS  1000000000ull /* what could not be registered is not tried again for so long */
#define ACCESS	    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* What could not be registered. */
struct refusal {
	const struct rdma_adapter *adapter;
	uintptr_t begin, end;
	bool any_of_it; /* not a byte of it can be; else not all of it at once */
	uint64_t until;
};

static struct {
	pthread_mutex_t life; /* of the threads; taken before the lock of notice.h, which guards the rest */
	int adapters;
	pthread_t undertaker;
	bool listening; /* there are threads */
	bool ending;
	pthread_cond_t work, done; /* there are dead; some were buried */
	struct rdma_registration *first, *last, *dead;
	int unused, count, burying; /* count: regions that verbs have made */
	size_t page, unused_bytes, unused_bytes_max;
	struct refusal refused[REFUSED_MAX];
	unsigned refusals;
	bool said; /* that locked memory does not suffice */
} cache = {
	.life = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER
};

/* ---- the list; lock held */

static void link_first(struct rdma_registration *r)
{
	r->before = NULL;
	r->next = cache.first;
	*(cache.first ? &cache.first->before : &cache.last) = r;
	cache.first = r;
}

static void unlink_one(struct rdma_registration *r)
{
	*(r->before ? &r->before->next : &cache.first) = r->next;
	*(r->next ? &r->next->before : &cache.last) = r->before;
}

static void use(struct rdma_registration *r)
{
	if (r->uses++ == 0) {
		cache.unused--;
		cache.unused_bytes -= r->bytes;
	}
	unlink_one(r);
	link_first(r);
}

/* Nobody gets it any more; who has it keeps it. */
static void drop(struct rdma_registration *r)
{
	unlink_one(r);
	tt_rdma_notice_unwatch(&r->watch);
	r->valid = false;
	if (r->uses > 0)
		return;
	cache.unused--;
	cache.unused_bytes -= r->bytes;
	r->next = cache.dead;
	cache.dead = r;
}

static void gone(struct rdma_watch *watch)
{
	drop((struct rdma_registration *)((char *)watch - offsetof(struct rdma_registration, watch)));
	if (cache.dead)
		pthread_cond_signal(&cache.work);
}

static bool covers(const struct rdma_registration *r, const struct rdma_adapter *adapter, uintptr_t begin, uintptr_t end)
{
	return r->adapter == adapter && r->begin <= begin && r->begin + r->bytes >= end;
}

static struct rdma_registration *find(const struct rdma_adapter *adapter, uintptr_t begin, uintptr_t end)
{
	struct rdma_registration *r = cache.first;

	while (r && (!r->mr || !covers(r, adapter, begin, end)))
		r = r->next;
	return r;
}

static bool is_refused(const struct rdma_adapter *adapter, uintptr_t begin, uintptr_t end)
{
	const uint64_t now = tt_now();

	for (int i = 0; i < REFUSED_MAX; i++) {
		const struct refusal *f = &cache.refused[i];

		if (f->adapter == adapter && now < f->until &&
		    (f->any_of_it ? f->begin < end && f->end > begin : f->begin >= begin && f->end <= end))
			return true;
	}
	return false;
}

/* ---- what is not kept */

/* No lock is held. */
static void bury(void)
{
	struct rdma_registration *dead, *next;
	int buried = 0;

	tt_rdma_notice_lock();
	dead = cache.dead;
	cache.dead = NULL;
	cache.burying += dead != NULL;
	tt_rdma_notice_unlock();
	if (!dead)
		return;
	for (; dead; dead = next) {
		const int error = dead->adapter->verbs->dereg_mr(dead->mr);

		if (error)
			tt_log(ERROR, RDMA, "%zu bytes at %#zx stay registered with %s: %s", dead->bytes, (size_t)dead->begin,
			       dead->adapter->name, strerror(error));
		next = dead->next;
		free(dead);
		buried++;
	}
	tt_rdma_notice_lock();
	cache.count -= buried;
	cache.burying--;
	pthread_cond_broadcast(&cache.done);
	tt_rdma_notice_unlock();
}

static void unlock_and_bury(void)
{
	const bool any = cache.dead != NULL;

	tt_rdma_notice_unlock();
	if (any)
		bury();
}

/* Those that were not used for longest, until `bytes` are free; false: there is none. Lock held. */
static bool evict(size_t bytes)
{
	struct rdma_registration *r, *before;
	size_t freed = 0;

	for (r = cache.last; r && freed < bytes; r = before) {
		before = r->before;
		if (r->uses > 0)
			continue;
		freed += r->bytes;
		drop(r);
	}
	return freed > 0;
}

/* Lock held. */
static void keep_limits(void)
{
	while (cache.unused > UNUSED_MAX || cache.unused_bytes > cache.unused_bytes_max)
		evict(1);
}

static void *undertaker_main(void *argument)
{
	bool ending = false;

	while (!ending) {
		tt_rdma_notice_lock();
		while (!cache.dead && !cache.ending)
			tt_rdma_notice_wait(&cache.work);
		ending = cache.ending;
		tt_rdma_notice_unlock();
		bury();
	}
	return NULL;
}

/* ---- making one */

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

static void say_too_much(const struct rdma_registration *r)
{
	struct rlimit limit = { 0 };

	if (__atomic_exchange_n(&cache.said, true, __ATOMIC_RELAXED)) /* relaxed: it guards nothing */
		return;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	tt_log(WARN, RDMA,
	       "%zu bytes of a caller cannot be locked for %s, and long messages are copied instead: the limit of locked memory is %llu KiB "
	       "(ulimit -l); raise it by \"* - memlock unlimited\" in /etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, "
	       "or docker run --ulimit memlock=-1",
	       r->bytes, r->adapter->name, (unsigned long long)limit.rlim_cur / 1024);
}

/* Has anything been given back that was in the way? */
static bool make_room(size_t bytes)
{
	struct rlimit limit = { 0 };
	bool any;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (bytes > limit.rlim_cur)
		return false;
	tt_rdma_notice_lock();
	any = evict(bytes) || cache.dead;
	while (cache.burying > 0) {
		tt_rdma_notice_wait(&cache.done);
		any = true;
	}
	tt_rdma_notice_unlock();
	bury();
	return any;
}

static struct ibv_mr *register_pages(const struct rdma_registration *r)
{
	struct rdma_adapter *adapter = r->adapter;
	struct refusal rest;
	struct ibv_mr *mr;

	if (!r->heap && !all_plain(r->begin, r->begin + r->bytes, &rest)) {
		tt_log(DEBUG, RDMA, "%zu bytes at %#zx are copied: expected private, writable memory that is of no file, or of tutti_mem_alloc()",
		       r->bytes, (size_t)r->begin);
		return NULL;
	}
	do
		mr = adapter->verbs->reg_mr(adapter->pd, (void *)r->begin, r->bytes, ACCESS);
	while (!mr && (errno == ENOMEM || errno == EAGAIN) && make_room(r->bytes));
	if (!mr && (errno == ENOMEM || errno == EAGAIN))
		say_too_much(r);
	else if (!mr)
		tt_log(DEBUG, RDMA, "%zu bytes at %#zx are copied: %s does not register them: %s", r->bytes, (size_t)r->begin, adapter->name,
		       strerror(errno));
	return mr;
}

/* All that is registered already, is no longer than `r`, and next to it. So what is sent piece by piece is registered in few pieces in the end,
 * and each page a few times at most. Lock held. */
static void reach_out(struct rdma_registration *r)
{
	const struct rdma_registration *near = cache.first;

	while (near) {
		const uintptr_t end = r->begin + r->bytes, near_end = near->begin + near->bytes;

		if (!near->mr || near->heap || near->adapter != r->adapter || near->bytes > r->bytes || near->begin > end ||
		    near_end < r->begin || covers(r, near->adapter, near->begin, near_end)) {
			near = near->next;
			continue;
		}
		r->begin = near->begin < r->begin ? near->begin : r->begin;
		r->bytes = (near_end > end ? near_end : end) - r->begin;
		near = cache.first;
	}
}

/* It is not tried again at once. Locks are not held. */
static void refuse(const struct rdma_registration *r)
{
	const uintptr_t end = r->begin + r->bytes;
	struct refusal why = { .begin = r->begin, .end = end, .any_of_it = true };

	if (!r->heap && all_plain(r->begin, end, &why))
		why = (struct refusal){ .begin = r->begin, .end = end };
	why.adapter = r->adapter;
	why.until = tt_now() + REFUSED_NS;
	tt_rdma_notice_lock();
	cache.refused[cache.refusals++ % REFUSED_MAX] = why;
	tt_rdma_notice_unlock();
}

/* Put it on the list, to be made. Lock held. */
static bool announce(struct rdma_registration *r, bool more)
{
	if (!r->heap) {
		if (more)
			reach_out(r);
		r->watch = (struct rdma_watch){ .begin = r->begin, .end = r->begin + r->bytes, .gone = gone };
		if (!tt_rdma_notice_watch(&r->watch))
			return false;
	}
	r->uses = 1;
	r->valid = true;
	link_first(r);
	return true;
}

/* It is made: what it covers need not be kept besides. Lock held. */
static void supersede(const struct rdma_registration *r)
{
	struct rdma_registration *other, *next;

	for (other = cache.first; other; other = next) {
		next = other->next;
		if (other != r && other->uses == 0 && covers(r, other->adapter, other->begin, other->begin + other->bytes))
			drop(other);
	}
}

static bool settle(void)
{
	tt_rdma_notice_lock();
	for (int i = 0; i < PATIENCE && !tt_rdma_notice_is_settled(); i++) {
		tt_rdma_notice_unlock();
		sched_yield();
		tt_rdma_notice_lock();
	}
	return tt_rdma_notice_is_settled();
}

/* Lock taken; false: it is not known what becomes of these pages right now. */
static bool take_lock(bool heap)
{
	if (!heap)
		return settle();
	tt_rdma_notice_lock();
	return true;
}

/* Nothing of it is left if it cannot be made. `more`: *reached tells whether more than was asked for was tried. */
static struct rdma_registration *make(const struct rdma_registration *wanted, bool more, bool *reached)
{
	struct rdma_registration *r = malloc(sizeof(*r));
	struct ibv_mr *mr = NULL;

	*reached = false;
	if (!r)
		return NULL;
	*r = *wanted;
	const bool announced = take_lock(r->heap) && announce(r, more);
	tt_rdma_notice_unlock();
	*reached = r->bytes > wanted->bytes;
	if (announced)
		mr = register_pages(r);
	tt_rdma_notice_lock();
	cache.count += mr != NULL;
	r->mr = mr;
	if (mr && r->valid)
		supersede(r);
	else if (!mr && r->valid)
		drop(r);
	keep_limits();
	unlock_and_bury();
	if (mr)
		return r;
	free(r);
	return NULL;
}

static struct rdma_registration *make_or_refuse(const struct rdma_registration *wanted)
{
	bool reached;
	struct rdma_registration *r = make(wanted, true, &reached);

	if (!r && reached)
		r = make(wanted, false, &reached);
	if (!r)
		refuse(wanted);
	return r;
}

/* ---- threads */

/* Is the kernel listened to? */
static bool listen_to_kernel(void)
{
	pthread_mutex_lock(&cache.life);
	if (!cache.listening && tt_rdma_notice_begin()) {
		cache.listening = tt_thread_begin(&cache.undertaker, undertaker_main, NULL) == 0;
		if (!cache.listening)
			tt_rdma_notice_end();
	}
	const bool listening = cache.listening;

	pthread_mutex_unlock(&cache.life);
	return listening;
}

/* cache.life is held. */
static void end_threads(void)
{
	tt_rdma_notice_lock();
	cache.ending = true;
	pthread_cond_signal(&cache.work);
	tt_rdma_notice_unlock();
	pthread_join(cache.undertaker, NULL);
	tt_rdma_notice_end();
	cache.ending = cache.listening = false;
}

/* ---- from outside */

struct rdma_registration *tt_rdma_registration_get(struct rdma_adapter *adapter, const void *pointer, size_t bytes)
{
	const uintptr_t first = (uintptr_t)pointer & ~(cache.page - 1);
	const uintptr_t end = ((uintptr_t)pointer + bytes + cache.page - 1) & ~(cache.page - 1);
	struct rdma_registration *r = NULL, wanted = { .adapter = adapter, .begin = first, .bytes = end - first };
	uint64_t offset;
	bool settled, refused = false;
	void *begin;

	wanted.heap = tt_heap_offset(pointer, bytes, &offset);
	if (bytes == 0 || !adapter->keeps || (!wanted.heap && !listen_to_kernel()))
		return NULL;
	settled = take_lock(wanted.heap);
	if (settled) {
		r = find(adapter, first, end);
		refused = !r && is_refused(adapter, first, end);
	}
	if (r)
		use(r);
	tt_rdma_notice_unlock();
	if (r || !settled || refused)
		return r;
	if (wanted.heap) {
		if (!tt_heap_allocation(pointer, bytes, &begin, &wanted.bytes))
			return NULL;
		wanted.begin = (uintptr_t)begin;
	}
	return make_or_refuse(&wanted);
}

void tt_rdma_registration_put(struct rdma_registration *r)
{
	tt_rdma_notice_lock();
	if (--r->uses == 0 && r->valid) {
		cache.unused++;
		cache.unused_bytes += r->bytes;
		keep_limits();
	} else if (r->uses == 0) {
		r->next = cache.dead;
		cache.dead = r;
	}
	unlock_and_bury();
}

/* Memory of tutti_mem_alloc() is not what it was. */
static void heap_gone(const void *pointer, size_t bytes)
{
	const uintptr_t begin = (uintptr_t)pointer, end = begin + bytes;
	struct rdma_registration *r, *next;

	tt_rdma_notice_lock();
	for (r = cache.first; r; r = next) {
		next = r->next;
		if (r->heap && r->begin < end && r->begin + r->bytes > begin)
			drop(r);
	}
	unlock_and_bury();
}

/* A child begins with nothing. */
static void forget(void)
{
	pthread_mutex_init(&cache.life, NULL);
	pthread_cond_init(&cache.work, NULL);
	pthread_cond_init(&cache.done, NULL);
	cache.first = cache.last = cache.dead = NULL;
	cache.adapters = cache.unused = cache.count = cache.burying = 0;
	cache.unused_bytes = 0;
	cache.listening = cache.ending = false;
	memset(cache.refused, 0, sizeof(cache.refused));
}

static void prepare(void)
{
	static struct tt_heap_watch watch = { .gone = heap_gone };

	cache.page = (size_t)sysconf(_SC_PAGESIZE);
	cache.unused_bytes_max = (size_t)sysconf(_SC_PHYS_PAGES) / UNUSED_PART * cache.page;
	pthread_atfork(NULL, NULL, forget);
	tt_heap_watch(&watch);
}

void tt_rdma_registrations_open(struct rdma_adapter *adapter)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare);
	/* an older libibverbs or kernel keeps registered memory from children of fork() instead of copying it: a link's own memory may be
	 * missed there, but not the program's */
	adapter->keeps = adapter->verbs->is_fork_initialized && adapter->verbs->is_fork_initialized() == VERBS_FORK_UNNEEDED;
	if (!adapter->keeps)
		tt_log(DEBUG, RDMA, "no memory of callers is registered with %s: children of fork() would lack it; Linux 5.12 and libibverbs "
		       "of rdma-core 35 have what it takes", adapter->name);
	pthread_mutex_lock(&cache.life);
	cache.adapters++;
	pthread_mutex_unlock(&cache.life);
}

void tt_rdma_registrations_close(struct rdma_adapter *adapter)
{
	struct rdma_registration *r, *next;

	tt_rdma_notice_lock();
	for (r = cache.first; r; r = next) {
		next = r->next;
		if (r->adapter != adapter)
			continue;
		assert(r->uses == 0);
		drop(r);
	}
	for (int i = 0; i < REFUSED_MAX; i++)
		if (cache.refused[i].adapter == adapter)
			cache.refused[i] = (struct refusal){ 0 };
	unlock_and_bury();
	tt_rdma_notice_lock();
	while (cache.burying > 0)
		tt_rdma_notice_wait(&cache.done);
	tt_rdma_notice_unlock();
	pthread_mutex_lock(&cache.life);
	if (--cache.adapters == 0 && cache.listening)
		end_threads();
	pthread_mutex_unlock(&cache.life);
}

int tt_rdma_registrations(void)
{
	tt_rdma_notice_lock();
	const int count = cache.count;

	tt_rdma_notice_unlock();
	return count;
}
