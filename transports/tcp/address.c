/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what cards look like on the wire and the choice among a peer's addresses. Pure: everything
 * follows from two cards, so that both ends come to the same answer. Cards come from peers and are
 * not trusted. */
#include <arpa/inet.h>
#include <assert.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "log.h"
#include "transport.h"
#include "wire.h"

#define CARD_VERSION 2
#define CARD_HEAD    (1 + 1 + 1 + 2 + 8 + 8)
#define CARD_ENTRY   (1 + 1 + 4 + 4 + 16)
static_assert(CARD_HEAD + TCP_ADDRESSES_MAX * CARD_ENTRY <= TT_ADDRESS_MAX, "a full card fits");

size_t tt_tcp_card_write(const struct tcp_card *card, void *out)
{
	uint8_t *at = out;

	at = wire_put(at, CARD_VERSION, 1);
	at = wire_put(at, (uint64_t)card->count, 1);
	at = wire_put(at, card->rails, 1);
	at = wire_put(at, card->port, 2);
	at = wire_put(at, card->machine, 8);
	at = wire_put(at, card->network, 8);
	for (int i = 0; i < card->count; i++) {
		const struct tcp_address *a = &card->at[i];

		at = wire_put(at, a->family, 1);
		at = wire_put(at, a->prefix, 1);
		at = wire_put(at, a->scope, 4);
		at = wire_put(at, a->speed, 4);
		memcpy(at, a->bytes, sizeof(a->bytes));
		at += sizeof(a->bytes);
	}
	return (size_t)(at - (uint8_t *)out);
}

static bool address_read(const uint8_t **at, struct tcp_address *a)
{
	a->family = (uint8_t)wire_get(at, 1);
	a->prefix = (uint8_t)wire_get(at, 1);
	a->scope = (uint32_t)wire_get(at, 4);
	a->speed = (uint32_t)wire_get(at, 4);
	memcpy(a->bytes, *at, sizeof(a->bytes));
	*at += sizeof(a->bytes);
	return (a->family == 4 && a->prefix <= 32) || (a->family == 6 && a->prefix <= 128);
}

bool tt_tcp_card_read(const void *bytes, size_t length, struct tcp_card *card)
{
	const uint8_t *at = bytes;

	if (length < CARD_HEAD || wire_get(&at, 1) != CARD_VERSION)
		return false;
	card->count = (int)wire_get(&at, 1);
	card->rails = (uint8_t)wire_get(&at, 1);
	card->port = (uint16_t)wire_get(&at, 2);
	card->machine = wire_get(&at, 8);
	card->network = wire_get(&at, 8);
	if (card->count > TCP_ADDRESSES_MAX || card->rails > TCP_RAILS_MAX ||
	    length != CARD_HEAD + (size_t)card->count * CARD_ENTRY)
		return false;
	for (int i = 0; i < card->count; i++)
		if (!address_read(&at, &card->at[i]))
			return false;
	return true;
}

static size_t width(const struct tcp_address *a)
{
	return a->family == 4 ? 4 : 16;
}

bool tt_tcp_is_loopback(const struct tcp_address *a)
{
	return a->family == 4 ? a->bytes[0] == 127
			      : IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)a->bytes);
}

bool tt_tcp_is_link_local(const struct tcp_address *a)
{
	return a->family == 6 && a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
}

static bool same_address(const struct tcp_address *a, const struct tcp_address *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, width(a)) == 0;
}

static bool same_subnet(const struct tcp_address *own, const struct tcp_address *other)
{
	const unsigned whole = own->prefix / 8, rest = own->prefix % 8;

	if (own->family != other->family || memcmp(own->bytes, other->bytes, whole) != 0)
		return false;
	return rest == 0 || (own->bytes[whole] ^ other->bytes[whole]) >> (8 - rest) == 0;
}

static bool same_network(const struct tcp_card *a, const struct tcp_card *b)
{
	return a->machine == b->machine && a->network == b->network;
}

