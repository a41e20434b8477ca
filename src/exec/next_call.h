/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti_next_call() said of a thread's next operation, until that takes it. */
#ifndef TT_NEXT_CALL_H
#define TT_NEXT_CALL_H

#include "comm.h"

struct tt_next_call {
	struct tt_next_call *next;
	uint64_t thread;
	uint64_t timeout_ns; /* 0: the communicator's */
	char *caller;	     /* where the program says that it calls; NULL: it does not */
	tutti_wire_t wire;   /* 0: the communicator's */
	uint64_t element;    /* its characters, from the lowest byte on; 0: not said */
};

/* The calling thread says this of its next call on `comm`; it is copied, and its text. False: no
 * memory. Lock held. */
bool tt_next_call_set(struct tutti_comm *comm, const tutti_call_t *call);
/* Likewise of its elements alone. */
bool tt_next_call_set_element(struct tutti_comm *comm, uint64_t element);
/* Take what the calling thread said of its next call on `comm`; NULL: nothing. Lock held; for
 * where comm->next_calls is not NULL. */
struct tt_next_call *tt_next_call_take(struct tutti_comm *comm);
/* NULL is fine. */
void tt_next_call_free(struct tt_next_call *said);
void tt_next_calls_free(struct tutti_comm *comm);

#endif
