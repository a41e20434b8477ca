/* SPDX-License-Identifier: BSD-3-Clause */
/* What host and GPU have in common: the memory in which ranks of one host find each other's flags,
 * and the parameters of kernels. Read by C, C++ and CUDA compilers.
 *
 * A kernel executes a program: up to TT_CUDA_PHASES phases, each of which moves bytes (struct
 * tt_cuda_part).
 *
 * Meetings. Before a phase a kernel may wait until all ranks have come as far as this one, and behind
 * it say that this rank has. `arrived` has a count for each rank: how often it has said so. Counts
 * only grow, and a kernel finds its own in memory of the GPU (`met`): a captured graph can be launched
 * any number of times, and nothing is cleared. Waits look at report.abort now and then: when the
 * communicator has ended, the host stores 1 there.
 *
 * Exchanges (TT_CUDA_EXCHANGE) need no meetings: each 8 bytes that are stored into a peer's memory
 * hold 4 bytes of data and the number of the operation, and whoever waits looks for that number
 * (the protocol that NCCL calls LL). There are two sets of such memory, for even and odd numbers. A
 * rank writes into a peer's again after the operation in between, in which it has heard from every
 * peer, and so of the end of the one before.
 *
 * Every collective begins with a line to each peer that has its signature and its number (`called`),
 * by which ranks that called something else find out, also where one waits for a meeting and the
 * other one for an exchange. Of these, too, there are two, as a peer may begin the next operation
 * while this rank still compares.
 *
 * Where peers reach this rank's input and result where they are, it tells their addresses, too (`told`),
 * and peers' programs have distances from these (TT_CUDA_INPUT, TT_CUDA_RESULT).
 *
 * Messages are another kind of program (struct tt_cuda_letter). From each rank to each other one there
 * is a channel: slots in the sender's memory, which its chunks use in turn. A line in the receiver's
 * control says which chunk lies in a slot (`full`), a word in the sender's which one has been taken
 * (`freed`). Chunks of a channel are numbered from 1, by counts in memory of the GPU (`sent` and
 * `taken`). */
#ifndef TT_CUDA_KERNELS_H
#define TT_CUDA_KERNELS_H

#include <assert.h>
#include <stdint.h>

#define TT_CUDA_RANKS	     32		  /* of one host, at most */
#define TT_CUDA_HEADER	     64		  /* bytes of struct tt_op_header … */
#define TT_CUDA_HEADER_COUNT 16		  /* … and where its count is */
#define TT_CUDA_THREADS	     512	  /* of a block, at most */
#define TT_CUDA_PHASES	     4		  /* of a kernel */
#define TT_CUDA_SLOTS	     8		  /* of a channel … */
#define TT_CUDA_SLOT_BYTES   (128 * 1024) /* … of so many bytes */
#define TT_CUDA_GRACE_NS     UINT64_C(2000000000)
#define TT_CUDA_LETTERS	     (2 * TT_CUDA_RANKS) /* messages of a kernel */
#define TT_CUDA_HEADERS	     16			 /* of these, that differ in more than the count */

/* In pinned memory of the host, where it is looked at now and then. Written by the rank's own
 * kernels and streams. */
struct tt_cuda_report {
	uint64_t ended;	   /* operations that have, but for captured ones */
	uint64_t waiting;  /* 0: for nobody; otherwise a number for each wait, and for whom is in
			    * `missing` */
	uint64_t progress; /* changes when a part of a wait has ended */
	uint64_t crossed;  /* 1: that one comes only when something has crossed from another
			    * clique */
	uint64_t timeout;  /* nanoseconds that the stream's operation may wait, 0: as all;
			    * written before `waiting` */
	uint64_t passed;   /* the number of the last mark that streams came to (ahead.c) */
	uint32_t mismatch; /* 1 + the peer that called something else; 0: none. Written last */
	uint32_t abort;	   /* by the host, 1: the communicator has ended */
	uint8_t mine[TT_CUDA_HEADER], theirs[TT_CUDA_HEADER]; /* what both called */
	uint32_t missing[TT_CUDA_RANKS]; /* by kernels that wait for long: 1, this rank has not
					 * come */
};

