/* SPDX-License-Identifier: BSD-3-Clause */
/* How a communicator comes to be: endpoints opened, records exchanged, hosts numbered, transports chosen and joined. */
#ifndef TT_BOOTSTRAP_H
#define TT_BOOTSTRAP_H

#include "comm.h"
#include "exchange.h"

/* Open endpoints and write what the other ranks must know of this one; comm->id, rank and size are set. */
tutti_result_t tt_bootstrap_open(struct tutti_comm *comm, uint8_t record[TT_RECORD_MAX],
				 size_t *length);
/* Everyone's records are here, `members[i]` being the place of rank i's: work out the rest and join. */
tutti_result_t tt_bootstrap_join(struct tutti_comm *comm, const struct tt_records *records,
				 const int *members, uint64_t deadline);

#endif
