/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a communicator learn of each other's part in the one that is made out of it. */
#ifndef TT_EXCHANGE_H
#define TT_EXCHANGE_H

#include "op_header.h"
#include "records.h"
#include "report.h"

/* As a part of `part`, which `parent` is called for. */
tutti_result_t tt_exchange_by_parent(tutti_comm_t parent, enum tt_part part, const void *mine,
				     size_t length, struct tt_records *out);
/* The same of every rank's report; what the first that failed says is what all return. */
tutti_result_t tt_exchange_reports(tutti_comm_t parent, enum tt_part part,
				   const struct tt_report *mine, struct tt_records *out);
/* While a join waits (struct tt_join_hooks, with `parent` as the context): where it has failed, as by a
 * death, nobody need come. */
tutti_result_t tt_exchange_is_hopeless(void *parent);

#endif
