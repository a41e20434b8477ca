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
	uint64_t offset;	/* in the allocation that the handle stands for, or the first
				 * segment */
	double byte_seconds;	/* once others are reached */
	uint32_t mps;		/* 1: processes on the GPU run side by side, by NVIDIA's MPS */
	uint32_t segments;	/* that it lies in (segments.h); 0: it is one allocation … */
	uint32_t no_handle;	/* … for which there is no handle, by this error of CUDA's: only
				 * threads of the same process reach it; 0: there is one */
	uint32_t multicast;	/* how far it has come (multicast.h) */
	uint32_t exchange;	/* that it is set to exchange: settings.exchange_bytes */
	uint64_t span, socket;	/* bytes from the first segment's to the last one's end, and where
				* ranks ask for them */
	struct CUipcMemHandle_st handle;
	char text[256];
};

bool tt_cuda_same_gpu(const struct tt_cuda_offer *a, const struct tt_cuda_offer *b);
/* How many ranks have that one's GPU. */
int tt_cuda_ranks_on_gpu(const struct tutti_comm *comm, const struct tt_cuda_offer *all, int of);
/* Fill in where this rank is: `number`, `gpu`, `process` and `mps`. */
tutti_result_t tt_cuda_name_place(const struct tt_cuda *cuda, struct tt_cuda_offer *offer);
/* Fill in that, and what peers need to reach memory[bytes] of this rank. */
tutti_result_t tt_cuda_offer(const struct tt_cuda *cuda, cuda_address memory, size_t bytes,
			     struct tt_cuda_offer *offer);
/* Memory of this rank's GPU for ranks to reach: those of the same process hold it, too, and
 * whoever lets it go last frees it. The communicator's context is current. */
tutti_result_t tt_cuda_take_held(const struct tt_cuda *cuda, size_t bytes, cuda_address *memory);
void tt_cuda_let_go(cuda_address memory);
/* All ranks' offers, in order of rank, of which this rank has its own there; `result` and the thread's
 * error message are told with it. The result of the lowest rank that failed, with its error message (one that has failed
 * by itself before those that lost it), or TUTTI_OK: the same on all. Blocks; lock not held. */
tutti_result_t tt_cuda_exchange(struct tutti_comm *comm, enum tt_part part, tutti_result_t result,
				struct tt_cuda_offer *all);
/* Reach what `rank` offers. The communicator's context is current. */
tutti_result_t tt_cuda_peer_access(const struct tt_cuda *cuda, int rank,
				   const struct tt_cuda_offer *offer, struct tt_cuda_peer *peer);
void tt_cuda_unreach(const struct tt_cuda *cuda, struct tt_cuda_peer *peer);
/* Seconds that a byte takes from another rank's memory to this one's. Blocks. */
cuda_result tt_cuda_measure_link(const struct tt_cuda *cuda, double *byte_seconds);

#endif
