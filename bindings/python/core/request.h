/* SPDX-License-Identifier: BSD-3-Clause */
/* The type _core.Request: an operation in flight as Python sees it. */
#ifndef TP_REQUEST_H
#define TP_REQUEST_H

#include "flight.h"

PyObject *tp_request_type(void);

/*
 * A request for `flight`, which has started on `comm`: it enters the list there. On failure there
 * is an error, and the flight is an orphan.
 */
PyObject *tp_request_new(struct tp_comm *comm, struct tp_flight *flight);

/* Start `flight` by `start` and make its request. On failure the flight is freed. */
PyObject *tp_request_start(struct tp_comm *comm, struct tp_flight *flight, tp_start_t *start,
			   void *context);

#endif
