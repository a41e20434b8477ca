/* SPDX-License-Identifier: BSD-3-Clause */
/* A request: what a caller waits for. It stands for one operation, or for all that a group
 * started. */
#ifndef TT_REQUEST_H
#define TT_REQUEST_H

#include "progress.h"

struct tt_fused;
struct tt_bell;
struct tt_notice;

struct tutti_request {
	struct tutti_comm *comm;
	struct tutti_request *next,
		*prev;	       /* of those that callers hold; behind the communicator's lock */
	struct tt_owner owner; /* likewise */
	uint32_t pending;      /* operations to come; behind the communicator's lock */
	struct tt_bell *bell; /* to be rung when none is to come; likewise; NULL: nobody waits so */
	struct tt_notice *notices; /* what is to happen then; likewise */
	tutti_result_t result;	   /* of the first that failed */
	struct tt_fused *fused;	   /* results to hand out when all is done; NULL for most */
	struct tt_staged *staged;  /* and results to copy to GPUs after that; likewise */
};

/* From now on the caller holds it. Lock held. */
void tt_request_hand_out(struct tutti_request *request);
/* Free those that callers still hold, of a communicator that goes. */
void tt_requests_free(struct tutti_comm *comm);
/* One of the request's operations has ended. Lock held. NULL is fine. */
void tt_request_op_done(struct tutti_request *request, tutti_result_t result);
/* All has ended: hand out what was fused, or staged for GPUs, release what the request holds
 * (not the struct itself). Gives its result. Lock not held. */
tutti_result_t tt_request_finish(struct tutti_request *request);

#endif
