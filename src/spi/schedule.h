/* SPDX-License-Identifier: BSD-3-Clause */
/* The seam between algorithms and the runtime: an algorithm is a pure function of rank and size
 * that writes a schedule, and the executor moves the bytes.
 *
 * Blocks. Buffers are seen as numbered blocks, whose bytes only the runtime knows:
 *   collective          send blocks               recv blocks
 *   broadcast           vector (root only)        vector
 *   reduce              vector                    vector (root only)
 *   all_reduce, scan,
 *   exscan              vector                    vector
 *   barrier             none: one empty vector block, so that its messages carry headers only
 *   reduce_scatter(_v)  0 … P-1                   `rank` only
 *   all_gather(_v)      `rank` only               0 … P-1
 *   gather(_v)          `rank` only               0 … P-1 (root only)
 *   scatter(_v)         0 … P-1 (root only)       `rank` only
 *   all_to_all(_v)      0 … P-1 (r: for rank r)   0 … P-1 (r: from rank r)
 *   send_recv           0 (if sending)            0 (if receiving)
 * A vector is cut by tt_sched_blocks() into as even blocks as elements allow (some may be
 * empty). Scratch holds slots, each as large as the largest block; a message there is as long as
 * the block it stands for. Block lengths of a _v collective differ; gather_v, scatter_v and
 * all_to_all_v know only their own row of lengths, so their algorithms move each block straight
 * from its source to its target.
 *
 * Rounds. tt_round() ends a round. Within a round, first its local steps (reduce, copy) run in
 * the order written, then its sends and receives, all at once; a round begins when the one
 * before it has ended on this rank. A send in round k meets a receive in round k of the peer;
 * several between the same two ranks meet in the order written. A rank may write empty rounds;
 * trailing ones need not be written.
 *
 * In place. send and recv may be the same memory for broadcast (root), reduce (root),
 * all_reduce, scan and exscan, and a rank's own block for the others (all_to_all excepted: the
 * runtime then hands over a copy of the input). So no schedule reads a send block after it wrote
 * the recv block of the same number.
 *
 * Shared schedules (struct tt_algorithm.shared) are for ranks that can all read each other's
 * memory. They have no sends and receives; sources and targets name a peer. In round k a rank
 * may read of a peer what the peer exposed in a round before k: the executor waits for that peer
 * to have ended its round k-1, so the ranks' rounds correspond. A shared schedule has three
 * rounds at most, and none that reads of a peer in a round that the peer has no round before. An
 * exposed run is not written again in the same schedule, and the executor keeps it as it is
 * until all readers have ended: no schedule waits for its readers. An all-reduce that exposes of
 * its recv exposes there what it has just combined of the same blocks of everybody's send, which
 * nobody else reads, and the others do nothing with it but copy it to the same place: so it may
 * be written there at once. The executor runs the steps of a shared round over small chunks so
 * that bytes are touched while they are in cache: element i of a step depends on element i only
 * of the steps before it in the round. */
#ifndef TT_SPI_SCHEDULE_H
#define TT_SPI_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum tt_collective {
	TT_BROADCAST,
	TT_REDUCE,
	TT_ALL_REDUCE,
	TT_REDUCE_SCATTER,
	TT_ALL_GATHER,
	TT_GATHER,
	TT_SCATTER,
	TT_ALL_TO_ALL,
	TT_REDUCE_SCATTER_V,
	TT_ALL_GATHER_V,
	TT_GATHER_V,
	TT_SCATTER_V,
	TT_ALL_TO_ALL_V,
	TT_SCAN,
	TT_EXSCAN,
	TT_BARRIER,
	TT_SEND_RECV, /* point to point; not an algorithm's business */
	TT_COLLECTIVE_COUNT
};

#define TT_BIT(collective) (1u << (collective))

/* The ranks that take part, seen from one of them. */
struct tt_group {
	int rank, size;
	int root;	 /* -1 where the collective has none */
	const int *host; /* [size]: number of the host each rank is on, in order of first
			  * appearance */
	int hosts;	 /* how many */
	/* Of ranks that share memory: the domain of each, numbered likewise: those of one reach
	 * each other's lines by a cache, or at least by the memory, that they have in common.
	 * NULL: the ranks are on several hosts, or their memory is that of GPUs. */
	const int *domain;
	int domains; /* 1: also where nothing is known of them */
};

/* How much longer it takes to read a line of a rank of another domain: twice as long between
 * the sockets of a Haswell-EP (D. Molka et al., ICPP 2015), more between those of others. */
