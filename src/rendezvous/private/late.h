/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks hold a rendezvous up. */
#ifndef TT_LATE_H
#define TT_LATE_H

#include "rendezvous.h"

/* To which rendezvous a process with the number `rank` has come last; 0: to none (rendezvous.c). */
tutti_result_t tt_rendezvous_get_come(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				      int rank, uint64_t timeout_ns, uint64_t answer_ns,
				      uint64_t *id);

/* TUTTI_ERR_TIMEOUT, with the error message: the deadline has passed while this rank waited for rank
 * `from`. */
tutti_result_t tt_rendezvous_fail_late(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				       int from);

#endif
