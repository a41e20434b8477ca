/* SPDX-License-Identifier: BSD-3-Clause */
/* What host and GPU have in common: the memory in which ranks of one host find each other's flag,
 * and the parameters of kernels. Read by C, C++ and CUDA compilers.
 *
 * Every kernel moves bytes (struct tt_cuda_part) and, once all of its threads have done so, waits
 * for flags and sets them (struct tt_cuda_sync): it clears what its stream had waited for, and says
 * to each peer that this rank has come so far. The wait itself is not the kernel's: a stream memory
 * operation stands before it in the stream, so that nothing holds a multiprocessor while it waits.
 *
 * Collectives. A rank has a byte for each of its peers, itself included, for each of TT_CUDA_SYNCS
 * syncs. A sync is: everybody stores 1 into its own byte of everybody's, each waits for all of its
 * bytes, and clears them. Clearing needs no atomics, as between two uses of a sync's bytes all
 * ranks pass another sync: who stores the byte again has seen this rank store one after it had
 * cleared. The values are the same every time, so a captured graph can be replayed.
 *
 * Messages. `sent` of a pair is stored by the sender, cleared by the receiver, `taken` the other
 * way round; it is 1 at first.
 *
 * When the communicator has ended, the host stores `dead` and then every flag that a stream may
 * wait for. Kernels that see it do nothing: they clear no flag, so that all waits that are still
 * to come pass as well. */
#ifndef TT_CUDA_KERNELS_H
#define TT_CUDA_KERNELS_H

#include <stdint.h>

#define TT_CUDA_RANKS	32  /* of one host, at most */
#define TT_CUDA_SYNCS	3   /* after the first round, after the second, at the end */
#define TT_CUDA_FLAG	8   /* bytes that one stream memory operation waits for */
#define TT_CUDA_HEADER	64  /* bytes of struct tt_op_header */
#define TT_CUDA_THREADS 512 /* of a block, at most */

enum { /* tt_cuda_report.waiting; a peer's rank << 8 is added where there is one */
       TT_CUDA_AWAITS_NOBODY,
       TT_CUDA_AWAITS_ALL,  /* after a round that is not the last */
       TT_CUDA_AWAITS_LAST, /* after the last round */
       TT_CUDA_AWAITS_SENT,
       TT_CUDA_AWAITS_TAKEN
};

/* In pinned memory of the host, where it is looked at now and then. Written by the rank's own
 * kernels, and the four flags behind `ended` by its streams. */
struct tt_cuda_report {
	uint64_t ended;	   /* how often what was waited for has come and was used */
	uint64_t waiting;  /* whom the stream that came last to a wait waits for */
	uint64_t crossed;  /* 1: that one comes only when something has crossed from another
			    * clique */
	uint64_t timeout;  /* nanoseconds that the stream's operation may wait, 0: as all;
			    * written before `waiting` */
	uint64_t passed;   /* the number of the last mark that streams came to (ahead.c) */
	uint32_t mismatch; /* 1 + the peer that called something else; 0: none. Written last */
	uint8_t mine[TT_CUDA_HEADER], theirs[TT_CUDA_HEADER]; /* what both called */
	uint8_t posted[TT_CUDA_SYNCS][TT_CUDA_RANKS];	      /* of the control, copied here by the
							   * host to be looked at */
};

/* In memory of the GPU that all ranks of the host map. */
struct tt_cuda_control {
	uint8_t posted[TT_CUDA_SYNCS][TT_CUDA_RANKS]; /* by each peer: it has come so far */
	uint64_t sent[TT_CUDA_RANKS];	   /* by each peer: its next chunk lies in its memory */
	uint64_t taken[TT_CUDA_RANKS];	   /* by each peer: it has read the chunk before */
	uint64_t signature[TT_CUDA_RANKS]; /* by each peer: of the collective that it called … */
	uint64_t sent_signature[TT_CUDA_RANKS];		    /* … and of the chunk that it sent */
	uint8_t header[TT_CUDA_HEADER];			    /* what this rank called … */
	uint8_t sent_header[TT_CUDA_RANKS][TT_CUDA_HEADER]; /* … and sent to each */
	uint64_t ended;					    /* as in the report */
	uint32_t blocks; /* of the kernel that runs, those that have moved their bytes */
	uint32_t dead;
};

/* Who a rank is and where its peers' memory is in its own address space. In memory of the GPU,
 * never changed. */
struct tt_cuda_place {
	uint32_t rank, ranks;
	struct tt_cuda_control *own;
	struct tt_cuda_report *report;
	struct tt_cuda_control *control[TT_CUDA_RANKS];
};

/* dst[0][i] = dst[1][i] = … = src[0][i] op src[1][i] op …, divided by `divisor` before it is
 * rounded, if that is not 0: of a sum or an average alone. Scaling has one source, whose
 * elements it multiplies with the scalar. A copy instead has `nsrc` jobs of its own: dst[j] =
 * src[j], of `bytes[j]` each, block row j of the grid doing job j. dst may be equal to any of
 * the sources. Pointers are aligned to elements, those of a copy to nothing. */
struct tt_cuda_part {
	const void *src[TT_CUDA_RANKS];
	void *dst[TT_CUDA_RANKS];
	uint64_t bytes[TT_CUDA_RANKS]; /* a reduction: bytes[0] for all */
	uint8_t scalar[8];	       /* of the elements' type, in the first bytes */
	uint32_t nsrc, ndst;	       /* nsrc 0: nothing to move */
	uint32_t divisor;
};

enum {			   /* tt_cuda_sync.kind */
       TT_CUDA_SILENT,	   /* sets no flag: another kernel follows that does */
       TT_CUDA_COLLECTIVE, /* clears `clear`, if not -1, and gives a signal of `post` to all, if not
			    * -1 */
       TT_CUDA_SEND,	   /* clears taken[peer], and gives a signal of `sent` to the peer */
       TT_CUDA_RECV	   /* clears sent[peer], and gives a signal of `taken` to the peer */
};

/* What the last thread of the last block does, in this order: the flag is cleared (then
 * report.waiting is 0, and `ended` one more, there and in the report; not for the last sync,
 * TT_CUDA_SYNCS - 1, which belongs to the operation before), signature and header are written,
 * all threads' stores are made visible to the system, a signal is given. A collective's signal
 * of another sync than the last makes report.waiting TT_CUDA_AWAITS_ALL before. */
struct tt_cuda_sync {
	const struct tt_cuda_place *place;
	uint32_t kind;
	int32_t clear, post; /* numbers of syncs */
	uint32_t peer;
	uint32_t check;	     /* 1: before anything is moved, what the peers called is compared
			      * with what this rank did */
	uint32_t introduces; /* 1: the signature and the header are given with the flag */
	uint64_t signature;
	uint8_t header[TT_CUDA_HEADER];
};

#endif
