/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan: all that can be known of a collective before its buffers are: the algorithm, its
 * schedule, where blocks lie, how they are cut. */
#ifndef TT_PLAN_H
#define TT_PLAN_H

#include <assert.h>

#include "op_header.h"
#include "comm.h"
#include "layout.h"

#define TT_DEVICE_MEETING_S 5e-6 /* until all ranks have met inside a kernel (H100) */
#define TT_DEVICE_STAGE_BYTES                                                                      \
	((size_t)32 << 20) /* what a rank exposes at once of an operation on devices */

struct CUstream_st;

/* One call of the public API, all of its arguments. */
struct tt_call {
	/* What every plan is known by, without gaps (same_call() compares it as a whole). */
	enum tt_collective collective;
	tutti_dtype_t dtype;
	tutti_op_t op;	   /* -1 where there is none */
	int root;	   /* or the peer of TT_SEND_RECV; -1 where there is none */
	size_t count;	   /* of the vector, of a block, or of this rank's own block */
	uint64_t detail;   /* Tells calls apart that are alike otherwise: the part, the digest of a
			    * group; of a call with `told`, that header's signature; else the name
			    * of its elements */
	tutti_wire_t wire; /* what its elements shall travel as */
	bool on_gpu;	   /* ordered on `stream`, of CUDA */
	bool sending;	   /* TT_SEND_RECV */
	uint8_t part;	   /* enum tt_part */
	bool forgotten;	   /* of a plan: its operation was destroyed; no call is like it */
	/* TT_SEND_RECV, of the functions with a tag: it, and where a receive tells what came */
	bool tagged;
	int tag;
	tutti_message_t *message;
	const void *send;
	void *recv;
	const size_t *send_counts, *send_displs; /* [size], the _v forms only */
	const size_t *recv_counts, *recv_displs;
	union {					 /* only read while the call is started */
		const struct tt_counts *members; /* TT_PART_GROUP: the elements of each call */
		const struct tt_op_header
			*told; /* otherwise: NULL, or what peers are told and compare
					       instead: the call of which this one is a part */
	};
	uint64_t timeout_ns; /* 0: the communicator's; no part of the key of plans */
	bool of_group;	     /* what a thread says of its next call was said of the group */
	uint64_t element;    /* as in struct tt_next_call */
	const char *caller;  /* where the program says that it calls; NULL: it does not */
	bool host_buffers;   /* its buffers are known to be memory of the host: CUDA is
				     * not asked; no part of the key */
	const char *name;    /* of a one-sided call, for messages; NULL: that of its collective */
	const struct tt_window_call *one_sided; /* NULL: it is none. Otherwise TT_SEND_RECV by its
						 * buffers: what is put, or what a get fills */
	struct CUstream_st *stream;		/* of CUDA; no part of the key */
};
#define TT_CALL_KEY offsetof(struct tt_call, tagged) /* bytes */
static_assert(TT_CALL_KEY == 4 * sizeof(int) + 2 * sizeof(uint64_t) + 8, "there are no gaps");

/* The steps that use one direction of one link, in order of rounds. */
struct tt_route_entry {
	uint32_t round, step;
};

struct tt_route {
	int peer;
	bool sending;
	uint32_t first, n; /* in plan->entries */
};

/* Where bytes of an eager plan are: in a rank's payload on the control area, or in this rank's
 * buffers. */
enum { TT_IN_SEND = -1, TT_IN_RECV = -2 };
struct tt_spot {
	int32_t of; /* the rank, or one of the above */
	size_t at;  /* bytes from the beginning */
};

/* A step of an eager plan, for one block, when it is known where everything is. */
enum tt_move_kind {
	TT_MOVE_COPY,	 /* to = from */
	TT_MOVE_COMBINE, /* to = source op source …, as `step` says */
	TT_MOVE_AWAIT,	 /* until rank from.of has ended `round` */
	TT_MOVE_SHOW	 /* peers may see that this rank has ended `round` */
};
struct tt_move {
	enum tt_move_kind kind;
	uint32_t round;
	struct tt_spot to, from;
	size_t length; /* COPY: bytes; COMBINE: elements */
	const struct tt_step *step;
	const struct tt_spot *source; /* as many as the step has */
};