/* NULL: usable over *path. Otherwise why not. */
static const char *judge(const struct tcp_card *from, const struct tcp_card *to,
			 const struct tcp_address *a, enum tcp_path *path)
{
	const bool shared = same_network(from, to);
	bool family = false;

	if (tt_tcp_is_loopback(a)) {
		*path = TCP_PATH_LOOPBACK;
		return shared ? NULL : "loopback of another machine or network namespace";
	}
	*path = tt_tcp_is_link_local(a) ? TCP_PATH_LINK_LOCAL : TCP_PATH_ROUTED;
	for (int i = 0; i < from->count; i++) {
		const struct tcp_address *own = &from->at[i];

		if (tt_tcp_is_loopback(own) || own->family != a->family ||
		    tt_tcp_is_link_local(own) != tt_tcp_is_link_local(a))
			continue;
		if (!shared && same_address(own, a))
			return "this rank's own machine has the same address";
		family = true;
		if (!tt_tcp_is_link_local(a) && same_subnet(own, a))
			*path = TCP_PATH_SUBNET;
	}
	return family ? NULL : "this rank has no address of that kind to reach it from";
}

bool tt_tcp_connectable(const struct tcp_card *from, const struct tcp_card *to)
{
	enum tcp_path path;

	for (int i = 0; i < to->count; i++)
		if (!judge(from, to, &to->at[i], &path))
			return true;
	return false;
}

void tt_tcp_explain(const struct tcp_card *from, const struct tcp_card *to, int rank, char *text,
		    size_t size)
{
	char address[TCP_ADDRESS_TEXT];
	enum tcp_path path;

	bool remote = false;

	for (int i = 0; i < to->count; i++)
		remote |= !tt_tcp_is_loopback(&to->at[i]);
	if (!remote)
		snprintf(text, size, "rank %d offers %s", rank,
			 to->count ? "its loopback interface alone" : "no address");
	for (int i = to->count - 1; i >= 0 && remote; i--) { /* the first one's reason stays */
		const char *why = judge(from, to, &to->at[i], &path);

		if (why)
			snprintf(text, size, "rank %d offers %s%s: %s", rank,
				 tt_tcp_address_text(&to->at[i], address),
				 to->count > 1 ? " and others" : "", why);
	}
}

static struct tcp_candidate candidate(const struct tcp_address *a, uint16_t port,
				      enum tcp_path path, uint32_t scope)
{
	struct tcp_candidate c = { .path = path, .speed = a->speed };

	if (a->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)&c.to;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->bytes, 4);
		c.length = sizeof(*in);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&c.to;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		in6->sin6_scope_id = scope;
		memcpy(&in6->sin6_addr, a->bytes, 16);
		c.length = sizeof(*in6);
	}
	return c;
}

/* Does x come after y? */
static bool worse(const struct tcp_candidate *x, const struct tcp_candidate *y)
{
	if (x->path != y->path)
		return x->path > y->path;
	if (x->speed != y->speed)
		return x->speed < y->speed;
	return x->to.ss_family == AF_INET6 && y->to.ss_family == AF_INET;
}

static int insert(struct tcp_candidate *out, int n, struct tcp_candidate c)
{
	int i = n;

	if (n == TCP_CANDIDATES_MAX)
		return n;
	for (; i > 0 && worse(&out[i - 1], &c); i--)
		out[i] = out[i - 1];
	out[i] = c;
	return n + 1;
}

/* The peer's interface number says nothing here: try through each interface of this rank's. */
static int insert_link_local(const struct tcp_card *from, struct tcp_candidate *out, int n,
			     const struct tcp_address *a, uint16_t port)
{
	for (int i = 0; i < from->count; i++)
		if (tt_tcp_is_link_local(&from->at[i]))
			n = insert(out, n,
				   candidate(a, port, TCP_PATH_LINK_LOCAL, from->at[i].scope));
	return n;
}

int tt_tcp_candidates(const struct tcp_card *from, const struct tcp_card *to,
		      struct tcp_candidate *out, bool log)
{
	const bool local = same_network(from, to);
	char text[TCP_ADDRESS_TEXT];
	int n = 0;

	for (int i = 0; i < to->count; i++) {
		enum tcp_path path;
		const char *why = judge(from, to, &to->at[i], &path);

		if (why && log)
			tt_log(DEBUG, TCP, "address %s passed over: %s",
			       tt_tcp_address_text(&to->at[i], text), why);
		if (why)
			continue;
		if (path == TCP_PATH_LINK_LOCAL)
			n = insert_link_local(from, out, n, &to->at[i], to->port);
		else
			n = insert(out, n, candidate(&to->at[i], to->port, path, 0));
	}
	for (int i = 0; i < n; i++)
		out[i].local = local;
	return n;
}

