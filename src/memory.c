/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the heap of tutti_mem_alloc(): one sparse memfd of the process, mapped once at one place. Peers map
 * the same file, so a place is named by its offset. Pages exist only where they were touched and
 * are given back when memory is freed.
 *
 * Spans are kept in a list sorted by offset; allocation is first fit. The lock guards the list; base and size
 * never change once set.
 *
 * A child of fork() keeps the mapping of what its parent had, to be read only, and makes a heap of its own when it
 * first allocates. The lock is held over fork(), so that the list is whole in the child. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "memory.h"

#define PAGE 4096u
#define HUGE_PAGE (2u << 20)

struct span {
	struct span *next;
	uint64_t offset, bytes;
};

static struct {
	pthread_mutex_t lock;
	pthread_once_t measured;
	int fd; /* -1: not made, or it could not be: the next call tries again */
	uint8_t *base; /* release in make_heap(), pairs with the acquire in tt_heap_offset() */
	size_t size;
	struct span *used; /* sorted by offset */
	struct span *inherited; /* of parents' heaps; `offset` is the address */
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER, .measured = PTHREAD_ONCE_INIT, .fd = -1 };

/* Address space only, the same in every process of the host: a power of two that holds all its memory. */
static void measure_host(void)
{
	struct sysinfo info;

	heap.size = (size_t)1 << 32;
	if (sysinfo(&info) == 0)
		while (heap.size < (size_t)info.totalram * info.mem_unit)
			heap.size <<= 1;
}

/* Lock held. */
static void make_heap(void)
{
	const int fd = TT_FD(memfd_create("tutti-heap", MFD_CLOEXEC));
	const size_t size = tt_heap_size();

	if (fd < 0)
		return;
	if (ftruncate(fd, (off_t)size) < 0)
		goto close_fd;
	void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED)
		goto close_fd;
	madvise(base, size, MADV_HUGEPAGE); /* where shmem has huge pages; advice only */
	heap.fd = fd;
	__atomic_store_n(&heap.base, base, __ATOMIC_RELEASE);
	return;
close_fd:
	tt_fd_close(fd);
}

void tt_heap_hold(void)
{
	pthread_mutex_lock(&heap.lock);
}

void tt_heap_let_go(void)
{
	pthread_mutex_unlock(&heap.lock);
}

/* The parent's heap: nothing is written to it here or given back, and its descriptor is closed by now or soon. */
void tt_heap_inherit(void)
{
	struct span **last = &heap.inherited;

	if (heap.base)
		mprotect(heap.base, heap.size, PROT_READ);
	while (*last)
		last = &(*last)->next;
	*last = heap.used;
	for (struct span *span = heap.used; span; span = span->next)
		span->offset += (uintptr_t)heap.base;
	heap.used = NULL;
	heap.base = NULL;
	heap.fd = -1;
	tt_heap_let_go();
}

size_t tt_heap_size(void)
{
	pthread_once(&heap.measured, measure_host);
	return heap.size;
}

int tt_heap_fd(void)
{
	tt_heap_hold();
	if (heap.fd < 0)
		make_heap();
	const int fd = heap.fd;
	tt_heap_let_go();
	return fd;
}

bool tt_heap_offset(const void *pointer, size_t bytes, uint64_t *offset)
{
	const uint8_t *place = pointer;
	/* acquire: pairs with the release in make_heap() */
	const uint8_t *base = __atomic_load_n(&heap.base, __ATOMIC_ACQUIRE);

	if (!base || place < base || place >= base + heap.size || bytes > (size_t)(base + heap.size - place))
		return false;
	*offset = (uint64_t)(place - base);
	return true;
}

void *tt_heap_at(uint64_t offset)
{
	return heap.base + offset;
}

/* Where `bytes` fit: the link behind which they go. */
static struct span **first_fit(uint64_t bytes, uint64_t alignment, uint64_t *offset)
{
	struct span **link = &heap.used;

	*offset = 0;
	while (*link && *offset + bytes > (*link)->offset) {
		*offset = ((*link)->offset + (*link)->bytes + alignment - 1) / alignment * alignment;
		link = &(*link)->next;
	}
	return *offset + bytes <= tt_heap_size() ? link : NULL;
}

TUTTI_API tutti_result_t tutti_mem_alloc(size_t bytes, void **memory)
{
	if (!memory)
		return tt_fail(TUTTI_ERR_INVALID, MEM, "tutti_mem_alloc: memory is NULL");
	*memory = NULL;
	if (bytes == 0 || bytes > tt_heap_size())
		return tt_fail(TUTTI_ERR_INVALID, MEM,
			       "tutti_mem_alloc: bytes %zu, expected 1 to %zu", bytes, tt_heap_size());
	if (tt_heap_fd() < 0)
		return tt_fail_errno(MEM, "tutti_mem_alloc: make a heap of %zu bytes of address space",
				     tt_heap_size());
	struct span *span = malloc(sizeof(*span));
	if (!span)
		return tt_fail(TUTTI_ERR_NO_MEMORY, MEM, "tutti_mem_alloc: no memory for bookkeeping");
	const uint64_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
	span->bytes = (bytes + PAGE - 1) / PAGE * PAGE;

	pthread_mutex_lock(&heap.lock);
	struct span **link = first_fit(span->bytes, alignment, &span->offset);
	if (link) {
		span->next = *link;
		*link = span;
	}
	pthread_mutex_unlock(&heap.lock);
	if (!link) {
		free(span);
		return tt_fail(TUTTI_ERR_NO_MEMORY, MEM,
			       "tutti_mem_alloc: no %zu bytes in one piece are free in the heap", bytes);
	}
	*memory = heap.base + span->offset;
	return TUTTI_OK;
}

/* Off the list; NULL if it is not there. */
static struct span *take_out(struct span **list, uint64_t offset)
{
	struct span **link = list, *found;

	while (*link && (*link)->offset != offset)
		link = &(*link)->next;
	found = *link;
	if (found)
		*link = found->next;
	return found;
}

TUTTI_API void tutti_mem_free(void *memory)
{
	struct span *found;
	uint64_t offset;

	if (!memory)
		return;
	pthread_mutex_lock(&heap.lock);
	if (tt_heap_offset(memory, 1, &offset)) {
		found = take_out(&heap.used, offset);
		/* give the pages back while the lock still keeps others out; they read as zero when used again */
		if (found)
			fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
				  (off_t)found->bytes);
	} else {
		found = take_out(&heap.inherited, (uintptr_t)memory);
	}
	pthread_mutex_unlock(&heap.lock);
	if (!found)
		tt_log(ERROR, MEM, "tutti_mem_free: %p is not memory of tutti_mem_alloc; ignored", memory);
	free(found);
}
