/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank says that no transport joins with another. */
#ifndef TT_UNREACHED_H
#define TT_UNREACHED_H

#include "comm.h"
#include "records.h"

/* Fails with the reason for each transport. comm->joining.records and the numbers of hosts are filled
 * in. */
tutti_result_t tt_fail_unreached(const struct tutti_comm *comm, const struct tt_records *records,
				 int rank);

#endif
