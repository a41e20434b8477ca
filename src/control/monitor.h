/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that listens to what peers tell while the program is in no call of the library. */
#ifndef TT_MONITOR_H
#define TT_MONITOR_H

#include "comm.h"

/* Listen for the communicator, if it has transports that need it. Where that cannot be had, a
 * warning says what is lost. */
void tt_monitor_enter(struct tutti_comm *comm);
/* No more; it was not in is fine. Without the communicator's lock. */
void tt_monitor_leave(struct tutti_comm *comm);

#endif
