/* SPDX-License-Identifier: BSD-3-Clause */
/* From tcp:// and unix: addresses to sockets. */
#ifndef TT_STORE_ADDRESS_H
#define TT_STORE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "tutti/tutti.h"

#define TT_STORE_SOCKADDRS 16 /* addresses that names may have; more are not tried */

/* An address taken apart. */
struct tt_store_address {
	bool local;	/* unix: rather than tcp:// */
	char host[256]; /* of tcp://, without brackets, each with a NUL behind it, and one more */
	char port[8];
	struct sockaddr_storage name; /* of unix: */
	socklen_t name_length;
};

/* The sockets behind it. */
struct tt_store_targets {
	int count;
	socklen_t length[TT_STORE_SOCKADDRS];
	struct sockaddr_storage at[TT_STORE_SOCKADDRS];
};

/* TUTTI_ERR_INVALID: it is neither tcp://HOST:PORT nor unix:NAME; the error message says why. */
tutti_result_t tt_store_address_parse(const char *text, struct tt_store_address *out);

/* The host behind that one, or with NULL the first; NULL: there is none. */
const char *tt_store_next_host(const struct tt_store_address *address, const char *host);

/* Ask for the addresses of all hosts; NULL or why there are none (now). `passive`: to listen at. */
const char *tt_store_address_resolve(const struct tt_store_address *address, bool passive,
				     struct tt_store_targets *out);

/* Leave out what can be reached from other machines; true if there was something, and nothing is
 * left. */
bool tt_store_loopback_only(struct tt_store_targets *targets);
bool tt_store_is_loopback(const struct sockaddr_storage *at);

/* "192.0.2.1:29500" or "[fd00::1]:29500". */
void tt_store_sockaddr_name(const struct sockaddr_storage *at, char *out, size_t size);

#endif
