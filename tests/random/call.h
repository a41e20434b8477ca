/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation: drawn, with buffers of its own, called, compared with what it must be. What all
 * ranks must agree on is drawn alike by all of them; what is each rank's own (in place or not,
 * memory, displacements) is drawn for itself. */
#ifndef TT_RANDOM_CALL_H
#define TT_RANDOM_CALL_H

#include <stdio.h>

#include "buffer.h"

enum kind {
	BROADCAST,
	REDUCE,
	ALL_REDUCE,
	REDUCE_SCATTER,
	ALL_GATHER,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	REDUCE_SCATTER_V,
	ALL_GATHER_V,
	GATHER_V,
	SCATTER_V,
	ALL_TO_ALL_V,
	SCAN,
	EXSCAN,
	BARRIER,
	MESSAGE, /* a send of one rank and a receive of another, or of the same */
	KINDS
};

/* What a call is drawn for. */
struct situation {
	int rank, size;
	int hosts, fullest;	    /* of the communicator: hosts, and ranks of the fullest one */
	bool reproducible, grouped; /* in a group a rank may send to itself */
	size_t bytes;		    /* at most, in a buffer */
};

/* Where the blocks of a buffer are. */
struct layout {
	size_t at[RANKS_MAX], span; /* elements */
	bool given;		    /* as displacements */
};

struct call {
	enum kind kind;
	tutti_dtype_t dtype;
	int combine, root, to;			    /* `root` of a message: who sends */
	size_t count, counts[RANKS_MAX][RANKS_MAX]; /* of a block; of that from a rank to a rank */
	size_t stride;				    /* of the blocks in what a rank contributes */
	struct contents contents;

	int rank, size;
	bool in_place, turned; /* of a message to itself: the receive comes first */
	struct layout send_layout, recv_layout;
	struct buffer send, recv; /* in place: `send` is both */
	void *send_at, *recv_at;
	struct pieces sent, received, left; /* in `send` before, in `recv` after, in `send` after */
	struct table own, from[RANKS_MAX], combined;
	tutti_op_t op;
	struct value_way way; /* how it is reduced, for the bound of its errors */
};

const char *kind_name(enum kind kind);
bool kind_combines(enum kind kind);

/* Draw a call; `like`, or NULL: an all-reduce with the same type and operation, and little data. */
void call_draw(struct call *call, const struct situation *in, struct random *all,
	       const struct call *like);
/* Has this rank a part in it? */
bool call_concerns(const struct call *call);
/* Make the buffers and fill them. False: there is no memory. */
bool call_prepare(struct call *call, struct random *own);
/* `op` is set where it combines. */
tutti_result_t call_post(tutti_comm_t comm, struct call *call, tutti_request_t *request);
/* `algorithm` serves it; NULL: any. Before it is checked. */
void call_settle(struct call *call, const char *algorithm);
/* Elements of the result; bytes that were compared are some more. */
size_t call_elements(const struct call *call);
/* Are the result, the input and what is around them as they must be? If not, where it was found
 * first. */
bool call_check(const struct call *call, struct wrong *wrong, const struct buffer **where);
/* The input is the caller's again: it changes at once. */
void call_spoil(struct call *call);
void call_finish(struct call *call);
/* With all its arguments, on several lines. */
void call_describe(const struct call *call, FILE *out);

#endif
