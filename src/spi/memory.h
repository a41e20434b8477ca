/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's heap of tutti_mem_alloc(): one sparse memfd, mapped once, that peers on the host
 * can map too. A transport that shares memory hands the descriptor on and names places by their
 * offset. */
#ifndef TT_SPI_MEMORY_H
#define TT_SPI_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The heap's descriptor, made on first use; -1 (errno set) if it cannot be. It stays open for
 * the life of the process. */
int tt_heap_fd(void);
/* Bytes of it; 0 where the limit of file sizes leaves none. Other processes' may have more or
 * fewer. */
size_t tt_heap_size(void);
/* Is all of `pointer` … + bytes in the heap, and in one piece? Then where, from the file's
 * start. Any thread, no lock. */
bool tt_heap_offset(const void *pointer, size_t bytes, uint64_t *offset);
/* The place at `offset` in this process. */
void *tt_heap_at(uint64_t offset);

/* May peers write to it? Only where it can be taken away from them: pages that nothing else lies
 * in. */
bool tt_heap_is_lendable(const void *pointer, size_t bytes);
/* Take lendable memory away from peers that may be late: it has the same addresses and contents,
 * and whatever they write from now on by the offset that they know goes where nobody looks. */
void tt_heap_revoke(const void *pointer, size_t bytes);

/* The allocation that all of `pointer` … + bytes is in: where it begins, and its bytes in whole
 * pages. Any thread. */
bool tt_heap_allocation(const void *pointer, size_t bytes, void **begin, size_t *length);
/* A header goes on writing to the pages that it was shown, whatever their addresses are used for
 * since. Who shows it memory of the heap asks to be told by `gone` where pages are no longer
 * those that they were: in tutti_mem_free() before anybody can get them again, in
 * tt_heap_revoke() once they are replaced. It is called by the thread that does it, without a
 * lock of the heap. For good: `watch` stays. */
struct tt_heap_watch {
	struct tt_heap_watch *next;
	void (*gone)(const void *pointer, size_t bytes);
};
void tt_heap_watch(struct tt_heap_watch *watch);

/* For fork.c: the heap stays as it is between the first and the second, which the parent calls;
 * a child calls the third instead of the second. */
void tt_heap_hold(void);
void tt_heap_let_go(void);
void tt_heap_inherit(void);

#endif
