/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports that are being written while they are read. */
#ifndef TRACE_AWAIT_H
#define TRACE_AWAIT_H

#include "flights.h"

/* If there is no report in the directory, wait for one, but not for long. */
void flights_await_any(const char *directory);
/* If the newest reports of a communicator have just been written, and those of other ranks have
 * not, wait for these, but not for long. Before flights_arrange(). */
void flights_await(struct flights *flights);

#endif
