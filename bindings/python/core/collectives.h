/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives as methods of a communicator: NAME() blocks, start_NAME() gives a request. */
#ifndef TP_COLLECTIVES_H
#define TP_COLLECTIVES_H

#include "flight.h"

/* the methods, to be joined with those of the communicator itself */
extern PyMethodDef tp_collective_methods[];
int tp_collective_count(void);

/* May this thread start an operation with a request? Not in a group: an error. Asked first, as what
 * is said of the next call would stay for another one. */
bool tp_call_may_start(const struct tp_comm *self, const char *function);

/*
 * Carry out one call that does not block: `flight` (on the caller's stack) holds views and result.
 * It gives a request, or is collected, where the thread has a group open.
 */
PyObject *tp_call_carry_out(struct tp_comm *self, const struct tp_flight *flight, tp_start_t *run,
			    void *context);

#endif