/* 16 bytes of what is exchanged, of which every 8 are stored and loaded as one. */
struct tt_cuda_line {
	uint32_t low, number, high, again; /* the number twice, once for each half */
};

/* In memory of the GPU that all ranks of the host map. */
struct tt_cuda_control {
	uint32_t dead;
	uint32_t blocks;   /* of the kernel that runs, those that have come so far */
	uint32_t met;	   /* how often this rank has arrived … */
	uint32_t number;   /* … and of the last collective that it has called */
	uint32_t progress; /* as in the report, … */
	uint32_t letters;  /* … kernels of messages … */
	uint64_t ended;	   /* … and all operations, as in the report */
	uint32_t went;	   /* the number of the last collective for which all had told addresses */
	uint32_t looked; /* what the first block of the kernel that runs has found in report.abort;
			    * 0: it has not looked yet */
	uint32_t unused[2];				/* lines are aligned to 16 bytes */
	struct tt_cuda_line called[2][TT_CUDA_RANKS];	/* by each peer: the signatures of its last
						       * operations, of an even and an odd number */
	struct tt_cuda_line header[TT_CUDA_HEADER / 8]; /* of this rank's */
	uint64_t told[2][TT_CUDA_RANKS][2]; /* by each peer, likewise: where its input and its
					     * result are */
	uint32_t arrived[TT_CUDA_RANKS];    /* by each peer: how often it has */
	/* Of the channels from and to each peer. */
	struct tt_cuda_line full[TT_CUDA_RANKS][TT_CUDA_SLOTS]; /* by the peer: signature and number
								 * of the chunk there */
	uint32_t freed[TT_CUDA_RANKS][TT_CUDA_SLOTS]; /* by the peer: of the last one that it took
						       * from there */
	/* of this rank's message to it that begins with the chunk there */
	struct tt_cuda_line sent_header[TT_CUDA_RANKS][TT_CUDA_SLOTS][TT_CUDA_HEADER / 8];
	uint32_t sent[TT_CUDA_RANKS], taken[TT_CUDA_RANKS]; /* chunks, by this rank */
	uint32_t done[2][TT_CUDA_RANKS][TT_CUDA_SLOTS]; /* blocks that have taken, or written, the
							 * chunk there */
};

/* Where its peers' memory is in a rank's own address space. In memory of the GPU, never changed. */
struct tt_cuda_place {
	struct tt_cuda_control *control[TT_CUDA_RANKS];
	struct tt_cuda_line *lines[TT_CUDA_RANKS]; /* for exchanges: of even numbers those of each
						    * peer in order, then of odd ones */
	char *rooms[TT_CUDA_RANKS];		   /* its channels' slots, for each peer in order */
};

enum { /* tt_cuda_part.kind */
       TT_CUDA_NOTHING,

       /* Each of `nsrc` pieces: dst = src, of `bytes`. Pointers are aligned to nothing. */
       TT_CUDA_COPY,

       /* The first piece's src, of its bytes, to the dst of each of `ndst` pieces: read once where all are
	* equally aligned. */
       TT_CUDA_SPREAD,

       /* Each dst[i] = src[i] op src[i] op …, of the first `ndst` and `nsrc` pieces, divided by
	* `divisor` before it is rounded, if that is not 0: of a sum or an average alone. Scaling has
	* one source, whose elements it multiplies with the scalar. The first piece's bytes are for all.
	* Each dst may be equal to any src. Pointers are aligned to elements. */
       TT_CUDA_COMBINE,

       /* An exchange, with a piece for each rank: `out` bytes at src go there. What comes from there is,
	* by tt_cuda_copy, copied to dst, `in` bytes; by other kernels that of the first `nsrc` ranks
	* is combined into the first piece's dst, of its `in` bytes. This rank's own is at its own piece's
	* src. A piece's dst may be equal to its src. The phase is the only one. */
       TT_CUDA_EXCHANGE,

       /* Until the peers have taken all messages. */
       TT_CUDA_DRAIN
};

enum { /* tt_cuda_part.awaits */
       TT_CUDA_ALL = 1,
       TT_CUDA_ALL_AT_LAST /* also after a fault, for TT_CUDA_GRACE_NS: they may be at what the
			    * program frees then */
};

