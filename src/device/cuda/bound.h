/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator has on a GPU: memory that the ranks of its host map of each other, and the
 * thread that releases kernels and streams which wait for each other when the communicator ends. */
#ifndef TT_CUDA_BOUND_H
#define TT_CUDA_BOUND_H

#include <pthread.h>
#include <stdbool.h>

#include "comm.h"
#include "cuda/driver.h"
#include "cuda/kernels.h"
#include "cuda/module.h"
#include "plan.h"
#include "tutti/cuda.h"

#define TT_CUDA_STAGE_BYTES TT_DEVICE_STAGE_BYTES /* what a rank exposes at once */
#define TT_CUDA_ROOM_BYTES  ((size_t)TT_CUDA_SLOTS * TT_CUDA_SLOT_BYTES) /* of one channel */
#define TT_CUDA_LINES_BYTES ((size_t)4 << 20) /* of what peers exchange with a rank */
#define TT_LINE_DATA	    8		      /* bytes of a line; there are two sets of lines */

struct tt_cuda_watchdog;
struct tt_cuda_proxy;
struct tt_cuda_hierarchy;
struct tt_cuda_offer;

/* Another rank's segments (segments.h), as they are mapped here, one behind the other. */
struct tt_cuda_mapping {
	cuda_address base; /* of a range that is reserved; 0: none */
	uint64_t span, mapped;
	uint32_t n; /* segments */
};

/* The memory of one rank, as this one addresses it. */
struct tt_cuda_peer {
	cuda_address memory; /* 0: not there */
	cuda_address opened; /* the allocation that it is in, by an IPC handle; 0: not opened */
	struct tt_cuda_mapping mapping;
	bool held; /* of the same process: it stays until this rank lets it go (peer_access.h) */
	bool elsewhere; /* on another GPU than this rank's. Of what communicators have; not of
			 * windows */
};

/* What the memory has that a rank shares with others. */
struct tt_cuda_shared {
	_Alignas(4096) struct tt_cuda_control control;
	_Alignas(4096) struct tt_cuda_place place;
	_Alignas(4096) struct tt_cuda_line lines[TT_CUDA_LINES_BYTES / sizeof(struct tt_cuda_line)];
	uint8_t stage[TT_CUDA_STAGE_BYTES];
	char rooms[][TT_CUDA_ROOM_BYTES]; /* for each rank of the communicator */
};

struct tt_cuda {
	struct tutti_comm *comm;
	struct tutti_comm *owner; /* whose operations these are, and whose fault ends them:
				   * `comm`, or the one of which `comm` is a clique … */
	int named[TT_CUDA_RANKS]; /* … where the clique's ranks have these numbers */
	int number;		  /* of the device */
	cuda_device device;
	struct CUctx_st *context; /* the primary one; NULL: not retained */
	struct tt_cuda_module module;
	uint32_t line_bytes; /* that two ranks exchange at most */
	unsigned blocks;     /* that its kernels have at most, which run at once with those of other
			  * threads on the same GPU */
	bool one_process;    /* all ranks are threads of one … */
	bool one_gpu;	     /* … and have one GPU */
	bool warned;	     /* of memory that is not reached; behind `order` */
	size_t bytes;	     /* of the memory of each rank */
	struct tt_cuda_peer peer[TT_CUDA_RANKS]; /* this rank too */
	struct tt_cuda_report *report;
	struct tutti_cuda_window *windows; /* that are registered; behind `order` */
	uint64_t windows_made;
	/* Order: whatever the streams, operations of one communicator come one after the other.
	 * `order` is held while one is put on its stream, and the communicator's lock is not:
	 * CUDA may keep a thread waiting there, for what only a look at the communicator can
	 * end. Taken before that lock. */
	pthread_mutex_t order;
	/* recorded behind the last one; before that nobody who waits for it waits */
	struct CUevent_st *last;
	unsigned long long last_stream; /* by its id, which no other one ever has */
	uint64_t calls;			/* numbered, for messages of errors */
	uint64_t waits;	     /* that have kernels on streams which report that they have ended;
			      * nothing captured yet */
	uint64_t works;	     /* put on streams, about; behind `order`, as what is above */
	uint64_t longest_ns; /* the longest deadline that a call has had of its own; 0: none */
	uint64_t noted;	     /* the number of the last call in the flight recorder; changed while
			      * `order` is held and the watchdog knows that something is being
			      * put */
	struct CUstream_st *setup; /* the library's own, for what is written at the beginning and
				    * awaited at the end */
	struct tt_cuda_watchdog *watchdog;
	struct tt_cuda_proxy *proxy; /* the way by the host, where the GPUs cannot all reach
					* each other; then there is no memory above */
	struct tt_cuda_hierarchy
		*hierarchy; /* where some can: operations on two levels; otherwise NULL */
};

