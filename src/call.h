/* SPDX-License-Identifier: BSD-3-Clause */
/* From a checked call to an operation in flight. */
#ifndef TT_CALL_H
#define TT_CALL_H

#include "plan.h"
#include "request.h"

/* "tutti_all_reduce" of a collective, for messages. */
const char *tt_call_name(const struct tt_call *call);
/* Is every argument sound? The sentence of what is not is set otherwise. */
tutti_result_t tt_call_check(const struct tutti_comm *comm, const struct tt_call *call);
/* How many bytes this rank's buffers must have; the sentence of an overflow is set otherwise. */
tutti_result_t tt_call_spans(const struct tutti_comm *comm, const struct tt_call *call,
			     size_t *send_bytes, size_t *recv_bytes);
/* What remains to be checked of a call that had a sound like before. */
tutti_result_t tt_call_check_buffers(const struct tt_call *call, size_t send_bytes, size_t recv_bytes);
/* Start one operation for `request`. Lock held. On error nothing was started, and unless the arguments are wrong the
 * communicator is revoked. */
tutti_result_t tt_call_start(struct tutti_comm *comm, const struct tt_call *call,
			     struct tutti_request *request);
/* Start one call, or keep it for the thread's group; wait for it if `request` is NULL. */
tutti_result_t tt_call_submit(struct tutti_comm *comm, const struct tt_call *call,
			      tutti_request_t *request);

#endif