/* The sockets' addresses of a way. */
static struct tcp_candidate way_of(const struct tcp_address *own, const struct tcp_address *other,
				   uint16_t port)
{
	struct tcp_candidate way = candidate(other, port, TCP_PATH_SUBNET, 0);
	const struct tcp_candidate here = candidate(own, 0, TCP_PATH_SUBNET, 0);

	way.from = here.to;
	way.from_length = here.length;
	if (own->speed < way.speed)
		way.speed = own->speed;
	return way;
}

static bool is_among(const uint32_t *scopes, int n, uint32_t scope)
{
	for (int i = 0; i < n; i++)
		if (scopes[i] == scope)
			return true;
	return false;
}

int tt_tcp_ways(const struct tcp_card *from, const struct tcp_card *to,
		struct tcp_candidate out[TCP_RAILS_MAX])
{
	const bool any_speed = from->rails || to->rails;
	uint32_t used[2][TCP_RAILS_MAX];
	enum tcp_path path;
	int n = 0;

	for (int i = 0; i < to->count && !same_network(from, to); i++) {
		const struct tcp_address *other = &to->at[i];

		if (judge(from, to, other, &path) || path != TCP_PATH_SUBNET)
			continue;
		for (int k = 0; k < from->count && n < TCP_RAILS_MAX; k++) {
			const struct tcp_address *own = &from->at[k];

			if (tt_tcp_is_loopback(own) || !same_subnet(own, other) ||
			    (!any_speed && (!own->speed || !other->speed)) ||
			    is_among(used[0], n, own->scope) || is_among(used[1], n, other->scope))
				continue;
			used[0][n] = own->scope;
			used[1][n] = other->scope;
			out[n++] = way_of(own, other, to->port);
		}
	}
	return n;
}

uint32_t tt_tcp_scope_of(const struct tcp_card *card, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const uint8_t family = address->ss_family == AF_INET ? 4 : 6;
	const void *bytes = family == 4 ? (const void *)&in->sin_addr : &in6->sin6_addr;

	for (int i = 0; i < card->count; i++)
		if (card->at[i].family == family &&
		    memcmp(card->at[i].bytes, bytes, width(&card->at[i])) == 0)
			return card->at[i].scope;
	return 0;
}

int tt_tcp_rail_count(const struct tcp_card *from, const struct tcp_card *to)
{
	struct tcp_candidate ways[TCP_RAILS_MAX];
	const int less = from->rails < to->rails ? from->rails : to->rails,
		  more = from->rails + to->rails - less;
	const int n = less ? less : more ? more : tt_tcp_ways(from, to, ways);

	return n > 1 ? n : 1;
}

const char *tt_tcp_path_name(enum tcp_path path)
{
	static const char *const names[] = {
		[TCP_PATH_LOOPBACK] = "loopback",
		[TCP_PATH_SUBNET] = "same subnet",
		[TCP_PATH_ROUTED] = "routed",
		[TCP_PATH_LINK_LOCAL] = "link-local",
	};

	return names[path];
}

const char *tt_tcp_text(const struct sockaddr_storage *address, char text[TCP_ADDRESS_TEXT])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	char ip[INET6_ADDRSTRLEN] = "?", scope[16] = "";

	if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(text, TCP_ADDRESS_TEXT, "%s:%d", ip, ntohs(in->sin_port));
	} else if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], ip, sizeof(ip));
		snprintf(text, TCP_ADDRESS_TEXT, "%s:%d", ip, ntohs(in6->sin6_port));
	} else {
		inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
		if (in6->sin6_scope_id)
			snprintf(scope, sizeof(scope), "%%%u", in6->sin6_scope_id);
		snprintf(text, TCP_ADDRESS_TEXT, "[%s%s]:%d", ip, scope, ntohs(in6->sin6_port));
	}
	return text;
}

const char *tt_tcp_address_text(const struct tcp_address *address, char text[TCP_ADDRESS_TEXT])
{
	char ip[INET6_ADDRSTRLEN] = "?";

	inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, ip, sizeof(ip));
	snprintf(text, TCP_ADDRESS_TEXT, "%s/%d", ip, address->prefix);
	return text;
}
