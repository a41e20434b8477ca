/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's part of operations on streams where the ranks' GPUs do not all reach each other: chunks
 * that a stream brings to pinned memory, and fetches from there when the thread has done its part. */
#ifndef TT_CUDA_PROXY_H
#define TT_CUDA_PROXY_H

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

/* At the end of the pinned memory, one line each. */
struct tt_cuda_proxy_flags {
	struct tt_cuda_report report;
	struct {
		_Alignas(64) uint64_t gone; /* written by streams: the chunk that lies in the
					     * slot; the thread makes it 0 when it has seen it */
		_Alignas(64) uint64_t done; /* written by the thread: the chunk whose result
					     * does. Streams make it 0 before a chunk that had
					     * the number before */
	} slot[TT_CUDA_CHUNKS_SLOTS];
};

/* A chunk as the thread has it. */
struct tt_cuda_job {
	uint64_t number;
	size_t ncalls;
	tutti_comm_t comm;
	struct tt_op_header whole;
	tutti_request_t request;
	bool recorded; /* of a captured stream: kept */
	size_t scaled; /* elements of input that are multiplied first, of a pre-multiplied sum */
	uint8_t scalar[8];
	struct tt_call calls[]; /* behind them their tables */
};

/* For a chunk that is on its way. */
struct tt_cuda_slot {
	uint8_t *memory;	     /* pinned */
	struct tt_cuda_run *results; /* that the stream is to fetch */
	size_t nresults;
	struct tt_cuda_job *running; /* the thread's */
};

struct tt_cuda_proxy {
	struct tt_cuda *cuda;
	tutti_comm_t comm;   /* of all ranks */
	tutti_comm_t across; /* of those that have this one's place on their cliques; NULL: there
			      * are none */
	/* all the pinned memory that streams will need, one allocation: to take some later may wait
	 * for streams, and so for ranks that wait for this one */
	struct tt_cuda_slot slots[TT_CUDA_CHUNKS_SLOTS];
	struct tt_cuda_proxy_flags *flags;
	uint64_t numbers; /* of the last chunk */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct tt_cuda_job **jobs; /* behind the lock: not done, or recorded, in order */
	size_t njobs;		   /* likewise */
	bool stop, released;	   /* likewise */
};

/* What crosses between cliques has longer: who stops in the middle of an operation is missed by
 * its own clique first (watchdog.c). */
static inline uint64_t tt_cuda_timeout_across(uint64_t timeout_ns)
{
	return timeout_ns + timeout_ns / 2;
}

/* All ranks call. The communicator's context is current. */
tutti_result_t tt_cuda_proxy_begin(struct tt_cuda *cuda);
/* Also between the ranks that have the same place, each on its clique. All ranks call; the same
 * result on all. */
tutti_result_t tt_cuda_proxy_across(struct tt_cuda *cuda, int place, int clique);
/* End its thread, which may be about to tell the watchdog of a fault; what the watchdog needs of it
 * stays. No proxy is fine, as below. */
void tt_cuda_proxy_stop(struct tt_cuda *cuda);
/* `frees`: all that was put on streams has ended, and the context is there. */
void tt_cuda_proxy_end(struct tt_cuda *cuda, bool frees);

/* The thread is to know of it, by the next number, and owns it. False: no memory, it is the caller's
 * still. */
bool tt_cuda_proxy_enlist(struct tt_cuda_proxy *proxy, struct tt_cuda_job *job);

/* chunks.c */
/* Put it on the operation's stream: all of it is copied. `number`: its own, one more than that
 * of the chunk before. It is fetched TT_CUDA_CHUNKS_AHEAD chunks later at the latest, in order. */
tutti_result_t tt_cuda_put_chunk(struct tt_cuda_op *op, const struct tt_cuda_chunk *chunk,
				 uint64_t *number);
/* The stream waits for the chunk's results, and copies them to the GPU. */
tutti_result_t tt_cuda_fetch_chunk(struct tt_cuda_op *op, uint64_t number);
/* The number that the next chunk gets. */
uint64_t tt_cuda_next_chunk(const struct tt_cuda *cuda);
/* Where what comes next lies in pinned memory: each begins a line of its own. */
size_t tt_cuda_aligned(size_t bytes);

/* For inputs and results of all blocks, each side rounded up; more than that for messages. */
size_t tt_cuda_chunk_room(const struct tutti_comm *comm);

/* The communicator has ended: streams that wait go on, now and later. Any thread. */
void tt_cuda_proxy_release(struct tt_cuda *cuda);

#endif
