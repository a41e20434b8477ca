/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives as methods of a communicator: NAME() blocks, start_NAME() gives a request. */
#ifndef TP_COLLECTIVES_H
#define TP_COLLECTIVES_H

#include "flight.h"

/* the methods, to be joined with those of the communicator itself */
extern PyMethodDef tp_collective_methods[];
int tp_collective_count(void);

/*
 * Carry out one call: `flight` (on the caller's stack) holds views and result. It blocks; or gives
 * a request with `start`; or is collected, where the thread has a group open.
 */
PyObject *tp_call_carry_out(struct tp_comm *self, const char *function, bool start,
			    const struct tp_flight *flight, tp_start_t *run, void *context);

#endif
