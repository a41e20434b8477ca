/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients of a store, as its host's thread sees them. All calls come from that thread. */
#ifndef TT_STORE_CLIENTS_H
#define TT_STORE_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "handshake.h"
#include "log.h"
#include "store_keys.h"
#include "store_wire.h"

#define TT_STORE_NEVER UINT64_MAX

struct tt_store_client;

struct tt_store_clients {
	int epoll;		/* events of a client carry its pointer */
	uint64_t next_deadline; /* no client's deadline is earlier; TT_STORE_NEVER: none has one */
	struct tt_store_client *first, *gone;
	struct tt_listener admission; /* of those who come over TCP its TLS */
	int pending;		      /* clients that have not proven that they belong to the job */
	struct tt_log_quota quota;    /* of lines about them */
	struct tt_store_keys keys;
	/* Who was turned away and is believed to be one of those that the others wait for. */
	struct tt_store_unfit {
		uint32_t member; /* as in TT_WIRE_ATTEND; 0: nobody */
		uint32_t length;
		uint8_t word[TT_WIRE_WORD_MAX]; /* why */
	} unfit;
};

/* Take the accepted socket over: greet who is at its other end, or close it. */
void tt_store_clients_add(struct tt_store_clients *clients, int fd,
			  const struct sockaddr_storage *from);
/* epoll gave `events` for the client. */
void tt_store_client_event(struct tt_store_clients *clients, struct tt_store_client *client,
			   uint32_t events);
/* Answer or drop those whose deadline has passed. */
void tt_store_clients_expire(struct tt_store_clients *clients, uint64_t now);
/* All wait for keys, or nobody is there: no set can come any more unless somebody joins. */
bool tt_store_clients_stuck(const struct tt_store_clients *clients);
/* Free those dropped since, and tell the others of it that attended the same; call when no event
 * in hand can name them. */
void tt_store_clients_bury(struct tt_store_clients *clients);
void tt_store_clients_finish(struct tt_store_clients *clients);

#endif
