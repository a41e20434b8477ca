/* SPDX-License-Identifier: BSD-3-Clause */
/* How a communicator comes to be: endpoints opened, records exchanged, hosts numbered,
 * transports chosen and joined. */
#ifndef TT_BOOTSTRAP_H
#define TT_BOOTSTRAP_H

#include "comm.h"
#include "exchange.h"

/* Open endpoints and write what the other ranks must know of this one; comm->id, rank and size
 * are set. `parent`: a communicator that all ranks are in; NULL: none. */
tutti_result_t tt_bootstrap_open(struct tutti_comm *comm, const struct tutti_comm *parent,
				 uint8_t record[TT_RECORD_MAX], size_t *length);
/* The same where that failed, with the thread's error message: so that nobody waits for this rank,
 * and all know why. */
void tt_bootstrap_fail(struct tutti_comm *comm, uint8_t record[TT_RECORD_MAX], size_t *length);
/* Has a rank no way yet to ranks on other hosts, of which there are some, which it may have
 * within seconds? The same on all ranks. Then each awaits it, which takes a few seconds and half
 * of the time to `deadline` at most, and all tell each other again. */
bool tt_bootstrap_awaits(const struct tt_records *records, int size);
tutti_result_t tt_bootstrap_await(struct tutti_comm *comm, uint64_t deadline,
				  uint8_t record[TT_RECORD_MAX], size_t *length);
/* Everyone's records are here: work out the rest and join. */
tutti_result_t tt_bootstrap_join(struct tutti_comm *comm, const struct tt_records *records,
				 uint64_t deadline);

#endif
