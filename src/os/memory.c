/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the heap of tutti_mem_alloc(): one sparse memfd of the process, mapped at one place by the
 * first allocation: a program without any has none of its address space. Peers map the same file,
 * so a place is named by its offset. Pages exist only where they were touched and are given back
 * when memory is freed.
 *
 * Spans are kept in a list sorted by offset; allocation is first fit. The lock guards the lists;
 * base and size never change once set.
 *
 * What peers may write to can be taken away from them: its addresses are mapped to another part
 * of the file, and the part that peers know is never used again, as one that is late may still
 * write there. So a place is its address only where nothing was taken away (`moved`).
 *
 * A child of fork() keeps the mapping of what its parent had, to be read only, and makes a heap
 * of its own when it first allocates. The lock is held over fork(), so that the list is whole in
 * the child. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "file.h"
#include "fork.h"
#include "log.h"
#include "memory.h"

#define PAGE	  4096u
#define HUGE_PAGE (2u << 20)

struct span {
	struct span *next;
	uint64_t offset, bytes;
	size_t asked; /* by the caller: what is behind it, to the end of a page, is nobody's */
	bool lost;    /* freed, but peers may still write there */
	bool late; /* peers may write there when it is freed, too: there was no room to move it to */
};

/* Addresses that were taken away from peers, and where they are in the file since. */
struct move {
	struct move *next;
	uint64_t offset, bytes, to;
};

static struct {
	pthread_mutex_t lock;
	pthread_once_t measured;
	int fd;	       /* -1: not made, or it could not be: the next call tries again */
	uint8_t *base; /* release in map_file(), pairs with the acquire in is_inside() */
	size_t size;
	bool limited;		       /* by what files may have */
	struct span *used;	       /* sorted by offset */
	struct move *moved;	       /* the latest first. Release in move_away(), pairs with
					* the acquire in find_in_file() */
	struct span *inherited;	       /* of parents' heaps; `offset` is the address */
	struct tt_heap_watch *watches; /* release in tt_heap_watch(), pairs with the acquire in
					* report_gone() */
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER, .measured = PTHREAD_ONCE_INIT, .fd = -1 };

/* What the limit of file sizes leaves of it. The kernel counts address space of a memfd that
 * nobody has touched, too. */
static size_t keep_limit(size_t wanted, size_t memory)
{
	const uint64_t limit = tt_file_limit();
	const size_t kept =
		wanted <= limit
			? wanted
			: (size_t)limit & ~(size_t)(limit < HUGE_PAGE ? PAGE - 1 : HUGE_PAGE - 1);

	if (kept < memory)
		tt_log(WARN, MEM,
		       "tutti_mem_alloc() has %zu bytes, expected the %zu bytes of this machine's memory: files of this process may have %llu; "
		       "raise the limit (ulimit -f) if that is too little",
		       kept, memory, (unsigned long long)limit);
	return kept;
}

/* Address space only: a power of two that holds all memory of the host. */
static void measure_host(void)
{
	struct sysinfo info;
	size_t size = (size_t)1 << 32, memory = 0;

	if (sysinfo(&info) == 0)
		memory = (size_t)info.totalram * info.mem_unit;
	while (size < memory)
		size <<= 1;
	heap.size = keep_limit(size, memory);
	heap.limited = heap.size < size;
}

/* Lock held. False with errno. */
static bool make_file(void)
{
	const size_t size = tt_heap_size();

	if (heap.fd >= 0)
		return true;
	const int fd = size ? TT_FD(memfd_create("tutti-heap", MFD_CLOEXEC)) : -1;
	if (!size)
		errno = EFBIG;
	if (fd < 0)
		return false;
	if (tt_file_resize(fd, size) < 0) {
		tt_fd_close(fd);
		return false;
	}
	heap.fd = fd;
	return true;
}

/* Lock held. False with errno. */
static bool map_file(void)
{
	const size_t size = tt_heap_size();

	if (heap.base)
		return true;
	void *base =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap.fd, 0);
	if (base == MAP_FAILED)
		return false;
	madvise(base, size, MADV_HUGEPAGE); /* where shmem has huge pages; advice only */
	__atomic_store_n(&heap.base, base, __ATOMIC_RELEASE);
	return true;
}

void tt_heap_hold(void)
{
	pthread_mutex_lock(&heap.lock);
}

void tt_heap_let_go(void)
{
	pthread_mutex_unlock(&heap.lock);
}

/* Measured before the lock is held: the program's log may be told, and may fork. */
static void hold_measured(void)
{
	tt_heap_size();
	tt_heap_hold();
}

static bool make_heap(void)
{
	hold_measured();
	const bool made = make_file() && map_file();
	tt_heap_let_go();
	return made;
}

static void free_moves(void)
{
	while (heap.moved) {
		struct move *next = heap.moved->next;

		free(heap.moved);
		heap.moved = next;
	}
}

/* The parent's heap: nothing is written to it here or given back, and its descriptor is closed
 * by now or soon. */
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
	free_moves();
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
	hold_measured();
	const int fd = make_file() ? heap.fd : -1;
	tt_heap_let_go();
	return fd;
}

