/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of operations. Lock held for all. */
#ifndef TT_DEADLINE_H
#define TT_DEADLINE_H

#include "op.h"

/* Start the clocks of operations that have none yet; revoke if one has missed its deadline. If peers
 * blame this rank for theirs, say for whom it waits itself. For waits that get long. */
void tt_deadlines_check(struct tutti_comm *comm, uint64_t now);
/* How long may a thread sleep from `now`, so that the next deadline is noticed in time? */
int tt_deadlines_sleep_ms(const struct tutti_comm *comm, uint64_t now, int most_ms);

#endif