/* A place so far behind the input or the result that a rank tells: an address with an owner in its
 * first byte. That byte is 0 in addresses of GPUs, which have up to 56 bits where it is set apart. */
enum { TT_CUDA_INPUT, TT_CUDA_RESULT };
#define TT_CUDA_OWNER_BIT	      56
#define TT_CUDA_OWNER(rank, which)    (1 + 2 * (uint64_t)(rank) + (which))
#define TT_CUDA_TOLD(owner, distance) ((owner) << TT_CUDA_OWNER_BIT | (distance))
#define TT_CUDA_NOWHERE		      UINT64_MAX /* is told of what peers do not reach */

/* Addresses may be told ones (TT_CUDA_TOLD), once ranks have met, but for those of exchanges. What belongs
 * to one rank lies together: with few ranks a kernel reads few lines of the constants' cache. */
struct tt_cuda_piece {
	const void *src;
	void *dst;
	union {
		uint64_t bytes;
		struct {
			uint32_t out, in;
		}; /* of an exchange */
	};
};

struct tt_cuda_part {
	uint32_t kind;
	uint32_t nsrc, ndst;
	uint32_t divisor;
	uint32_t awaits;     /* TT_CUDA_ALL or TT_CUDA_ALL_AT_LAST: first all ranks are to have
			      * arrived as often as this one; 0: it is for nobody */
	uint32_t checks;     /* 1: and what they called is compared with what this rank did */
	uint32_t introduces; /* 1: behind it, peers are told what this rank has called */
	uint32_t arrives;    /* 1: and then this rank arrives */
	uint8_t scalar[8];   /* of the elements' type, in the first bytes */
	struct tt_cuda_piece piece[TT_CUDA_RANKS];
};

/* Who executes the program. */
struct tt_cuda_sync {
	struct tt_cuda_control *own;
	struct tt_cuda_report *report;
	const struct tt_cuda_place *place;
	uint32_t rank, ranks;
	uint32_t line_bytes; /* that are exchanged at most with one peer */
	uint32_t calls;	     /* 1: the operation is introduced by this program … */
	uint32_t check;	     /* … or has been: its number is that of the last one that was */
	uint32_t ends;	     /* 1: with the program an operation ends of which the host is told */
	uint32_t looks;	     /* 1: report.abort is looked at before anything is done */
	uint32_t tells;	     /* 1: what is introduced has these addresses of input and result */
	uint32_t maybe;	     /* 1: something is moved only where all have told theirs … */
	uint32_t follows;    /* … and by this program only where not all had */
	uint64_t told[2];
	uint64_t signature;
	uint8_t header[TT_CUDA_HEADER];
};

/* What a kernel is given. It begins with who executes it, as does a post. */
struct tt_cuda_program {
	struct tt_cuda_sync sync;
	uint32_t phases, unused;
	struct tt_cuda_part part[TT_CUDA_PHASES];
};

/* A message to or from a peer, in chunks of a slot's bytes; without bytes one chunk of nothing. */
struct tt_cuda_letter {
	void *buffer;
	uint64_t bytes;
	uint64_t signature; /* of the first chunk, of the next ones more by 1 each */
	uint64_t count;	    /* elements, for the header */
	uint16_t peer;
	uint8_t sending;
	uint8_t header; /* which of the post's this one has, but for the count */
	uint32_t unused;
};

/* What the kernel of messages is given: of each channel one at most. Their signatures and headers are
 * their own. */
struct tt_cuda_post {
	struct tt_cuda_sync sync;
	uint32_t letters, headers;
	uint8_t header[TT_CUDA_HEADERS][TT_CUDA_HEADER];
	struct tt_cuda_letter letter[TT_CUDA_LETTERS];
};

#define TT_CUDA_PARAMETERS 4096 /* bytes that a kernel may be given */
static_assert(sizeof(struct tt_cuda_program) <= TT_CUDA_PARAMETERS &&
		      sizeof(struct tt_cuda_post) <= TT_CUDA_PARAMETERS,
	      "a kernel can be given it");

#endif
