/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a rank can be reached, and which of a peer's addresses to try in which order. */
#ifndef TT_TCP_ADDRESS_H
#define TT_TCP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tutti/tutti.h"

#define TCP_ADDRESSES_MAX 32
#define TCP_ADDRESS_TEXT  80 /* "[fe80::…%4294967295]:65535" fits */

/* One address of an interface that is up. */
struct tcp_address {
	uint8_t family; /* 4 or 6 */
	uint8_t prefix; /* bits of the subnet */
	uint32_t scope; /* number of the interface; means something to its owner only */
	uint32_t speed; /* Mbit/s, 0: unknown */
	uint8_t bytes[16];
};

/* What a rank tells its peers. */
struct tcp_card {
	uint64_t machine; /* equal for ranks under one kernel */
	uint64_t network; /* equal, with `machine`, for ranks that share their loopback interface */
	uint16_t port;
	uint8_t rails; /* connections that it wants in a link; 0: one for each way */
	int count;
	struct tcp_address at[TCP_ADDRESSES_MAX];
};

bool tt_tcp_is_loopback(const struct tcp_address *address);
bool tt_tcp_is_link_local(const struct tcp_address *address);

enum tcp_path { TCP_PATH_LOOPBACK, TCP_PATH_SUBNET, TCP_PATH_ROUTED, TCP_PATH_LINK_LOCAL };

struct tcp_candidate {
	struct sockaddr_storage to;
	socklen_t length;
	enum tcp_path path;
	uint32_t speed;
	bool local;		      /* never leaves this machine's network stack */
	struct sockaddr_storage from; /* the own address to connect from … */
	socklen_t from_length;	      /* … 0: any */
};

/* Room for every address of a peer, and for a link-local one through every interface. */
#define TCP_CANDIDATES_MAX 64

/* What keeps a rank from offering more addresses. */
struct tcp_lack {
	bool coming;	/* no other machine can reach it, and an interface may be coming up */
	char text[160]; /* "eth0: no carrier"; "": nothing */
};

/* Fill `card`, port excepted, from the interfaces that are up and that TUTTI_INTERFACE allows. */
tutti_result_t tt_tcp_interfaces(struct tcp_card *card, struct tcp_lack *lack);
/* The same again and again, until an address has come that another machine can reach, or
 * `deadline`. */
void tt_tcp_await_interface(struct tcp_card *card, struct tcp_lack *lack, uint64_t deadline);
/* The same with one address, of a loopback interface. */
tutti_result_t tt_tcp_only(const struct sockaddr_storage *address, struct tcp_card *card);

/* Those at which other machines reach this one (transport.h). */
tutti_result_t tt_tcp_hosts(char *out, size_t size, uint64_t deadline);

size_t tt_tcp_card_write(const struct tcp_card *card, void *out);
/* False, and `card` unspecified, if the bytes are no card. */
bool tt_tcp_card_read(const void *bytes, size_t length, struct tcp_card *card);

/* Addresses of `to` that `from` can try, best first: loopback where they share it, then those of a
 * common subnet, then routed ones, then link-local ones; the faster interface first, then IPv4.
 * With `log`, says at debug level which were passed over, and why. */
int tt_tcp_candidates(const struct tcp_card *from, const struct tcp_card *to,
		      struct tcp_candidate *out, bool log);
/* Why `from` cannot try any address of `to`, which is of `rank`. */
void tt_tcp_explain(const struct tcp_card *from, const struct tcp_card *to, int rank, char *text,
		    size_t size);
bool tt_tcp_connectable(const struct tcp_card *from, const struct tcp_card *to);

/* Ways of their own: each over an interface of either end that no other has, by addresses of one
 * subnet. An interface whose speed is not known may be a tunnel through another one: it counts
 * only where one of the two says how many rails it wants. Gives how many, which is the same whichever end asks with the lower rank's card first.
 * Two in one network namespace have none. */
#define TCP_RAILS_MAX 8
int tt_tcp_ways(const struct tcp_card *from, const struct tcp_card *to,
		struct tcp_candidate out[TCP_RAILS_MAX]);
/* The number of the interface that has an address of the card; 0: none. */
uint32_t tt_tcp_scope_of(const struct tcp_card *card, const struct sockaddr_storage *address);
/* How many connections a link of the two may have. */
int tt_tcp_rail_count(const struct tcp_card *from, const struct tcp_card *to);

const char *tt_tcp_path_name(enum tcp_path path);
/* "192.0.2.1:4000" or "[2001:db8::1]:4000"; an IPv4 address inside an IPv6 one is written as IPv4.
 */
const char *tt_tcp_text(const struct sockaddr_storage *address, char text[TCP_ADDRESS_TEXT]);
/* "192.0.2.1/24" */
const char *tt_tcp_address_text(const struct tcp_address *address, char text[TCP_ADDRESS_TEXT]);

#endif
