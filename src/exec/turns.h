/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of a communicator's waiting threads drives: who came last. The others sleep, each until its own
 * wait is over, or until it is its turn. All functions: lock held. */
#ifndef TT_TURNS_H
#define TT_TURNS_H

#include "progress.h"

/* This thread waits, and drives from now on. */
void tt_turn_take(struct tutti_comm *comm, struct tt_waiter *waiter);
/* Sleep until the wait is over, or take the turn once nobody has it. The lock is not held meanwhile. */
void tt_turn_await(struct tutti_comm *comm, struct tt_waiter *waiter);
/* This thread does not drive any more. */
void tt_turn_leave(struct tutti_comm *comm, const struct tt_waiter *waiter);

/* The waiter sleeps where tt_turns_wake() finds it. */
void tt_turn_sleeps(struct tutti_comm *comm, struct tt_waiter *waiter);
void tt_turn_is_up(struct tutti_comm *comm, const struct tt_waiter *waiter);
/* Something has ended: wake those that waited for it. */
void tt_turns_wake(struct tutti_comm *comm);

#endif
