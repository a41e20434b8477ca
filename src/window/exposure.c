/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which memory of the process peers write to because of windows, and when it is taken away from
 * them: not while another window, perhaps of another communicator, is in it, as that one's peers
 * would go on writing to pages that nobody reads. Where somebody else takes it away, or frees it,
 * the windows in it are told. */
#include "exposure.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "memory.h"

static struct {
	pthread_mutex_t lock;
	pthread_once_t watched;
	struct tt_exposure *first;
} exposures = { .lock = PTHREAD_MUTEX_INITIALIZER, .watched = PTHREAD_ONCE_INIT };

static bool overlap(const struct tt_exposure *e, const void *pointer, size_t bytes)
{
	const uintptr_t a = (uintptr_t)e->begin, b = (uintptr_t)pointer;

	return a < b + bytes && b < a + e->bytes;
}

/* Of tt_heap_watch: these pages change. */
static void gone(const void *pointer, size_t bytes)
{
	pthread_mutex_lock(&exposures.lock);
	for (struct tt_exposure *e = exposures.first; e; e = e->next)
		if (overlap(e, pointer, bytes))
			atomic_store_explicit(&e->gone, true, memory_order_relaxed);
	pthread_mutex_unlock(&exposures.lock);
}

/* In a child of fork(): its parent's are none of its own, and the lock may have been held there. */
static void forget(void)
{
	pthread_mutex_init(&exposures.lock, NULL);
	exposures.first = NULL;
}

static void watch(void)
{
	static struct tt_heap_watch heap_watch = { .gone = gone };

	pthread_atfork(NULL, NULL, forget);
	tt_heap_watch(&heap_watch);
}

/* Lock held. One whose pages are gone is not that memory any more. */
static struct tt_exposure *find(const void *begin)
{
	struct tt_exposure *e = exposures.first;

	while (e && (e->begin != begin || atomic_load_explicit(&e->gone, memory_order_relaxed)))
		e = e->next;
	return e;
}

struct tt_exposure *tt_exposure_begin(void *memory, size_t bytes)
{
	void *begin;
	size_t length;

	if (!tt_heap_allocation(memory, bytes, &begin, &length))
		return NULL;
	pthread_once(&exposures.watched, watch);
	pthread_mutex_lock(&exposures.lock);
	struct tt_exposure *e = find(begin);
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (e) {
			e->next = exposures.first;
			e->begin = begin;
			e->bytes = length;
			exposures.first = e;
		}
	}
	if (e)
		e->windows++;
	pthread_mutex_unlock(&exposures.lock);
	return e;
}

void tt_exposure_end(struct tt_exposure *exposure, bool late)
{
	struct tt_exposure **at = &exposures.first;

	if (!exposure)
		return;
	pthread_mutex_lock(&exposures.lock);
	exposure->owed |= late;
	const bool last = --exposure->windows == 0;
	if (last) {
		while (*at != exposure)
			at = &(*at)->next;
		*at = exposure->next;
	}
	pthread_mutex_unlock(&exposures.lock);
	if (!last)
		return;
	if (exposure->owed && !atomic_load_explicit(&exposure->gone, memory_order_relaxed))
		tt_heap_revoke(exposure->begin, exposure->bytes);
	free(exposure);
}