/* Where bytes at this address offset are in the file; false: not in one piece. */
static bool find_in_file(uint64_t at, size_t bytes, uint64_t *offset)
{
	/* acquire: pairs with the release in move_away(). Entries never change, and are freed in
	 * a child only. */
	const struct move *move = __atomic_load_n(&heap.moved, __ATOMIC_ACQUIRE);

	while (move && (at >= move->offset + move->bytes || at + bytes <= move->offset))
		move = move->next;
	if (move && (at < move->offset || at + bytes > move->offset + move->bytes))
		return false;
	*offset = move ? at - move->offset + move->to : at;
	return true;
}

static bool is_inside(const void *pointer, size_t bytes)
{
	const uint8_t *place = pointer;
	/* acquire: pairs with the release in map_file() */
	const uint8_t *base = __atomic_load_n(&heap.base, __ATOMIC_ACQUIRE);

	return base && place >= base && place < base + heap.size &&
	       bytes <= (size_t)(base + heap.size - place);
}

bool tt_heap_offset(const void *pointer, size_t bytes, uint64_t *offset)
{
	return is_inside(pointer, bytes) &&
	       find_in_file((uint64_t)((const uint8_t *)pointer - heap.base), bytes, offset);
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
		*offset =
			((*link)->offset + (*link)->bytes + alignment - 1) / alignment * alignment;
		link = &(*link)->next;
	}
	return *offset + bytes <= tt_heap_size() ? link : NULL;
}

/* Take room for `bytes` into the list; false: there is none in one piece. Lock held. */
static bool take_room(struct span *span, uint64_t bytes, uint64_t alignment)
{
	struct span **link;

	*span = (struct span){ .bytes = (bytes + PAGE - 1) / PAGE * PAGE, .asked = bytes };
	link = first_fit(span->bytes, alignment, &span->offset);
	if (!link)
		return false;
	span->next = *link;
	*link = span;
	return true;
}

TUTTI_API tutti_result_t tutti_mem_alloc(size_t bytes, void **memory)
{
	if (!memory)
		return tt_fail(TUTTI_ERR_INVALID, MEM, "tutti_mem_alloc: memory is NULL");
	*memory = NULL;
	if (bytes == 0 || (tt_heap_size() && bytes > tt_heap_size()))
		return tt_fail(
			TUTTI_ERR_INVALID, MEM, "tutti_mem_alloc: bytes %zu, expected 1 to %zu%s",
			bytes, tt_heap_size(),
			heap.limited
				? ", as many as files of this process may have; raise the limit (ulimit -f)"
				: "");
	if (!make_heap())
		return tt_fail_errno(MEM,
				     "tutti_mem_alloc: make a heap of %zu bytes of address space",
				     tt_heap_size());
	struct span *span = malloc(sizeof(*span));
	if (!span)
		return tt_fail(TUTTI_ERR_NO_MEMORY, MEM,
			       "tutti_mem_alloc: no memory for bookkeeping");
	pthread_mutex_lock(&heap.lock);
	const bool taken = take_room(span, bytes, bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE);
	pthread_mutex_unlock(&heap.lock);
	if (!taken) {
		free(span);
		return tt_fail(TUTTI_ERR_NO_MEMORY, MEM,
			       "tutti_mem_alloc: no %zu bytes in one piece are free in the heap",
			       bytes);
	}
	*memory = heap.base + span->offset;
	return TUTTI_OK;
}

/* ---- lending */

/* The span that the address offset is in. Lock held. */
static struct span *span_of(uint64_t at)
{
	struct span *span = heap.used;

	while (span && at >= span->offset + span->bytes)
		span = span->next;
	return span && at >= span->offset ? span : NULL;
}

bool tt_heap_is_grantable(const void *pointer, size_t bytes)
{
	bool whole;

	if ((uintptr_t)pointer % PAGE || !is_inside(pointer, bytes))
		return false;
	if (bytes % PAGE == 0)
		return true;
	pthread_mutex_lock(&heap.lock);
	const uint64_t at = (uint64_t)((const uint8_t *)pointer - heap.base);
	const struct span *span = span_of(at);
	whole = span && at + bytes == span->offset + span->asked;
	pthread_mutex_unlock(&heap.lock);
	return whole;
}

bool tt_heap_allocation(const void *pointer, size_t bytes, void **begin, size_t *length)
{
	struct span found = { 0 };

	if (!is_inside(pointer, bytes))
		return false;
	pthread_mutex_lock(&heap.lock);
	const uint64_t at = (uint64_t)((const uint8_t *)pointer - heap.base);
	const struct span *span = span_of(at);
	if (span && !span->lost && at + bytes <= span->offset + span->bytes)
		found = *span;
	pthread_mutex_unlock(&heap.lock);
	*begin = heap.base + found.offset;
	*length = found.bytes;
	return found.bytes > 0;
}

