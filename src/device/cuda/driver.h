/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA's driver, opened once and started. */
#ifndef TT_CUDA_DRIVER_H
#define TT_CUDA_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_functions.h"
#include "tutti/tutti.h"

/* CUDA's IPC shares whole blocks of memory: what is shorter lies in one with other allocations,
 * which are shared with it, and two of one block are opened as one (CUDA C++ Programming Guide,
 * "Interprocess Communication"). */
#define CUDA_BLOCK ((size_t)2 << 20)

static inline size_t cuda_whole_blocks(size_t bytes)
{
	return (bytes + CUDA_BLOCK - 1) / CUDA_BLOCK * CUDA_BLOCK;
}

/* With unified addressing an address is a pointer. */
static inline cuda_address cuda_at(const void *pointer)
{
	return (cuda_address)(uintptr_t)pointer;
}

static inline void *cuda_pointer(cuda_address address)
{
	return (void *)(uintptr_t)address;
}

/* Its functions, once it is open. */
extern struct cuda_driver tt_cu;

/* Have it opened and started. TUTTI_ERR_UNSUPPORTED: it is not there, is too old, or has no GPU for this
 * process; TUTTI_ERR_SYSTEM: it could not be started. What failed is tried again by the next
 * call. Any thread. */
tutti_result_t tt_cuda_driver(void);

void tt_cuda_probe(void); /* probe of struct tt_device */

/* TUTTI_OK where there is no error; otherwise the error message "WHAT: CUDA's text (CUDA's name)" and
 * TUTTI_ERR_SYSTEM. */
tutti_result_t tt_cuda_check(cuda_result error, const char *what, ...)
	__attribute__((format(printf, 2, 3)));
/* 0 also where CUDA gives an error. */
int tt_cuda_attribute(unsigned attribute, cuda_device device);

/* Whose memory a pointer points to. */
enum tt_cuda_memory {
	TT_CUDA_HOST,	/* also what is pinned or registered, and all that CUDA does not know */
	TT_CUDA_DEVICE, /* only the GPU may touch it */
	TT_CUDA_MANAGED /* both may, and its pages move */
};

/* `*device`: the number of the GPU whose it is, of managed memory the one that it was made for;
 * -1: the host's. The driver is opened, but need not have been started: then all memory is the host's.
 * TUTTI_ERR_SYSTEM: CUDA is broken in this process, as it is after a kernel's fault. Any thread;
 * needs no context. */
tutti_result_t tt_cuda_pointer(const void *pointer, enum tt_cuda_memory *kind, int *device);
/* Has every GPU of the process that memory which has access to its GPU? So it is of cudaMalloc() and of
 * managed memory; of other memory the program says who has access. */
bool tt_cuda_peers_have(const void *pointer);

#endif
