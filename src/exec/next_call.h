/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti_next_call() said of a thread's next operation, until that takes it. */
#ifndef TT_NEXT_CALL_H
#define TT_NEXT_CALL_H

#include "comm.h"

/* The calling thread says: its next call on `comm` has this deadline. False: no memory. Lock
 * held. */
bool tt_next_call_set(struct tutti_comm *comm, uint64_t timeout_ns);
/* Take what the calling thread said of its next call on `comm`: its deadline in nanoseconds, 0
 * for the communicator's. Lock held; for where comm->next_calls is not NULL. */
uint64_t tt_next_call_take(struct tutti_comm *comm);
void tt_next_calls_free(struct tutti_comm *comm);

#endif
