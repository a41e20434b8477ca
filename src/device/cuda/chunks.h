/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of operations that go by the host: what a stream brings to pinned memory, and fetches
 * from there when the proxy's thread has done its part. */
#ifndef TT_CUDA_CHUNKS_H
#define TT_CUDA_CHUNKS_H

#include "bound.h"
#include "op_header.h"

#define TT_CUDA_CHUNK_BYTES  ((size_t)4 << 20) /* of all blocks of a side. A guess */
#define TT_CUDA_CHUNK_LINE   ((size_t)64)      /* at which each input and result begins */
#define TT_CUDA_CHUNKS_AHEAD 2 /* chunks that a stream brings before it waits for a result */
#define TT_CUDA_CHUNKS_SLOTS (TT_CUDA_CHUNKS_AHEAD + 1)

/* Bytes of memory of the GPU, and where they lie in a chunk's pinned memory. */
struct tt_cuda_run {
	cuda_address gpu;
	size_t at, bytes;
};

/* Of pinned memory it has tt_cuda_chunk_room() at most. */
struct tt_cuda_chunk {
	tutti_comm_t comm;		  /* among whose ranks, one of the proxy's */
	const struct tt_op_header *whole; /* the call of which it is a part, which peers compare;
				      * NULL: messages, which tell themselves */
	const struct tt_call *calls;	  /* one collective, or messages that go together; their
				      * buffers are offsets in the chunk's pinned memory */
	size_t ncalls;
	const struct tt_cuda_run *inputs, *results;
	size_t ninputs, nresults;
};

/* Put it on the operation's stream: all of it is copied. `number`: its own, one more than that
 * of the chunk before. It is fetched TT_CUDA_CHUNKS_AHEAD chunks later at the latest, in order. */
tutti_result_t tt_cuda_put_chunk(struct tt_cuda_op *op, const struct tt_cuda_chunk *chunk,
				 uint64_t *number);
/* The stream waits for the results of chunks from `*next` up to `number`, and copies them to the
 * GPU. */
tutti_result_t tt_cuda_fetch_chunks(struct tt_cuda_op *op, uint64_t *next, uint64_t number);
/* The number that the next chunk gets. */
uint64_t tt_cuda_next_chunk(const struct tt_cuda *cuda);
/* Where what comes next lies in pinned memory: each begins a line of its own. */
size_t tt_cuda_aligned(size_t bytes);

/* For inputs and results of all blocks, each side rounded up; more than that for messages. */
size_t tt_cuda_chunk_room(const struct tutti_comm *comm);

#endif
