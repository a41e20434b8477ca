/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose memory a pointer points to. */
#ifndef TT_CUDA_POINTERS_H
#define TT_CUDA_POINTERS_H

#include "driver.h"

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

#endif
