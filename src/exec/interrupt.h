/* SPDX-License-Identifier: BSD-3-Clause */
/* What threads that wait ask now and then: does the program want the wait to end? */
#ifndef TT_INTERRUPT_H
#define TT_INTERRUPT_H

#include <stdint.h>

#include "progress.h"

/* Ask, if nothing has moved for long and it was not asked just before. Lock held on entry and
 * return, but not meanwhile. */
void tt_interrupt_ask(struct tutti_comm *comm, struct tt_waiter *waiter, uint64_t now);

#endif
