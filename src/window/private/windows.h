/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this room share: windows, and the peers whose calls are frames. */
#ifndef TT_WINDOWS_H
#define TT_WINDOWS_H

#include <stdatomic.h>

#include "exposure.h"
#include "frame.h"
#include "op.h"
#include "one_sided.h"
#include "outbox.h"
#include "window.h"

#define TT_WINDOW_SIGNALS_MAX 65536u
#define TT_WINDOW_ASKED	      64   /* calls that wait for a peer's answer at once */
#define TT_WINDOW_COPIED      4096 /* bytes of a put at most that are copied, not lent */

/* A rank's part of a window. */
struct tt_window_part {
	size_t bytes;
	uint32_t signals;
	bool direct;		   /* this rank accesses it where it is: */
	uint8_t *memory;	   /* here, if direct … */
	_Atomic uint64_t *counter; /* … and here; of this rank's own part always */
	uint64_t address;	   /* modulo 8, where its owner has it */
};

struct tutti_window {
	struct tutti_comm *comm;
	struct tt_owner owner;
	uint32_t number; /* the same on all ranks */
	bool framed;	 /* some pair of ranks needs a link for it; on this rank, a pair of its */
	bool granted;	 /* peers may write to this rank's memory and counters */
	struct tt_exposure *exposure; /* that the memory is in, if granted; NULL: it has none */
	bool heap_counters;	      /* the counters are memory of tutti_mem_alloc() */
	struct tt_window_part part[]; /* [size] */
};

/* An answer that is to be sent. */
struct tt_answer {
	struct tt_frame frame;
	const uint8_t *from; /* of DATA */
};

/* A call that waits for an answer. */
struct tt_asked {
	struct tt_op *op; /* NULL: free */
	uint64_t sent;	  /* of a flush: what had been sent before it */
};

/* A peer whose calls here, or this rank's there, are frames on a link. */
struct tt_window_peer {
	struct tt_connection *connection;
	struct tt_outbox outbox;
	uint64_t sent, flushed;	    /* frames that do something there; those that have done it */
	struct tt_op *first, *last; /* calls that wait for the outbox */
	struct tt_asked asked[TT_WINDOW_ASKED];
	struct tt_answer answers[TT_WINDOW_ASKED]; /* a ring */
	uint32_t first_answer, answer_count;
	/* what comes */
	struct tt_frame frame;
	bool open; /* the frame's header has come: */
	uint8_t *to;
	size_t left;	   /* bytes that are still to come, to there */
	uint64_t ended_at; /* nothing comes any more since then; or 0 */
};

struct tt_windows {
	struct tutti_window **all; /* by number; NULL: destroyed */
	uint32_t count, capacity;
	uint32_t framed;	  /* those that are not destroyed, and need links */
	uint32_t waiting;	  /* operations in flight that move when links do */
	uint32_t lively, passes;  /* so many passes more look at all links; and all passes */
	_Atomic uint64_t look_at; /* of who only flushes, by the coarse clock; relaxed: a look more
				   * or less does not matter */
	struct tt_window_peer *peer[]; /* [size]; NULL: it needs no link */
};

/* serve.c */
bool tt_windows_serve(struct tutti_comm *comm, bool thorough);
/* Nothing is done in this window from now on. Whoever still has a call on it, which nobody in order has,
 * ends the communicator: TUTTI_ERR_MISMATCH. Lock held. */
tutti_result_t tt_window_close(const struct tutti_window *window);
/* Send what waits for `peer`, as far as the link takes it. Lock held. */
tutti_result_t tt_window_send(struct tutti_comm *comm, struct tt_window_peer *peer);

/* calls.c: what exec asks. */
extern const struct tt_one_sided tt_windows_one_sided;

static inline struct tt_window_peer *tt_window_peer_of(const struct tutti_window *window, int rank)
{
	return window->comm->windows->peer[rank];
}

/* Has a rank whose memory is accessed directly left in good order? */
static inline bool tt_window_left(const struct tutti_comm *comm, int rank)
{
	struct tt_endpoint *endpoint = comm->endpoints[comm->routes.via[rank]];

	return endpoint->ops->memory->left(endpoint, rank);
}

/* Of this rank: what came before is seen by who sees it (release: pairs with the acquire of who
 * waits, in calls.c). */
static inline void tt_window_count(struct tt_window_part *part, uint32_t signal, uint64_t add)
{
	atomic_fetch_add_explicit(&part->counter[signal], add, memory_order_release);
}

static inline uint64_t tt_window_add(uint8_t *word, uint64_t add)
{
	return __atomic_fetch_add((uint64_t *)word, add, __ATOMIC_ACQ_REL);
}

#endif
