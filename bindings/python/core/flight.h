/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation in flight and what it holds: the views of its arrays, and its result. Those of
 * blocking calls lie on the stack. Those of requests are in the list of their communicator until
 * they end, also when nobody holds the request any more, as their memory belongs to the library.
 */
#ifndef TP_FLIGHT_H
#define TP_FLIGHT_H

#include "arrays.h"
#include "communicator.h"

struct tp_flight {
	struct tp_flight *next, **link; /* in the list of the communicator; link NULL: in none */
	struct tp_comm *owner;		/* until it ends; borrowed: it outlives that */
	tutti_request_t request;
	struct tp_view input, output;
	bool has_input, has_output;
	PyObject *result; /* NULL: None */
	PyObject *finish; /* called with the result for what is handed out; may be NULL */
	bool is_message;  /* the result is what `message` tells */
	tutti_message_t message;
	size_t per;		   /* the library's elements in one of the message's */
	struct tp_flight *members; /* of a group, by `next` */
	bool held;		   /* by a request */
	bool ending;		   /* how it went is known; its arrays are being let go, or are */
	bool ended;
	bool waiting, looking; /* a thread does, in the library */
	tutti_result_t code;
	PyObject *text; /* of the error */
	int fault;	/* the rank it is about */
};

/* On the heap, empty; NULL with an error. */
struct tp_flight *tp_flight_new(void);
/* Make an empty one of memory as it comes: of the views and the message nothing is looked at yet. */
static inline void tp_flight_init(struct tp_flight *flight)
{
	flight->link = NULL;
	flight->request = NULL;
	flight->has_input = flight->has_output = false;
	flight->result = flight->finish = flight->text = NULL;
	flight->members = NULL;
	flight->is_message = flight->held = flight->waiting = flight->looking = false;
	flight->ending = flight->ended = false;
}
/* Let go of what it holds, and of itself with `tp_flight_free`. */
void tp_flight_clear(struct tp_flight *flight);
void tp_flight_free(struct tp_flight *flight);

/* It has started with `request`: put it into the list of `owner`. */
void tp_flight_enter(struct tp_flight *flight, struct tp_comm *owner);
/* Nobody holds its request any more. */
void tp_flight_orphan(struct tp_flight *flight);
/* Its request is finished: note how, let go of its arrays, leave the list. */
void tp_flight_end(struct tp_flight *flight, tutti_result_t result);
/* End those orphans of `comm` that have finished. */
void tp_flight_sweep(struct tp_comm *comm);
/* `comm` was destroyed, and its requests with it. */
void tp_flight_end_all(struct tp_comm *comm);

/* What the caller gets of one that succeeded: a new reference. */
PyObject *tp_flight_result(struct tp_flight *flight);

/* Raise the error of one that failed. */
void tp_flight_raise(const struct tp_flight *flight);

/*
 * Wait for `*request` with the interpreter let go, `seconds` at most (negative: as long as it
 * takes). Every 50 ms signals of Python are handled. false: a handler raised, or the time is over
 * without an error; the request is as before. `*result` is that of the library.
 */
bool tp_flight_await(tutti_request_t *request, double seconds, tutti_result_t *result);

/*
 * Carry out an operation by `start`, with no request: the whole of a blocking call, which the
 * library does faster than a start and a wait. A handler of a signal that raises revokes the
 * communicator (tutti_interrupt_set()), since the other ranks wait for this one.
 */
typedef tutti_result_t tp_start_t(void *context, tutti_request_t *request);
bool tp_flight_run(struct tp_comm *comm, tp_start_t *start, void *context);

/* Load the class of messages, and have waits look for signals. */
bool tp_flight_load(void);

#endif
