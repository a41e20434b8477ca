/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation in flight: a plan bound to buffers, or a message of one rank to another. Kept on
 * a free list with their arrays, so that a repeated call allocates nothing. */
#ifndef TT_OP_H
#define TT_OP_H

#include "one_sided.h"
#include "plan.h"
#include "progress.h"

/* For what an operation of 8 bytes goes through: a call costs as much as what it does. */
#define TT_INLINE static inline __attribute__((always_inline))

enum tt_op_kind { TT_OP_LINKS, TT_OP_SHARED, TT_OP_MESSAGE, TT_OP_ONE_SIDED };
enum tt_op_state { TT_OP_WAITING, TT_OP_RUNNING, TT_OP_DONE };
/* What the flight recorder has noted: nothing yet; the call alone; that a pass could move
 * nothing; that data have moved. */
enum tt_recorded { TT_RECORDED_NOT, TT_RECORDED_CALL, TT_RECORDED_STALL, TT_RECORDED_MOVED };

/* One direction of one link within an operation: which message is next and how far it has come. */
struct tt_cursor {
	struct tt_op *op;
	struct tt_cursor *next; /* in the wire's queue */
	struct tt_connection *connection;
	bool sending;
	uint32_t header_at;	      /* bytes of the header that have passed */
	const struct tt_route *route; /* NULL: TT_OP_MESSAGE */
	/* wavefront: message (segment s, round r) comes in order of s + r, then of s */
	uint32_t time, segment, entry;
	/* within the message */
	uint32_t block;
	size_t at;
};

struct tt_op {
	struct tt_op *next, *prev; /* in flight; next also on the free list */
	struct tutti_comm *comm;
	struct tutti_request *request;
	enum tt_op_kind kind;
	enum tt_op_state state;
	const struct tt_plan *plan;
	struct tt_op_header header;
	uint64_t signature;
	const uint8_t *send;
	uint8_t *recv;
	void *wide;	     /* where a result goes that is narrow in `recv`; NULL: it is not */
	uint64_t timeout_ns; /* of this call; 0: the communicator's */
	uint64_t started;    /* for the deadline; looked at only once a wait gets long */
	size_t length;	     /* TT_OP_MESSAGE: bytes; of a receive without a message, the most */
	tutti_message_t *message;	    /* where a receive tells what it took; NULL: nowhere */
	bool from_any;			    /* a receive from any peer */
	struct tt_window_call *window_call; /* TT_OP_ONE_SIDED; kept from use to use */
	size_t element;
	struct tt_flight_op *record; /* where the flight recorder keeps it, while that has its
				      * number */
	uint64_t record_number;
	uint64_t last_check; /* ticks, in this pass; 0: none */
	enum tt_recorded recorded;

	/* links */
	struct tt_cursor *cursors;
	uint32_t ncursors, cursors_capacity;
	uint32_t *seg_round, *seg_left; /* [segments]: round each is in, messages of it to come */
	uint32_t segs_capacity;
	uint32_t seg_first, seg_next; /* first unfinished, next to start */

	/* shared */
	uint32_t time, segment, step; /* where in the wavefront */
	int awaited;  /* the next peer to wait for, where all are waited for in turn */
	bool direct;  /* this rank's buffers are exposed where they are */
	bool granted; /* … and peers may write to its result */
	struct tt_area_slot *slots; /* [size], of this operation, in the control area */
	uint64_t area;		    /* number of segment 0's staging area */
	uint8_t *payloads;	    /* of an eager plan: rank 0's … */
	size_t between;		    /* … and bytes from one rank's to the next one's */

	/* memory, kept from use to use */
	const void **sources; /* of the reduction at hand */
	uint8_t **targets;    /* where else its result goes: fewer than sources */
	uint32_t sources_capacity;
	uint8_t *scratch;
	size_t scratch_capacity;
	uint8_t *input; /* a copy of the input, where one is needed */
	size_t input_capacity;
};

static inline bool tt_op_is_collective(const struct tt_op *op)
{
	return op->kind == TT_OP_LINKS || op->kind == TT_OP_SHARED;
}

/* op.c */
struct tt_op *tt_op_alloc(void); /* NULL: no memory */
/* Room for what the operation's plan needs. */
tutti_result_t tt_op_reserve(struct tt_op *op);
void tt_op_queue(struct tutti_comm *comm, struct tt_op *op);
/* Take a finished operation out of flight and hand its result to its request. */
void tt_op_retire(struct tutti_comm *comm, struct tt_op *op, tutti_result_t result);
/* The end of its buffers, where peers may write to one, or its result is narrow. */
void tt_op_end_buffers(struct tt_op *op, tutti_result_t result);
/* Those in flight end here: nothing will come of them. */
void tt_ops_end(struct tutti_comm *comm);
void tt_ops_free(struct tutti_comm *comm);
/* Does any that is in flight use the plan? */
bool tt_ops_use(const struct tutti_comm *comm, const struct tt_plan *plan);

/* Begin and advance; TUTTI_IN_PROGRESS, or the end. `moved` is set if anything did. */
tutti_result_t tt_links_begin(struct tt_op *op);
tutti_result_t tt_links_advance(struct tt_op *op, bool *moved);
/* `peer`: TUTTI_ANY_PEER for a receive from any. */
tutti_result_t tt_message_begin(struct tt_op *op, int peer, bool sending);
/* -1: it is a receive from any peer, and has no message yet. */
static inline int tt_message_peer(const struct tt_op *op)
{
	return op->cursors[0].connection ? op->cursors[0].connection->link->peer : -1;
}
tutti_result_t tt_message_advance(struct tt_op *op, bool *moved);
tutti_result_t tt_shared_begin(struct tt_op *op);
tutti_result_t tt_shared_advance(struct tt_op *op, bool *moved);
/* The same of eager plans. */
tutti_result_t tt_eager_begin(struct tt_op *op);
tutti_result_t tt_eager_advance(struct tt_op *op, bool *moved);

/* cursor.c, for both kinds of operation that use wires */
void tt_cursor_queue(struct tt_cursor *cursor);
void tt_cursor_dequeue(struct tt_cursor *cursor);
static inline bool tt_cursor_has_header(const struct tt_cursor *cursor)
{
	return cursor->header_at == sizeof(struct tt_op_header);
}
/* Write what is left of the header, and iov[1 … n] behind it; iov[0] is kept for the header. Gives
 * the bytes that went, 0 and errors like a link's write(); `*payload` of them are not the
 * header's. */
ssize_t tt_cursor_write(struct tt_cursor *cursor, const struct tt_op_header *header,
			struct iovec *iov, int n, size_t *payload);
/* The peer's header, if it has come; looks for `more` bytes behind it. Gives how many bytes lie at
 * `data`, its own first; 0 and errors like a link's peek(). */
ssize_t tt_link_peek_header(struct tt_link *link, size_t more, struct tt_op_header *theirs,
			    const void **data);
/* What was peeked is the header. */
void tt_cursor_take_header(struct tt_cursor *cursor);

/* Where a run's block k of a segment is in this rank's memory. `ref` by pointer: a copy on the
 * stack is written in parts and read whole, which waits for all stores before it, those to lines
 * that peers poll among them. */
uint8_t *tt_op_place(const struct tt_op *op, const struct tt_ref *ref, uint32_t k, uint32_t segment,
		     size_t *length);

#endif
