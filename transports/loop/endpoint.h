/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's part of the fabric, and the operations of its links. */
#ifndef TT_LOOP_ENDPOINT_H
#define TT_LOOP_ENDPOINT_H

#include "fabric.h"

struct loop_endpoint {
	struct tt_endpoint base;
	struct loop_fabric *fabric;
	const struct tt_peer *peers; /* from join() on */
	int rank, host;
	struct loop_entry entry;
	unsigned shares; /* calls of share() */
	uint64_t heard;	 /* of the fabric's notes */
};

struct loop_endpoint *tt_loop_endpoint_of(struct tt_endpoint *endpoint);

/* These are ops of the table; their contracts are there. */
tutti_result_t tt_loop_connect(struct tt_endpoint *endpoint, int peer, enum tt_channel channel,
			       struct tt_link **out);
ssize_t tt_loop_write(struct tt_link *link, const struct iovec *iov, int n);
ssize_t tt_loop_read(struct tt_link *link, const struct iovec *iov, int n);
ssize_t tt_loop_peek(struct tt_link *link, size_t want, size_t limit, const void **data);
void tt_loop_release(struct tt_link *link, size_t bytes);
bool tt_loop_ready(const struct tt_link *link);
void tt_loop_close(struct tt_link *link);

#endif
