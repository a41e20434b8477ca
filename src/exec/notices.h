/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices: what is to happen when a request ends, although nobody waits for it. */
#ifndef TT_NOTICES_H
#define TT_NOTICES_H

#include "comm.h"

struct tutti_request;

struct tt_notice {
	struct tt_notice *next;
	tutti_notify_fn_t function; /* NULL: write to `fd` */
	void *context;
	int fd;
};

/* It happens now. Lock not held, if it is a call. */
void tt_notice_happen(const struct tt_notice *notice);
/* May it happen now, on this thread? No call may within another. */
bool tt_notice_can_happen(const struct tt_notice *notice);
/* It happens when the request ends, or soon, if it has. Takes over `notice`. Lock held, and there is a
 * progress thread. */
void tt_notice_hang(struct tutti_request *request, struct tt_notice *notice);
/* The request has ended: write to descriptors, hand calls to the progress thread. Lock held. */
void tt_notices_due(struct tutti_request *request);
/* Free those of a request that ends where nobody is to be told. */
void tt_notices_drop(struct tutti_request *request);
/* Make the calls that are due; false: there are none. Lock held, but not during a call. */
bool tt_notices_call(struct tutti_comm *comm);
/* Free the calls that are due, in a child of fork(). */
void tt_notices_forget(struct tutti_comm *comm);

#endif
