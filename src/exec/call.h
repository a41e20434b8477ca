/* SPDX-License-Identifier: BSD-3-Clause */
/* From a checked call to an operation in flight. */
#ifndef TT_CALL_H
#define TT_CALL_H

#include "check.h"
#include "request.h"

/* Start one operation for `request`. Lock held. On error nothing was started, and unless the
 * arguments are wrong the communicator is revoked. */
tutti_result_t tt_call_start(struct tutti_comm *comm, const struct tt_call *call,
			     struct tutti_request *request);
/* Start one call, or keep it for the thread's group; wait for it if `request` is NULL. */
tutti_result_t tt_call_submit(struct tutti_comm *comm, const struct tt_call *call,
			      tutti_request_t *request);

#endif
