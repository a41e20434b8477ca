/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks meet between kernels, where processes share a GPU: a process whose kernel waited would
 * use up the time that the GPU gives it, and streams that wait do not.
 *
 * A rank has a page of the host's memory that all ranks of its clique map. On it there is a word from
 * each peer, this rank included, for each sync: everybody stores 1 into its own word of everybody's,
 * a stream waits for all words of its rank, and the next kernel on it makes them 0. Nothing is lost by
 * that, as between two uses of a sync's words all ranks pass another sync: who stores the word again has seen
 * this rank store one after it had cleared. The values are the same every time, so a captured graph
 * can be launched any number of times. Of messages there is a word for each direction of a pair.
 *
 * When the communicator has ended, the host stores 1 into all words of its rank: that needs nothing of
 * CUDA's. Kernels look whether it has, and clear nothing then, so that all waits that are still to
 * come pass as well; it stores them again, as a kernel that ran meanwhile may have cleared some. */
#ifndef TT_CUDA_WORDS_H
#define TT_CUDA_WORDS_H

#include "bound.h"

#define TT_CUDA_SYNCS 3 /* after the first round, after the second, at the end */
#define TT_CUDA_LAST                                                                               \
	(TT_CUDA_SYNCS - 1) /* of every operation: the first kernel of the next waits */

struct tt_cuda_words {
	uint32_t posted[TT_CUDA_SYNCS][TT_CUDA_RANKS];
	uint32_t sent[TT_CUDA_RANKS];  /* the peer's next chunk lies in its memory */
	uint32_t taken[TT_CUDA_RANKS]; /* the peer has read the chunk before; 1 at first */
};

/* This rank's page, which offer->words stands for. */
tutti_result_t tt_cuda_words_make(struct tt_cuda *cuda, struct tt_cuda_offer *offer);
/* All ranks have mapped what they need: what is not needed is freed. */
void tt_cuda_words_settle(struct tt_cuda *cuda);
/* Map everybody's, for streams too. The communicator's context is current. */
tutti_result_t tt_cuda_words_map(struct tt_cuda *cuda, const struct tt_cuda_offer *all);
/* `frees`: the context is there, and no stream waits any more. */
void tt_cuda_words_free(struct tt_cuda *cuda, bool frees);

/* This rank has come so far, behind what is on the stream. */
cuda_result tt_cuda_words_post(struct tt_cuda_op *op, int sync);
/* The stream waits until everybody has; `clears`: and its next kernel clears the words. */
cuda_result tt_cuda_words_await(struct tt_cuda_op *op, int sync, bool clears);
/* Of a message to or from `peer`: the stream waits until a chunk can be sent, or has come, … */
cuda_result tt_cuda_words_await_chunk(struct tt_cuda_op *op, int peer, bool sending);
/* … and behind it the peer is told. */
cuda_result tt_cuda_words_post_chunk(struct tt_cuda_op *op, int peer, bool sending);
/* The stream waits until all that was sent has been taken. */
cuda_result tt_cuda_words_drain(struct tt_cuda_op *op);

/* All streams that wait go on, now. */
void tt_cuda_words_release(const struct tt_cuda *cuda);
/* Who has not come to what report.waiting says: a bit for each rank. */
uint64_t tt_cuda_words_missing(const struct tt_cuda *cuda, uint64_t waiting);

#endif
