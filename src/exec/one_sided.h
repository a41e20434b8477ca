/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided calls as operations in flight: what exec knows of them, and what it asks of the room of
 * windows, which sets `comm->one_sided`. */
#ifndef TT_ONE_SIDED_H
#define TT_ONE_SIDED_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/window.h"

struct tt_op;
struct tt_text;

enum tt_one_sided_kind { TT_PUT, TT_GET, TT_FETCH_ADD, TT_FLUSH, TT_WAIT_SIGNAL };
/* How far an operation is: its frame waits for those before it; it is on its way; it has ended. */
enum tt_one_sided_stage { TT_QUEUED, TT_SENT, TT_ENDED };

#define TT_NO_SIGNAL UINT32_MAX

struct tt_window_call {
	enum tt_one_sided_kind kind;
	enum tt_one_sided_stage stage;
	struct tutti_window *window;
	int peer; /* -1: all of them, or any */
	size_t offset, bytes;
	uint32_t signal;    /* of a put: TT_NO_SIGNAL for none */
	bool signals_alone; /* it is tutti_signal() */
	uint64_t value;	    /* that is added, or waited for */
	/* of a flush: the next peer to be asked, and how many are still to answer */
	int next_peer, answers;
	struct tt_op *next; /* of those that wait for the peer's outbox */
};

struct tt_one_sided {
	/* Take in what peers' calls do here, and send what is to be sent. True: something moved.
	 * Does nothing in most passes while nothing comes, but for `thorough` ones. */
	bool (*serve)(struct tutti_comm *comm, bool thorough);
	/* Begin a call: op->send and op->recv are its buffers. As tt_call_start(). */
	tutti_result_t (*start)(struct tt_op *op, const struct tt_window_call *call);
	tutti_result_t (*advance)(struct tt_op *op, bool *moved);
	/* For waits that get long: revokes where nobody is left who could end this one. */
	void (*look)(struct tt_op *op);
	/* For the message of a missed deadline: which call, and what it waits for. */
	void (*describe)(struct tt_text *text, const struct tt_op *op);
	/* Gives the rank that it waits for; -1: any. */
	int (*explain)(struct tt_text *text, const struct tt_op *op);
};

/* "tutti_put" */
const char *tt_one_sided_name(const struct tt_window_call *call);

#endif
