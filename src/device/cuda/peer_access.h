/* SPDX-License-Identifier: BSD-3-Clause */
/* How a rank reaches its peers' memory on GPUs. */
#ifndef TT_CUDA_PEER_ACCESS_H
#define TT_CUDA_PEER_ACCESS_H

#include "bound.h"

/* What a rank tells of a chunk of its memory. Same build on all ranks, so plain bytes. */
struct tt_cuda_offer {
	int32_t result; /* other than TUTTI_OK: this rank has failed, and `text` says why */
	int32_t number; /* of the device, within the process … */
	unsigned char gpu[CUDA_UUID_BYTES]; /* … and which it is, whatever each process numbers
					     * it */
	uint64_t process;	/* the same for ranks that are threads of one, and random */
	uint64_t memory, bytes; /* its address there */
	uint64_t offset;	/* in the allocation that the handle stands for */
	uint32_t no_handle;	/* CUDA's error: there is none, and only threads of the same
				 * process reach it; 0: there is */
	struct CUipcMemHandle_st handle;
	char text[256];
};

/* Fill in where this rank is: `number` and `process`. */
tutti_result_t tt_cuda_name_place(const struct tt_cuda *cuda, struct tt_cuda_offer *offer);
/* Fill in that, and what peers need to reach memory[bytes] of this rank. */
tutti_result_t tt_cuda_offer(const struct tt_cuda *cuda, cuda_address memory, size_t bytes,
			     struct tt_cuda_offer *offer);
/* Memory of this rank's GPU for ranks to reach: those of the same process hold it, too, and
 * whoever lets it go last frees it. The communicator's context is current. */
tutti_result_t tt_cuda_take_held(const struct tt_cuda *cuda, size_t bytes, cuda_address *memory);
void tt_cuda_let_go(const struct cuda_driver *driver, cuda_address memory);
/* All ranks' offers, in order of rank; `result` and the thread's error message are told with
 * this rank's. The result of the lowest rank that failed, with its error message, or TUTTI_OK:
 * the same on all. Blocks; lock not held. */
tutti_result_t tt_cuda_exchange(struct tutti_comm *comm, enum tt_part part, tutti_result_t result,
				struct tt_cuda_offer *mine, struct tt_cuda_offer *all);
/* Reach what `rank` offers. The communicator's context is current. */
tutti_result_t tt_cuda_peer_access(const struct tt_cuda *cuda, int rank,
				   const struct tt_cuda_offer *offer, struct tt_cuda_peer *peer);
void tt_cuda_unreach(const struct tt_cuda *cuda, struct tt_cuda_peer *peer);

#endif
