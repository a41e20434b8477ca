/* SPDX-License-Identifier: BSD-3-Clause */
/* Are the arguments of a call sound? */
#ifndef TT_CHECK_H
#define TT_CHECK_H

#include "plan.h"

/* "tutti_all_reduce" of a collective, for messages. */
const char *tt_call_name(const struct tt_call *call);
/* Is every argument sound? The error message of what is not is set otherwise. */
tutti_result_t tt_call_check(const struct tutti_comm *comm, const struct tt_call *call);
/* How many bytes this rank's buffers must have; the error message of an overflow is set
 * otherwise. */
tutti_result_t tt_call_spans(const struct tutti_comm *comm, const struct tt_call *call,
			     size_t *send_bytes, size_t *recv_bytes);
/* What remains to be checked of a call that had a sound like before. */
tutti_result_t tt_call_check_buffers(const struct tt_call *call, size_t send_bytes,
				     size_t recv_bytes);

#endif