#define TT_FAR_LINE 2

enum tt_buffer { TT_BUF_SEND, TT_BUF_RECV, TT_BUF_SCRATCH };

/* Where a run of consecutive blocks begins. In send and recv the place is the block's own. */
struct tt_ref {
	uint8_t buffer; /* enum tt_buffer */
	uint32_t slot;	/* place in the buffer */
	uint32_t block; /* whose length it has */
};

static inline struct tt_ref tt_in(int block)
{
	return (struct tt_ref){ TT_BUF_SEND, (uint32_t)block, (uint32_t)block };
}

static inline struct tt_ref tt_out(int block)
{
	return (struct tt_ref){ TT_BUF_RECV, (uint32_t)block, (uint32_t)block };
}

static inline struct tt_ref tt_tmp(int slot, int block)
{
	return (struct tt_ref){ TT_BUF_SCRATCH, (uint32_t)slot, (uint32_t)block };
}

enum tt_step_kind {
	TT_STEP_SEND,	     /* `a` to `peer` */
	TT_STEP_RECV,	     /* `a` from `peer` */
	TT_STEP_RECV_REDUCE, /* a = b op incoming (or, `left`, incoming op b), from `peer` */
	TT_STEP_REDUCE,	     /* a = source op source …, of the `sources` steps that follow; one:
			      * a copy; in place any one of them may be `a` itself */
	TT_STEP_SOURCE,	     /* `a` of `peer` (the rank itself unless the schedule is shared) */
	TT_STEP_EXPOSE,	     /* shared: from the next round on peers may read `a` */
	TT_STEP_AWAIT, /* shared: begin the round only when `peer` has ended its previous round */
};

struct tt_step {
	uint8_t kind;	  /* enum tt_step_kind */
	uint8_t left;	  /* RECV_REDUCE: the incoming operand is the left one */
	uint8_t final;	  /* REDUCE, RECV_REDUCE: `a` now holds every rank's contribution */
	uint16_t sources; /* REDUCE: how many SOURCE steps follow; SOURCE: its number, from 1 */
	int32_t peer;
	uint32_t n;	       /* blocks in the run */
	uint32_t mine, theirs; /* RECV_REDUCE: ranks whose contributions `b`, the message holds */
	struct tt_ref a, b;
};

/* A finished schedule. Round k is steps[round[k]] … steps[round[k + 1] - 1]. */
struct tt_sched {
	struct tt_step *steps;
	uint32_t nsteps, steps_capacity;
	uint32_t *round; /* [nrounds + 1] */
	uint32_t nrounds, rounds_capacity;
	uint32_t blocks;	/* a vector is cut into so many */
	uint32_t scratch_slots; /* used */
	tutti_result_t error;	/* the first one met while building */
	void *memory;		/* tt_sched_memory() */
	int rank, size;
};

/* What an algorithm costs on its longest path, for the tuner. `bytes` below are those of the
 * whole vector, or of one rank's block times the size for the collectives of blocks. */
struct tt_cost {
	double messages[2]; /* one after another, [0] within a host, [1] between hosts */
	double bytes[2];    /* through one rank's links, likewise */
	double reduced;	    /* bytes combined by one rank */
	double in_place;    /* of those, the ones that are combined where they arrive on a link */
	double again;	    /* of bytes[0], those of a vector that was sent to another just
			     * before and may still be in a cache */
	double awaited;	    /* bytes that others expose while one rank can do nothing but wait
			     * for them */
	double syncs;	    /* shared: times that a rank waits for others … */
	double peers[2];    /* … and of how many it reads in all rounds, or how many read of it,
			     * whichever is more: [0] of its domain, [1] of others */
	double calls[2];    /* messages that one rank sends or receives at once with one of the
			     * above, likewise … */
	double gathered[2]; /* … and of those, the ones that one rank only receives: it is woken
			     * for all of them together */
	double crossing;    /* ranks of one host that move so many bytes between hosts at the
			     * same time, at most; they share its network; 0: one */
	double far_way;	    /* where blocks take turns on the links between hosts: the share of
			     * bytes[1] that is on the way of one of them; 0: they do not */
	double fill;	    /* pipelined: how often a segment more than those in `bytes` and
			     * `reduced` is passed on before all ranks are at work … */
	double segmented;   /* … and the bytes of the block that is cut into segments */
};

