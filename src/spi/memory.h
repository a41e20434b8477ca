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
/* Its bytes; 0 if the limit of file sizes leaves none. Other processes' heaps may have more or
 * fewer. */
size_t tt_heap_size(void);
/* Is all of `pointer` … + bytes in the heap, and contiguous? Then *offset is where, from the
 * file's start. Any thread, no lock. */
bool tt_heap_offset(const void *pointer, size_t bytes, uint64_t *offset);
/* The place at `offset` in this process. */
void *tt_heap_at(uint64_t offset);

/* May peers write to it? Only if it can be taken away from them: pages that hold nothing else. */
bool tt_heap_is_grantable(const void *pointer, size_t bytes);
/* Take such memory away from peers that may be late. It keeps its addresses and contents. What
 * peers write from now on, by the offset that they know, goes where nobody reads. */
void tt_heap_revoke(const void *pointer, size_t bytes);

/* The allocation that all of `pointer` … + bytes is in: where it begins, and its bytes in whole
 * pages. Any thread. */
bool tt_heap_allocation(const void *pointer, size_t bytes, void **begin, size_t *length);
/* A network card goes on writing to the pages that were registered with it, whatever their
 * addresses are used for since. Code that registers memory of the heap asks for a call of `gone`
 * when pages change: in tutti_mem_free() before anybody can get them again, in tt_heap_revoke()
 * once they are replaced. The thread that changes them calls it, without a lock of the heap. A
 * watch cannot be taken back: `watch` stays valid. */
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
