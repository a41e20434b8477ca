/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of a store that have not proven yet that they belong to the job. */
#ifndef TT_STORE_PENDING_H
#define TT_STORE_PENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "store_clients.h"

/* Take the accepted socket over: greet who is at its other end, or close it, and give NULL. */
struct tt_store_client *tt_store_pending_receive(struct tt_store_clients *clients, int fd,
						 const struct sockaddr_storage *from);
/* SECURING: go on with the TLS handshake, and greet the client behind it. */
void tt_store_pending_secure(struct tt_store_clients *clients, struct tt_store_client *client);
/* GREETING: is its hello good, as far as it has come? If not, it is turned away. */
bool tt_store_pending_hello_good(struct tt_store_clients *clients, struct tt_store_client *client);
/* GREETING: the hello has come in whole. */
void tt_store_pending_hello(struct tt_store_clients *clients, struct tt_store_client *client);
/* PROVING: the proof has. */
void tt_store_pending_proof(struct tt_store_clients *clients, struct tt_store_client *client);
/* Drop it, with a line that says why, unless there were such lines lately. */
void tt_store_pending_turn_away(struct tt_store_clients *clients, struct tt_store_client *client,
				const char *why);

/* Make room: drop a pending client, the one that has waited longest; those that have said no hello
 * come first. False: there is none. */
bool tt_store_pending_make_space(struct tt_store_clients *clients);
/* They have until `deadline` to prove that they belong to the job. */
void tt_store_pending_hurry(struct tt_store_clients *clients, uint64_t deadline);

#endif