struct tt_plan {
	struct tt_plan *next; /* in its bucket of the cache */
	struct tt_call call;  /* the key; buffers are not part of it, tables are copies */
	uint64_t hash;
	struct tt_op_header header; /* all but seq */
	const struct tt_algorithm *algorithm;
	struct tt_sched sched;
	struct tt_layout send, recv;
	tutti_wire_t wire;	     /* what its elements travel as; 0: themselves */
	size_t element;		     /* bytes */
	size_t send_span, recv_span; /* bytes that this rank's buffers have */
	uint64_t signature;	     /* of the header, seq 0 */
	uint32_t segments;
	uint32_t window;     /* segments in flight, each with its own scratch */
	size_t slot_bytes;   /* of a scratch slot, of one segment */
	size_t stride;	     /* shared: bytes between exposed blocks */
	uint32_t exposes[3]; /* shared: so many places of this buffer at least that ranks expose */
	bool eager;	     /* shared: what is exposed fits a control area slot's payload */
	bool hot;	     /* … its hot lines even */
	bool hot_line;	     /* … the one that peers poll */
	size_t payload;	     /* … bytes of it beside the hot line */
	bool pushes;	     /* shared: to whose result access is granted may have it written by the
		      * others */
	bool posts;	     /* shared: does this rank expose anything? */
	bool one_way;	     /* shared: peers may be some operations ahead */
	bool streams;	     /* shared: results are too long for the caches, and bypass them … */
	bool streams_granted;  /* … also where access is granted */
	struct tt_move *moves; /* eager: all that is to be done, in order */
	uint32_t nmoves;
	struct tt_spot *spots; /* that are sources of moves */
	uint32_t sources;      /* of the step with most */
	uint32_t rounds;       /* on a GPU: of the rank that has most */
	struct tt_route *routes;
	uint32_t nroutes;
	struct tt_route_entry *entries;
	size_t *tables; /* copies of counts and displacements, or of a group's members … */
	struct tt_counts members; /* … which are here then */
	tt_reduce_fn *reduce;	  /* NULL for a user's operation */
	tt_average_fn *average;	  /* the last step of an average; NULL for other operations */
	tt_mean_fn *mean; /* … whose partial results are averages, too; NULL if they are sums */
	bool partial_averages; /* … or, combined by `average`, those of as many ranks each */
	const struct tt_user_op *user_op;
	uint64_t record; /* its place in the flight recorder; 0: none yet */
};

/* What a call tells peers: all but seq, and what its plan adds. */
struct tt_op_header tt_op_header_of_call(const struct tutti_comm *comm, const struct tt_call *call);
/* The counts of the call that all ranks give alike; at NULL: it has none. */
struct tt_counts tt_counts_of_call(const struct tutti_comm *comm, const struct tt_call *call);
/* The plan of a call that was checked. Lock held. */
tutti_result_t tt_plan_build(struct tutti_comm *comm, const struct tt_call *call,
			     struct tt_plan **out);
void tt_plan_free(struct tt_plan *plan); /* NULL is fine */

/* carriers.c: the names of the transports that carry it on this rank, valid while `comm` is.
 * Lock held. */
const char *tt_carriers(struct tutti_comm *comm, const struct tt_plan *plan);

/* How long the block that `ref` + k stands for is. */
static inline const struct tt_layout *tt_plan_lengths(const struct tt_plan *plan, uint8_t buffer)
{
	if (buffer == TT_BUF_RECV || plan->send.kind == TT_LAYOUT_NONE)
		return &plan->recv;
	return &plan->send;
}

/* segments.c: into how many segments blocks are cut, and how long they are. The plan's schedule
 * and layouts are there. */
tutti_result_t tt_plan_cut(const struct tutti_comm *comm, struct tt_plan *plan);
/* Into so many that all a rank exposes of one fits `span` bytes. */
tutti_result_t tt_plan_cut_into(struct tt_plan *plan, int size, size_t span);
/* Bytes of all that a rank may expose of one segment. */
size_t tt_plan_exposed_bytes(const struct tt_plan *plan, int size);
/* The offset of an exposed run's block k in a payload or staging area of a communicator of
 * `size` ranks. */
size_t tt_plan_exposed_at(const struct tt_plan *plan, int size, const struct tt_ref *ref,
			  uint32_t k);

/* moves.c: what an eager plan does. All else of it is there. */
tutti_result_t tt_plan_settle(struct tt_plan *plan, int rank, int size);

#define TT_LINK_SEGMENT_BYTES                                                                      \
	(128u * 1024) /* of one block: streams through the rounds, fits the caches */

/* What pipelined algorithms over links cut blocks into. */
static inline size_t tt_plan_link_segment(const struct tutti_comm *comm)
{
	return comm->settings.segment_bytes ? comm->settings.segment_bytes : TT_LINK_SEGMENT_BYTES;
}

/* combine.c: the kernels that the plan's operation takes. Its call, wire, algorithm and user_op are
 * there. */
void tt_combine_choose(const struct tt_kernels *kernels, struct tt_plan *plan);
/* dst = src[0] op src[1] op …, as the step says, which is a REDUCE or a RECV_REDUCE. */
void tt_combine(const struct tt_plan *plan, int ranks, const struct tt_step *step, void *dst,
		const void *const *src, unsigned nsrc, size_t elements);

/* tuner.c: the algorithm for a call of `bytes`, and what its elements travel as (0: themselves).
 * NULL: none can. */
struct tt_choice {
	const struct tt_algorithm *algorithm;
	tutti_wire_t wire;
};
tutti_result_t tt_tuner_choose(struct tutti_comm *comm, const struct tt_group *group,
			       const struct tt_call *call, double bytes, struct tt_choice *out);

/* The same on a GPU, of those that read shared memory. */
void tt_tuner_choose_on_gpu(struct tutti_comm *comm, const struct tt_group *group,
			    const struct tt_call *call, double bytes,
			    const struct tt_algorithm **out);

#endif
