/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that all ranks have registered (tutti_cuda_register()). */
#ifndef TT_CUDA_WINDOWS_H
#define TT_CUDA_WINDOWS_H

#include "bound.h"
#include "multicast.h"

struct tutti_cuda_window {
	struct tutti_cuda_window *next;
	struct tutti_comm *comm;
	uint64_t number; /* the same on all ranks */
	size_t bytes;
	struct tt_cuda_peer peer[TT_CUDA_RANKS];
	struct tt_cuda_multicast multicast;
};

/* The one that has them all; NULL: none. Behind the order's lock. */
const struct tutti_cuda_window *tt_cuda_window_of(const struct tt_cuda *cuda, const void *buffer,
						  size_t bytes);

#endif