void tt_heap_watch(struct tt_heap_watch *watch)
{
	watch->next = __atomic_load_n(&heap.watches, __ATOMIC_RELAXED);
	/* release: pairs with the acquire in report_gone() */
	while (!__atomic_compare_exchange_n(&heap.watches, &watch->next, watch, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static void report_gone(const void *pointer, size_t bytes)
{
	/* acquire: pairs with the release in tt_heap_watch() */
	for (const struct tt_heap_watch *w = __atomic_load_n(&heap.watches, __ATOMIC_ACQUIRE); w;
	     w = w->next)
		w->gone(pointer, bytes);
}

/* Give the pages back; they read as zero when used again. Lock held. */
static void empty(uint64_t offset, uint64_t bytes)
{
	fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

/* What has been touched of it: the rest stays untouched, and reads as zero there, too. Where the kernel
 * does not say what that is, all. Lock held. */
static void copy_touched(uint64_t to, uint64_t at, uint64_t in_file, uint64_t bytes)
{
	const off_t end = (off_t)(in_file + bytes);
	off_t from = (off_t)in_file, until = from;

	while ((from = lseek(heap.fd, until, SEEK_DATA)) >= 0 && from < end) {
		const off_t hole = lseek(heap.fd, from, SEEK_HOLE);
		const uint64_t behind = (uint64_t)from - in_file;

		until = hole >= 0 && hole < end ? hole : end;
		memcpy(heap.base + to + behind, heap.base + at + behind, (size_t)(until - from));
	}
	if (from < 0 && errno != ENXIO) /* no data behind */
		memcpy(heap.base + to, heap.base + at, bytes);
}

/* Map other pages of the file there, with what is there now. Lock held. */
static bool move_away(uint64_t at, uint64_t bytes)
{
	struct span *capacity = malloc(sizeof(*capacity));
	struct move *move = malloc(sizeof(*move));
	const bool huge = at % HUGE_PAGE == 0 && bytes >= HUGE_PAGE;
	uint64_t before;

	if (!capacity || !move || !find_in_file(at, bytes, &before) ||
	    !take_room(capacity, bytes, huge ? HUGE_PAGE : PAGE))
		goto free_both;
	capacity->lost = true; /* its own addresses are nobody's */
	copy_touched(capacity->offset, at, before, bytes);
	if (mmap(heap.base + at, bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, heap.fd,
		 (off_t)capacity->offset) == MAP_FAILED)
		goto empty_room;
	madvise(heap.base + at, bytes, MADV_HUGEPAGE);
	empty(before, bytes);
	*move = (struct move){ heap.moved, at, bytes, capacity->offset };
	/* release: pairs with the acquire in find_in_file() */
	__atomic_store_n(&heap.moved, move, __ATOMIC_RELEASE);
	return true;
empty_room:
	empty(capacity->offset, bytes);
	capacity = NULL; /* it stays on the list */
free_both:
	free(capacity);
	free(move);
	return false;
}

void tt_heap_revoke(const void *pointer, size_t bytes)
{
	bool moved;

	if (!is_inside(pointer, bytes))
		return;
	pthread_mutex_lock(&heap.lock);
	const uint64_t at = (uint64_t)((const uint8_t *)pointer - heap.base);
	moved = move_away(at, (bytes + PAGE - 1) / PAGE * PAGE);
	struct span *span = span_of(at);
	if (!moved && span)
		span->late = true;
	pthread_mutex_unlock(&heap.lock);
	if (moved)
		report_gone(pointer, bytes);
	else
		tt_log(ERROR, MEM,
		       "memory that peers could write to, %zu bytes at %p, could not be taken away from the peers for want of "
		       "memory: one that is late may still write there, so free it and do not use it again",
		       bytes, pointer);
}

/* ---- freeing */

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

/* A span that is freed: off the list and its pages given back, while the lock still keeps others
 * out. Gives what to free, or the span itself if it stays on the list, as parts of it were taken
 * away from peers that may be late. */
static struct span *give_back(uint64_t offset)
{
	struct span *span = span_of(offset);

	if (!span || span->offset != offset || span->lost)
		return NULL;
	bool granted = span->late;
	for (const struct move *move = heap.moved; move; move = move->next) {
		if (move->offset < offset || move->offset >= offset + span->bytes)
			continue;
		empty(move->to, move->bytes);
		granted = true;
	}
	empty(offset, span->bytes);
	span->lost = granted;
	return granted ? span : take_out(&heap.used, offset);
}

TUTTI_API void tutti_mem_free(void *memory)
{
	struct span *found;
	void *begin;
	size_t length;

	if (!memory)
		return;
	/* while its place is still taken, so that nobody else gets it before all are told */
	if (tt_heap_allocation(memory, 1, &begin, &length) && begin == memory)
		report_gone(begin, length);
	pthread_mutex_lock(&heap.lock);
	if (is_inside(memory, 1))
		found = give_back((uint64_t)((uint8_t *)memory - heap.base));
	else
		found = take_out(&heap.inherited, (uintptr_t)memory);
	const bool stays = found && found->lost;
	pthread_mutex_unlock(&heap.lock);
	if (!found)
		tt_log(ERROR, MEM, "tutti_mem_free: %p is not memory of tutti_mem_alloc; ignored",
		       memory);
	if (!stays)
		free(found);
}
