/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast by the switch between GPUs (NVLink SHARP): at one address kernels store into the memory of
 * all ranks, and load the sum of what all have there. For windows in segments, where each rank has a
 * GPU of its own. */
#ifndef TT_CUDA_MULTICAST_H
#define TT_CUDA_MULTICAST_H

#include "descriptors.h"
#include "peer_access.h"

struct tt_cuda_multicast {
	cuda_allocation handle;
	cuda_address base;     /* 0: not mapped */
	uint64_t span, offset; /* of all segments, and of the window in them */
	uint64_t bound;	       /* bytes of this rank's */
};

/* How far a rank has come, in offers. */
enum {
	TT_CUDA_MULTICAST_NOT,
	TT_CUDA_MULTICAST_ABLE,
	TT_CUDA_MULTICAST_BEGUN,
	TT_CUDA_MULTICAST_BOUND
};

/* Have all come so far? The same on all ranks. */
bool tt_cuda_all_multicast(const struct tutti_comm *comm, const struct tt_cuda_offer *all,
			   uint32_t so_far);
/* May it be tried with what all offer? The same on all ranks. */
bool tt_cuda_may_multicast(const struct tt_cuda *cuda, const struct tt_cuda_offer *all);
/* All ranks call, which have shared their segments by these sockets. Rank 0 makes what all memory is
 * bound to, and hands it on. `multicast` is zeros before, and after an error. */
tutti_result_t tt_cuda_multicast_begin(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
				       const struct tt_cuda_offer *all,
				       struct tt_cuda_multicast *multicast);
/* Once all have begun: this rank's memory is part of it. */
tutti_result_t tt_cuda_multicast_bind(const struct tt_cuda *cuda, const struct tt_cuda_offer *mine,
				      struct tt_cuda_multicast *multicast);
/* Nobody is at it. It becomes zeros, which are fine, too. */
void tt_cuda_multicast_end(const struct tt_cuda *cuda, struct tt_cuda_multicast *multicast);

#endif
