/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams where the ranks' GPUs cannot reach each other: by pinned memory and the host's collectives. */
#ifndef TT_CUDA_RELAY_H
#define TT_CUDA_RELAY_H

#include "bound.h"
#include "card.h"

#define TT_CUDA_RELAY_PIECE ((size_t)4 << 20) /* bytes of all blocks of a side */
#define TT_CUDA_RELAY_AHEAD 2		      /* pieces that a stream brings before it waits for a result */

/* Bytes of memory of the GPU, and where they lie in a piece's pinned memory. */
struct tt_cuda_run {
	cuda_address gpu;
	size_t at, bytes;
};

/* All ranks call. The communicator's context is current. */
tutti_result_t tt_cuda_relay_begin(struct tt_cuda *cuda);
/* NULL relay is fine. `frees`: all that was put on streams has ended, and the context is there. */
void tt_cuda_relay_end(struct tt_cuda *cuda, bool frees);

tutti_result_t tt_cuda_relay_collective(struct tt_cuda_op *op);
tutti_result_t tt_cuda_relay_messages(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n);

/* Also between the ranks that have the same place, each on its island. All ranks call; the same result on all. */
tutti_result_t tt_cuda_relay_across(struct tt_cuda *cuda, int place, int island);
/* A piece of `whole`, which goes in two levels, between those: what is at `inputs` becomes what is to be at `results`, by a call whose buffers are offsets in pinned memory, of
 * which it reads and writes `bytes`. It is fetched TT_CUDA_RELAY_AHEAD pieces later at the latest, in order. */
tutti_result_t tt_cuda_relay_put(struct tt_cuda_op *op, const struct tt_card *whole, const struct tt_call *call, const struct tt_cuda_run *inputs, size_t ninputs,
				 const struct tt_cuda_run *results, size_t nresults, size_t bytes, uint64_t *number);
tutti_result_t tt_cuda_relay_fetch(struct tt_cuda_op *op, uint64_t number);
/* The number that the next piece gets. */
uint64_t tt_cuda_relay_next(const struct tt_cuda *cuda);

/* The communicator has ended: streams that wait go on, now and later. Any thread. */
void tt_cuda_relay_release(struct tt_cuda *cuda);

#endif