/* Everything the runtime knows of an algorithm. Tables are const and filled by field name.
 * Groups have two ranks at least in `build` and `cost`: for one alone the runtime does without. */
struct tt_algorithm {
	const char *name;
	bool shared;	/* needs all ranks to share memory */
	bool ordered;	/* combines in rank order from 0 up, whatever the size */
	bool one_fold;	/* combines all contributions to an element in one step, rounding once;
			 * the others combine two operands at a time, by tt_recv_reduce(), or twice
			 * as many as there are, each time of as many ranks … */
	bool two_folds; /* … on each host and between hosts, where sums may be narrow */
	bool pipelined; /* long vectors are worth cutting into segments that follow each other */
	/* Can it do this group? Pure, and the same answer on every rank. */
	bool (*fits)(const struct tt_group *group, enum tt_collective collective);
	/* Writes the schedule: one for each collective that it can do. */
	void (*build[TT_COLLECTIVE_COUNT])(struct tt_sched *sched, const struct tt_group *group);
	/* Pure, and the same answer on every rank: `rank` must not matter. */
	struct tt_cost (*cost)(const struct tt_group *group, enum tt_collective collective,
			       double bytes);
};

static inline bool tt_algorithm_can(const struct tt_algorithm *algorithm,
				    enum tt_collective collective)
{
	return algorithm->build[collective];
}

/* The schedule of the group's rank, also of a group of one. tt_sched_fini() frees it, whatever
 * the result. */
tutti_result_t tt_sched_build(struct tt_sched *sched, const struct tt_algorithm *algorithm,
			      const struct tt_group *group, enum tt_collective collective);

/* ---- the builder: keeps the first error for tt_sched_finish(), so that a body stays the
 * algorithm */

void tt_sched_init(struct tt_sched *sched, int rank, int size);
tutti_result_t tt_sched_finish(struct tt_sched *sched);
void tt_sched_fini(struct tt_sched *sched); /* frees what it holds; zeroed is fine */

/* Zeroed memory that an algorithm may need while it builds, once in a schedule; NULL after an
 * error. */
void *tt_sched_memory(struct tt_sched *sched, size_t bytes);

/* Cut the vector into `blocks`; 1 if never called. */
void tt_sched_blocks(struct tt_sched *sched, int blocks);

void tt_send(struct tt_sched *sched, int peer, struct tt_ref run, int n);
void tt_recv(struct tt_sched *sched, int peer, struct tt_ref run, int n);
/* dst = with op incoming */
void tt_recv_reduce(struct tt_sched *sched, int peer, struct tt_ref dst, struct tt_ref with, int n);
/* dst = incoming op with */
void tt_recv_reduce_left(struct tt_sched *sched, int peer, struct tt_ref dst, struct tt_ref with,
			 int n);
/* A copy of a block onto itself (in place) costs nothing. */
void tt_copy(struct tt_sched *sched, struct tt_ref dst, struct tt_ref src, int n);
void tt_copy_from(struct tt_sched *sched, struct tt_ref dst, int peer, struct tt_ref src, int n);
/* dst = the sources given by the tt_source() calls that follow, combined in that order */
void tt_reduce(struct tt_sched *sched, struct tt_ref dst, int n);
void tt_source(struct tt_sched *sched, int peer, struct tt_ref src);
/* The step just written (tt_recv_reduce, or tt_reduce with its sources) completes its blocks:
 * the one place where an average is divided. Every output block passes exactly one such step;
 * those of scan and exscan, none. */
void tt_final(struct tt_sched *sched);
/* The step just written, a tt_recv_reduce(), combines the contributions of `mine` ranks with
 * those of `theirs` others. Of short floats partial averages travel, not sums, which could
 * overflow; so every such step of a reduction must say it, those of scan and exscan excepted:
 * they have no average. */
void tt_weigh(struct tt_sched *sched, int mine, int theirs);
void tt_expose(struct tt_sched *sched, struct tt_ref run, int n);
void tt_await(struct tt_sched *sched, int peer);
void tt_round(struct tt_sched *sched);

/* Runs of blocks that wrap round at `size`: two steps where needed. */
void tt_send_wrapped(struct tt_sched *sched, int peer, struct tt_ref run, int n);
void tt_recv_wrapped(struct tt_sched *sched, int peer, struct tt_ref run, int n);

/* Remainder in 0 … size-1, also of negative ranks. */
static inline int tt_mod(int rank, int size)
{
	const int r = rank % size;

	return r < 0 ? r + size : r;
}

#endif
