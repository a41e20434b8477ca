/* SPDX-License-Identifier: BSD-3-Clause */
/* From a checked call to an operation in flight. */
#ifndef TT_CALL_H
#define TT_CALL_H

#include "check.h"
#include "request.h"

#define TT_NO_OP   (-1)
#define TT_NO_ROOT (-1)

/* With the arguments that most functions have, by which a call's other members are nothing. */
static inline struct tt_call tt_call_of(enum tt_collective collective, const void *send, void *recv,
					size_t count, tutti_dtype_t dtype, tutti_op_t op, int root)
{
	return (struct tt_call){ .collective = collective,
				 .dtype = dtype,
				 .op = op,
				 .root = root,
				 .send = send,
				 .recv = recv,
				 .count = count };
}

/* Tables that matter at the root only are not looked at elsewhere. */
static inline const size_t *tt_call_at_root(tutti_comm_t comm, int root, const size_t *table)
{
	return tutti_comm_rank(comm) == root ? table : NULL;
}

/* Start one operation for `request`. Lock held. On error nothing was started, and unless the
 * arguments are wrong the communicator is revoked. */
tutti_result_t tt_call_start(struct tutti_comm *comm, const struct tt_call *call,
			     struct tutti_request *request);
/* Start one call, or keep it for the thread's group; wait for it if `request` is NULL. */
tutti_result_t tt_call_submit(struct tutti_comm *comm, const struct tt_call *call,
			      tutti_request_t *request);

#endif
