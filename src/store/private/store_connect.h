/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to the host of a store. Functions that return int give 0 or an errno value;
 * ECONNRESET also when the host closed in order. Deadlines are tt_now() times. */
#ifndef TT_STORE_CONNECT_H
#define TT_STORE_CONNECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "key.h"
#include "tls.h"
#include "tutti/tutti.h"

/* Connect and shake hands, over `tls` unless that is NULL or the socket is a unix
 * socket; tries again until `deadline` while nobody is there. */
tutti_result_t tt_store_connect(const char *address, const struct tt_key *key, int rank,
				struct tt_tls *tls, uint64_t deadline, struct tt_connection *out);
void tt_store_disconnect(struct tt_connection *socket);

int tt_store_send(const struct tt_connection *socket, struct iovec *iov, int n, uint64_t deadline);
int tt_store_receive(const struct tt_connection *socket, void *data, size_t length,
		     uint64_t deadline);

#endif
