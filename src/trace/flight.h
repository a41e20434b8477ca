/* SPDX-License-Identifier: BSD-3-Clause */
/* What the flight recorder keeps of a communicator on one rank, in a mapping that outlives the
 * process: the last operations, and what their plans determine.
 *
 * One thread writes at a time (the communicator's lock is held); anybody may read at any moment:
 * a signal's handler while the writer stands anywhere, another process after a SIGKILL. So what
 * is being written is always known to be: an operation's number is 0 meanwhile, and a plan's
 * record counts once its own place is in it. All words are atomics for that reader alone; no
 * fence is needed but the compiler's on x86. */
#ifndef TT_FLIGHT_H
#define TT_FLIGHT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op_header.h"

#define TT_FLIGHT_MAGIC 0x3654484749544c46ull /* bytes and meaning of all below */
#define TT_FLIGHT_OPS	4096u		      /* operations kept */
#define TT_FLIGHT_PLANS (128u * 1024)	      /* bytes for plans */
#define TT_FLIGHT_OPS_FIRST                                                                        \
	1024u /* operations and bytes of plans for which there is memory from the start */
#define TT_FLIGHT_PLANS_FIRST (16u * 1024)
#define TT_FLIGHT_PLAN_MAX    (TT_FLIGHT_PLANS / 4) /* bytes of a plan's record */
#define TT_FLIGHT_PLACES      64u		    /* a plan's record begins at a multiple of it */
#define TT_FLIGHT_PATH	      384
#define TT_FLIGHT_STREAMS     256u /* calls on streams kept */
#define TT_FLIGHT_CALLERS     256u /* operations of which it is kept where they were called … */
#define TT_FLIGHT_CALLER      248u /* … and bytes of that, with a 0 at the end */

enum tt_flight_kind {
	TT_FLIGHT_COLLECTIVE,
	TT_FLIGHT_SEND,
	TT_FLIGHT_RECV,
	/* in the order of enum tt_one_sided_kind */
	TT_FLIGHT_PUT,
	TT_FLIGHT_GET,
	TT_FLIGHT_FETCH_ADD,
	TT_FLIGHT_FLUSH,
	TT_FLIGHT_WAIT_SIGNAL,
	TT_FLIGHT_KINDS
};

/* One operation, on one line. Times are ticks (tt_ticks()); 0: not yet. */
struct tt_flight_op {
	_Alignas(64) _Atomic uint64_t number; /* from 1, over all the communicator's operations;
					       * 0: being written. release: pairs with the
					       * acquire in tt_flight_read_op() */
	_Atomic uint64_t seq;		      /* the header's */
	_Atomic uint64_t posted, first;
	_Atomic uint64_t done; /* release: pairs with the acquire in tt_flight_read_op(), for
				* `result` */
	_Atomic uint64_t what; /* a collective: place of its plan's record, 0 for none; a
				* message: elements */
	_Atomic int32_t peer;  /* of a message, or a one-sided call; -1: all, or any */
	_Atomic int16_t result;
	_Atomic uint8_t kind;  /* enum tt_flight_kind */
	_Atomic uint8_t dtype; /* of a message */
};
static_assert(sizeof(struct tt_flight_op) == 64, "one line for an operation");

enum tt_flight_way {
	TT_FLIGHT_STAGES,
	TT_FLIGHT_DIRECT,
	TT_FLIGHT_ROOMS,
	TT_FLIGHT_BY_HOST,
	TT_FLIGHT_CLIQUES,
	TT_FLIGHT_LINES,
	TT_FLIGHT_WAYS
};

/* The two lines below are written and read as words, of which the first is the number, 0 while the
 * others are written. */

/* One call on a stream, on one line. */
struct tt_flight_stream {
	uint64_t number; /* from 1, over all the communicator's calls on streams */
	uint64_t posted;
	uint64_t count;
	uint64_t sequence;	/* from 1, over collectives alone; 0: it is none */
	_Atomic uint64_t waits; /* that the streams have ended when it has, 0: they do not tell */
	int32_t op;
	int32_t root; /* or the peer */
	int16_t device;
	uint8_t kind; /* enum tt_flight_kind */
	uint8_t collective;
	uint8_t dtype;
	uint8_t way; /* enum tt_flight_way */
	uint8_t captured;
	uint8_t spare[9];
};
static_assert(sizeof(struct tt_flight_stream) == 64, "one line for a call");

/* Where in the program an operation was called, if the program says it. */
struct tt_flight_caller {
	uint64_t number; /* the operation's */
	char text[TT_FLIGHT_CALLER];
};

/* What an operation moves from and to a peer. */
struct tt_flight_peer {
	uint64_t rank, sent, received;
};

/* What a plan determines. Records follow each other in a ring of bytes; a place in it only
 * grows. */
struct tt_flight_plan {
	uint64_t place; /* its own; written last */
	uint64_t npeers, peers_left_out;
	struct tt_op_header header; /* seq 0; struct tt_flight_peer[npeers] follow */
};
static_assert(sizeof(struct tt_flight_plan) % 8 == 0 && sizeof(struct tt_flight_peer) % 8 == 0,
	      "records are words");