/* bind.c */
/* What this rank has on its GPU with those of `comm`, a clique of `whole`, whose numbers there are
 * `named`: it has no watchdog, as that of `whole` looks after it, too. All of them call; the same
 * result on all. */
tutti_result_t tt_cuda_bind_clique(struct tutti_comm *comm, const struct tt_cuda *whole,
				   const int *named, struct tt_cuda **out);
/* `unused`: nobody is at what it has. Otherwise, or where the context is gone, all that CUDA knows of
 * is kept: streams may still need it. NULL is fine. */
void tt_cuda_free(struct tt_cuda *cuda, bool unused);
void tt_cuda_unbind(struct tutti_comm *comm); /* unbind of struct tt_device */

/* enqueue.c: start of struct tt_device */
tutti_result_t tt_cuda_start(struct tutti_comm *comm, const struct tt_call *const *calls, size_t n);

struct tt_cuda_op;
/* The plan is kept until the next operation has its own. */
tutti_result_t tt_cuda_get_plan(struct tt_cuda_op *op, const struct tt_call *call);

/* One operation while it is put on a stream. */
struct tt_cuda_op {
	struct tt_cuda *cuda;
	struct CUstream_st *stream;
	bool captured;		    /* the stream is: what is put there goes into a graph */
	uint64_t timeout_ns;	    /* that tutti_next_call() gave it; 0: the communicator's */
	const struct tt_plan *plan; /* of a collective through stages */
	const struct tt_call *call;
	struct tt_op_header header;
	uint64_t signature;
	bool direct;	    /* peers read its input and write its result where they are … */
	cuda_address at[2]; /* (TT_CUDA_INPUT and TT_CUDA_RESULT) … */
	const struct tutti_cuda_window *window[2]; /* … in windows … */
	bool tells;				   /* … or where this rank tells; … */
	bool maybe;   /* … but not all may be reached, and then it goes by stages … */
	bool follows; /* … which are put on the stream now */
	bool checks;  /* peers have been told what this rank called … */
	bool calls;   /* … or are by the program that is being filled */
	struct CUfunc_st *function; /* by which it is launched; NULL: by one that copies */
	uint64_t work;		    /* bytes that it moves, in the longest phase */
	struct tt_cuda_program program;
};

/* By a stream, to pinned memory. */
static inline union CUstreamBatchMemOpParams_union tt_cuda_write_flag(const void *flag,
								      uint64_t value)
{
	union CUstreamBatchMemOpParams_union op = { .pad = { 0 } };

	op.writeValue.operation = CUDA_MEM_OP_WRITE_64;
	op.writeValue.address = cuda_at(flag);
	op.writeValue.value64 = value;
	return op;
}

