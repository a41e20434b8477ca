/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of a store that others reach through sockets. */
#ifndef TT_STORE_SERVER_H
#define TT_STORE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"
#include "tls.h"
#include "tutti/tutti.h"

struct tt_store_server;

/* Listen at `address` (tcp:// or unix:) and give the address back with the port that was bound.
 * Without a key on this machine only. A pod's name is waited for until the deadline at most. */
tutti_result_t tt_store_listen(const char *address, bool keyed, uint64_t deadline, char *bound,
			       size_t size, int *fd);

/* Serve those who connect to the listening socket `fd` on a thread, and have the key, which
 * stays the caller's. Takes the socket over, also on failure. */
tutti_result_t tt_store_server_start(int fd, const struct tt_key *key, struct tt_tls *tls,
				     struct tt_store_server **out);

/* Refuse newcomers, wait until the clients have left (at most 10 s, and not beyond `close_by`
 * and a second, unless it is 0), free everything. */
void tt_store_server_stop(struct tt_store_server *server, uint64_t close_by);

#endif