struct tt_flight {
	uint64_t magic;
	char version[24]; /* of the library: names of algorithms are numbers here */
	uint64_t comm_id;
	int32_t rank, size;
	int32_t pid;
	int32_t counter;  /* ticks are the processor's, not nanoseconds */
	int32_t launched; /* the process' rank by its launcher, -1: unknown */
	int32_t unused;
	uint64_t boot;		   /* ticks of another boot say nothing */
	uint64_t ticks, monotonic; /* taken together when the mapping was made */
	char job[64], host[64], hostname[64], transports[64];
	char report[TT_FLIGHT_PATH]; /* where the report goes; "": nowhere */
	uint64_t private;	     /* … into a directory of this user alone */
	struct tt_fault fault;	     /* result last */
	_Atomic uint64_t plans_end;  /* place behind the last plan's record; grows before the
				      * record is written */
	/* number n at n modulo their count */
	_Alignas(4096) struct tt_flight_op ops[TT_FLIGHT_OPS];
	_Alignas(4096) _Atomic uint64_t plans[TT_FLIGHT_PLANS / 8];
	/* On streams; there is memory for it from the first of them on. Number n at n modulo
	 * their count. Nothing there says when one has ended, but what has been seen since: all
	 * up to a number have, or so many waits, of which each has some. */
	_Alignas(4096) struct tt_flight_stream streams[TT_FLIGHT_STREAMS];
	/* Likewise of what programs say of their operations. */
	_Alignas(4096) struct tt_flight_caller callers[TT_FLIGHT_CALLERS];
	_Atomic uint64_t streams_ended, streams_waits;
};

/* A copy of the operation with this number; false: it is gone, or not yet whole. */
static inline bool tt_flight_read_op(const struct tt_flight *flight, uint64_t number,
				     struct tt_flight_op *out)
{
	const struct tt_flight_op *op = &flight->ops[number % TT_FLIGHT_OPS];

	/* acquire: pairs with the release in tt_recorder_begin() */
	if (atomic_load_explicit(&op->number, memory_order_acquire) != number)
		return false;
	/* acquire: pairs with the release in tt_recorder_done() */
	atomic_init(&out->done, atomic_load_explicit(&op->done, memory_order_acquire));
	atomic_init(&out->seq, atomic_load_explicit(&op->seq, memory_order_relaxed));
	atomic_init(&out->posted, atomic_load_explicit(&op->posted, memory_order_relaxed));
	atomic_init(&out->first, atomic_load_explicit(&op->first, memory_order_relaxed));
	atomic_init(&out->what, atomic_load_explicit(&op->what, memory_order_relaxed));
	atomic_init(&out->peer, atomic_load_explicit(&op->peer, memory_order_relaxed));
	atomic_init(&out->result, atomic_load_explicit(&op->result, memory_order_relaxed));
	atomic_init(&out->kind, atomic_load_explicit(&op->kind, memory_order_relaxed));
	atomic_init(&out->dtype, atomic_load_explicit(&op->dtype, memory_order_relaxed));
	atomic_init(&out->number, number);
	/* acquire: pairs with the release fence in tt_recorder_begin(), should it have begun to
	 * write again */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&op->number, memory_order_relaxed) == number;
}

/* The same of a call on a stream, or of where operation `number` was called, whose line this is; 0
 * is none. */
bool tt_flight_read_line(const void *line, uint64_t number, void *out, size_t bytes);
/* A copy of the record at `place`, its peers alone; false: it was written over. */
bool tt_flight_read_plan(const struct tt_flight *flight, uint64_t place,
			 struct tt_flight_plan *out);
/* Its peer i; garbage once the record was written over, which a tt_flight_read_plan() behind it
 * tells. */
struct tt_flight_peer tt_flight_read_peer(const struct tt_flight *flight, uint64_t place,
					  uint64_t i);

/* flight_report.c: write what `flight` holds as a report (flight_report.h) to where it says,
 * replacing what is there only once it is whole. `why` tells what for. Safe in a signal's handler,
 * and while the writer goes on. False: errno tells. */
bool tt_flight_write(const struct tt_flight *flight, const char *why);

/* flight_place.c: make the directory unless it is there. `private`: it must be this user's
 * alone. False: errno tells, EPERM for one that is not. Safe in a signal's handler. */
bool tt_flight_have_directory(const char *path, bool private);

/* Where the mapping of a rank and its report lie. */
struct tt_flight_place {
	char ring[TT_FLIGHT_PATH];   /* "": in memory of the process only */
	char report[TT_FLIGHT_PATH]; /* "": nowhere */
	bool private; /* the report's directory is the default one, where strangers may have been
		       * before */
};
/* By the setting `trace` ("" for the default, "off", or a directory). Says in the log where
 * something else is done than asked for. */
void tt_flight_find_place(const char *trace, const char *job, uint64_t comm_id, int rank,
			  struct tt_flight_place *out);
/* Zeroed memory for a flight, behind `place->ring` if it can be; `*fd` then keeps it locked, as
 * long as this process lives, else it is -1 and `place->ring` is "". NULL: no memory. */
struct tt_flight *tt_flight_map(struct tt_flight_place *place, int *fd);
/* The first operations and plans are not all: put the rest into the file as well, before it is
 * written. What cannot be had stays in memory of the process only. */
void tt_flight_extend(struct tt_flight *flight, int fd);
/* If the file at `ring` is of a process that has ended, and its report belongs in the directory
 * `reports` (NULL: in any): write it and remove the file. False: it is not, or somebody else does
 * so now. */
bool tt_flight_recover(const char *ring, const char *reports);
/* The same for all whose setting is `trace`; gives how many, -1: errno tells why the directory
 * cannot be read. */
int tt_flight_recover_all(const char *trace);
/* Remove the oldest of what dead processes have left, and of reports, in the directories of
 * `place`. Reads both. */
void tt_flight_sweep(const struct tt_flight_place *place);
/* Is there twice as much as is kept? Cheap. */
bool tt_flight_crowded(const struct tt_flight_place *place);

#endif