/* What kernels and streams write, also while it is read. */
static inline uint64_t tt_cuda_read_flag(const uint64_t *flag)
{
	/* acquire: what was written or copied before is there; pairs with the kernels' fence to the
	 * system before their last store */
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* programs.c: kernels, copies by engines, and what the watchdog is told */
/* Does the host see what a stream writes to pinned memory? Blocks. */
tutti_result_t tt_cuda_try_report(struct tt_cuda *cuda);
/* When the stream has come so far, this is in the report. */
cuda_result tt_cuda_report(const struct tt_cuda_op *op, uint64_t *reported, uint64_t value);
/* Add to the round's work. A copy joins those before it where they do not touch. */
cuda_result tt_cuda_copy(struct tt_cuda_op *op, cuda_address dst, cuda_address src, size_t bytes);
/* The same, from the stage of rank `from`, perhaps by an engine. */
cuda_result tt_cuda_copy_from(struct tt_cuda_op *op, int from, cuda_address dst, cuda_address src,
			      size_t bytes);
/* A round's work on its own, by `function`; NULL: by any that copies. */
cuda_result tt_cuda_add_part(struct tt_cuda_op *op, struct CUfunc_st *function,
			     const struct tt_cuda_part *part);
/* Put there what is pending. */
cuda_result tt_cuda_flush(struct tt_cuda_op *op);
/* What is exchanged with the peers: the whole operation, as `part` says. */
cuda_result tt_cuda_exchange_lines(struct tt_cuda_op *op, struct CUfunc_st *function,
				   const struct tt_cuda_part *part, uint64_t bytes);
/* Its letters, by one kernel. */
cuda_result tt_cuda_launch_post(struct tt_cuda_op *op, struct tt_cuda_post *post);

/* An operation in rounds begins when all ranks have ended the one before. */
void tt_cuda_begin_rounds(struct tt_cuda_op *op);
/* Everybody learns that this rank has ended the round; then the wait for all, unless it was the
 * last. */
cuda_result tt_cuda_end_round(struct tt_cuda_op *op, int round, int rounds);
/* The wait for all after the last one; `drains`: until nobody is at this rank's memory, for what is on
 * the stream. */
cuda_result tt_cuda_await_end(struct tt_cuda_op *op, bool drains);

/* ahead.c: `works` are about to be put on the stream. Waits where too much is there that has not
 * been done. */
cuda_result tt_cuda_make_room(struct tt_cuda_op *op, unsigned works);

/* exchanges.c, stages.c, direct.c, messages.c: put an operation on its stream */
/* Elements of the call's longest block, of which a _v form has others: the same on all ranks. */
size_t tt_cuda_longest_block(const struct tutti_comm *comm, const struct tt_call *call);
/* Is it short enough, on all ranks alike? */
bool tt_cuda_fits_lines(const struct tt_cuda_op *op);
cuda_result tt_cuda_by_lines(struct tt_cuda_op *op);
cuda_result tt_cuda_by_stages(struct tt_cuda_op *op);
/* Do all ranks reach the buffers that the call has on this one, such that it can do without stages?
 * Where that is by windows, `op->header.detail` says by which. */
bool tt_cuda_goes_directly(struct tt_cuda_op *op);
cuda_result tt_cuda_by_direct(struct tt_cuda_op *op);
struct tt_cuda_message {
	const struct tt_call *call; /* of which it is a part */
	bool sending;
	int peer;
	cuda_address buffer;
	size_t bytes, done;
	uint32_t chunks;
};
cuda_result tt_cuda_messages(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n);

/* host_staged.c: the same where the ranks' GPUs do not all reach each other */
tutti_result_t tt_cuda_collective_host_staged(struct tt_cuda_op *op);
tutti_result_t tt_cuda_messages_host_staged(struct tt_cuda_op *op, struct tt_cuda_message *messages,
					    size_t n);

/* windows.c */
/* `frees`: the context is there, and nobody uses them; otherwise what CUDA has of them is kept. */
void tt_cuda_windows_free(struct tt_cuda *cuda, bool frees);

/* watchdog.c */
/* Learn of faults that the communicator's own kernels have found. Cheap, asks nothing of CUDA's.
 * Lock held. */
void tt_cuda_learn(struct tt_cuda *cuda);
/* Its thread keeps the communicator's context current. */
tutti_result_t tt_cuda_watchdog_begin(struct tt_cuda *cuda);
/* No watchdog is fine. */
void tt_cuda_watchdog_end(struct tt_cuda *cuda);
/* From here on, and until it is called again with false, something is being put on a stream,
 * where CUDA may keep the thread waiting. `captured`: into a graph, which may run at any time from
 * now on. */
void tt_cuda_watchdog_putting(struct tt_cuda *cuda, bool putting, bool captured);
/* Look soon, and as long as something is on a stream. */
void tt_cuda_watchdog_busy(struct tt_cuda *cuda);
/* context.c: the context of the communicator for a time */
struct tt_cuda_entered {
	bool there;
	unsigned mode; /* the thread's for captures */
};
/* For a call on `stream`: the thread's context is the communicator's, or it has none, and the
 * stream is of it. TUTTI_ERR_INVALID otherwise. */
tutti_result_t tt_cuda_enter_for(const struct tt_cuda *cuda, const char *call,
				 struct CUstream_st *stream, struct tt_cuda_entered *entered);
/* For the library's own work, whatever the thread's context is. Captures, of this thread or
 * others, are not concerned: what CUDA forbids while they last is made to be allowed, as it is
 * done to memory and streams that are none of theirs. */
cuda_result tt_cuda_enter(struct CUctx_st *context, struct tt_cuda_entered *entered);
void tt_cuda_leave(struct tt_cuda_entered *entered);

/* Copies, and waits until that is done. */
cuda_result tt_cuda_copy_now(const struct tt_cuda *cuda, cuda_address dst, cuda_address src,
			     size_t bytes);

/* Of a rank, for GPUs alone. */
static inline struct tt_cuda_shared *tt_cuda_shared_of(const struct tt_cuda *cuda, int rank)
{
	return cuda_pointer(cuda->peer[rank].memory);
}

static inline cuda_address tt_cuda_stage_of(const struct tt_cuda *cuda, int rank)
{
	return cuda_at(tt_cuda_shared_of(cuda, rank)->stage);
}

#endif
