/* SPDX-License-Identifier: BSD-3-Clause */
/* What threads that wait ask now and then: does the program want the wait to end? */
#ifndef TT_INTERRUPT_H
#define TT_INTERRUPT_H

#include <stdint.h>

#include "progress.h"

#define TT_ASK_NS 50000000u /* without a move, and between two times */

/* Ask, if it was not asked in the last TT_ASK_NS; more rarely while something moves. Lock held on
 * entry and return, but not meanwhile. */
void tt_interrupt_ask(struct tutti_comm *comm, struct tt_waiter *waiter, uint64_t now);

#endif
