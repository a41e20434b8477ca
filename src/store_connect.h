/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to the host of a store. Functions that return int give 0 or an errno value;
 * ECONNRESET also when the host closed in order. Deadlines are tt_now() times. */
#ifndef TT_STORE_CONNECT_H
#define TT_STORE_CONNECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "key.h"
#include "tutti/tutti.h"

/* Connect, exchange hellos and proofs; tries again until `deadline` while nobody is there. */
tutti_result_t tt_store_connect(const char *address, const struct tt_key *key, uint64_t deadline, int *fd);

int tt_store_send(int fd, struct iovec *iov, int n, uint64_t deadline);
int tt_store_receive(int fd, void *data, size_t length, uint64_t deadline);

#endif
