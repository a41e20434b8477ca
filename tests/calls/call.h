/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of one rank: who gets what of whom, its buffers, the call itself, and whether the results,
 * the input and all around them are what they must be.
 *
 * A call is described first, alike on all ranks but for what is each rank's own. Then, in this order:
 * call_lay_out(), memory for the buffers, call_fill(), the call, call_check(), call_finish();
 * call_try() does all of it. Tables are made where they are needed, so what is never checked costs
 * little. Pieces point into the call: from call_lay_out() on it stays where it is. */
#ifndef TT_CALL_H
#define TT_CALL_H

#include "buffer.h"
#include "random.h"

/* Where the blocks of a buffer are. */
struct layout {
	size_t at[CALL_RANKS], span; /* elements */
	bool given;		     /* as displacements; otherwise one behind the other */
};

struct call {
	/* what all ranks say alike */
	enum what what;
	tutti_dtype_t dtype;
	int combine, root, to; /* `root` of a message: who sends */
	size_t count,
		counts[CALL_RANKS][CALL_RANKS]; /* of a block; of that from a rank to a rank */
	bool rough;				/* numbers that are rounded, if any can be */
	bool in_order;				/* left folds, bit by bit, although rounded */
	uint64_t salt;				/* of the numbers */

	/* what is this one's own */
	int rank, size;
	bool in_place, turned; /* of a message to itself: the receive comes first */
	struct layout send_layout, recv_layout;

	/* what follows from it */
	size_t stride; /* of the blocks in what a rank contributes */
	struct contents contents;
	struct value_way
		way; /* how it is reduced, for the bound of its errors: `algorithm`, and what
				 belongs to it, may be set until it is checked */
	struct buffer send, recv;	    /* in place: `send` is both */
	void *send_at, *recv_at;	    /* what is passed */
	struct pieces sent, received, left; /* in `send` before, in `recv` after, in `send` after */
	bool expected;			    /* the tables of results are there */
	struct table own, from[CALL_RANKS], combined;
	tutti_op_t op; /* -1: it is still to be made, or there is none */
};

/* Of equal blocks; the root is rank 0, or who sends to rank 1. `combine` counts where it combines. */
void call_init(struct call *call, enum what what, int rank, int size, tutti_dtype_t dtype,
	       int combine, size_t count);
/* Blocks of different lengths, some of them empty, in the calls that can have such. */
void call_set_uneven(struct call *call);
/* The blocks are some elements apart, not all of them as many, in calls that take displacements;
 * backwards: the last rank's comes first. */
void call_spread(struct call *call, size_t gap, bool backwards);

/* One of those that the library has. */
const char *call_any_algorithm(struct random *random);

/* Has this rank a part in it, does it send, or receive, anything? */
bool call_concerns(const struct call *call);
bool call_sends(const struct call *call);
bool call_receives(const struct call *call);
const char *call_name(enum what what);
bool call_combines(enum what what);
/* Is there such a call of this type and operation? */
bool call_is_defined(enum what what, tutti_dtype_t dtype, int combine);
/* May this rank call it in place? */
bool call_may_be_in_place(const struct call *call);
/* Length of what this rank sends to, or gets from, another. */
size_t call_sent(const struct call *call, int to);
size_t call_received(const struct call *call, int from);

/* Says of `send` and `recv` how long they are; in place there is no `recv`. */
void call_lay_out(struct call *call);
/* Memory for the buffers that matter. False: there is none. */
bool call_take_memory(struct call *call);
/* Fills those that have memory, also where they do not matter; they are what is passed. */
void call_fill(struct call *call);
/* Other memory is passed, to which the caller copies what the buffers have, and back. */
void call_move(struct call *call, void *send, void *recv);
/* Makes `op`, after call_lay_out(); for tutti_op_destroy(). */
tutti_result_t call_make_op(tutti_comm_t comm, struct call *call);
tutti_result_t call_post(tutti_comm_t comm, const struct call *call, tutti_request_t *request);
tutti_result_t call_post_on(tutti_comm_t comm, const struct call *call, void *stream);
/* Are the result, the input and what is around them as they must be? */
bool call_check(struct call *call, struct wrong *wrong);
/* Elements of the result; bytes that are compared are some more. */
size_t call_elements(const struct call *call);
/* The input is the caller's again: it changes at once. */
void call_spoil(struct call *call);
void call_finish(struct call *call);

#define CALL_TEXT 3000
/* In words: with all its arguments, on several lines; and what is wrong, on one. */
void call_describe(const struct call *call, char text[CALL_TEXT]);
void call_describe_wrong(const struct call *call, const struct wrong *wrong, char text[CALL_TEXT]);
/* As call_check(), with both in words if not. */
bool call_is_right(struct call *call, char text[CALL_TEXT]);
/* All of it, once. */
bool call_try(tutti_comm_t comm, struct call *call, char text[CALL_TEXT]);

#endif
