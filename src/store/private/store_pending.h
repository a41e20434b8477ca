/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of a store that have not proven yet that they belong to the job. */
#ifndef TT_STORE_PENDING_H
#define TT_STORE_PENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "store_clients.h"

/* What a host that has `key` and, unless it is NULL, `tls` asks of those who come. */
struct tt_listener tt_store_pending_listener(const struct tt_key *key, struct tt_tls *tls);
/* Take the accepted socket over: greet who is at its other end, or close it, and give NULL. */
struct tt_store_client *tt_store_pending_receive(struct tt_store_clients *clients, int fd,
						 const struct sockaddr_storage *from);
/* Go on with its handshake: it is let in, turned away, or waits. */
void tt_store_pending_step(struct tt_store_clients *clients, struct tt_store_client *client);
/* Drop it, with a line that says why, unless there were such lines lately. */
void tt_store_pending_turn_away(struct tt_store_clients *clients, struct tt_store_client *client,
				const char *why);

/* Make room: drop a pending client, the one that has waited longest; those that have said no hello
 * come first. False: there is none. */
bool tt_store_pending_make_space(struct tt_store_clients *clients);
/* They have until `deadline` to prove that they belong to the job. */
void tt_store_pending_hurry(struct tt_store_clients *clients, uint64_t deadline);

#endif
