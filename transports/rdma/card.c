/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what cards look like on the wire, and which ports reach each other. Pure: everything
 * follows from two cards, so that both ends come to the same answer. Cards come from peers and
 * are not trusted. */
#include "card.h"

#include <assert.h>
#include <netinet/in.h>
#include <string.h>

#include "transport.h"
#include "wire.h"

#define CARD_VERSION 1
static_assert(RDMA_CARD_MAX <= TT_ADDRESS_MAX, "a full card fits");

size_t tt_rdma_card_write(const struct rdma_port *ports, int n, void *out)
{
	uint8_t *at = out;

	at = wire_put(at, CARD_VERSION, 1);
	at = wire_put(at, (uint64_t)n, 1);
	for (int i = 0; i < n; i++) {
		at = wire_put(at, ports[i].infiniband, 1);
		at = wire_put(at, ports[i].number, 1);
		at = wire_put(at, ports[i].prefix, 1);
		at = wire_put(at, ports[i].lid, 2);
		at = wire_put(at, ports[i].mbits, 4);
		memcpy(at, ports[i].gid, 16);
		at += 16;
	}
	return (size_t)(at - (uint8_t *)out);
}

/* A GID that names one port. */
static bool is_unicast(const uint8_t gid[16])
{
	const struct in6_addr *address = (const struct in6_addr *)gid;

	return !IN6_IS_ADDR_UNSPECIFIED(address) && !IN6_IS_ADDR_MULTICAST(address);
}

static bool port_read(const uint8_t **at, struct rdma_port *port)
{
	const unsigned infiniband = (unsigned)wire_get(at, 1);

	*port = (struct rdma_port){ .infiniband = infiniband == 1, .gid_index = -1, .node = -1 };
	port->number = (uint8_t)wire_get(at, 1);
	port->prefix = (uint8_t)wire_get(at, 1);
	port->lid = (uint16_t)wire_get(at, 2);
	port->mbits = (uint32_t)wire_get(at, 4);
	memcpy(port->gid, *at, 16);
	*at += 16;
	if (infiniband > 1 || port->number == 0 || !is_unicast(port->gid))
		return false;
	return port->infiniband ? port->prefix == 64 : port->prefix <= 128 && port->lid == 0;
}

/* Ports of the same GID could not be told apart. */
static bool is_among(const struct rdma_port *port, const struct rdma_port *others, int n)
{
	for (int i = 0; i < n; i++)
		if (others[i].infiniband == port->infiniband &&
		    memcmp(others[i].gid, port->gid, 16) == 0)
			return true;
	return false;
}

bool tt_rdma_card_read(const void *bytes, size_t length, struct rdma_port ports[RDMA_PORTS_MAX],
		       int *n)
{
	const uint8_t *at = bytes;

	if (length < 2 || wire_get(&at, 1) != CARD_VERSION)
		return false;
	*n = (int)wire_get(&at, 1);
	if (*n > RDMA_PORTS_MAX || length != 2 + (size_t)*n * RDMA_CARD_ENTRY)
		return false;
	for (int i = 0; i < *n; i++)
		if (!port_read(&at, &ports[i]) || is_among(&ports[i], ports, i))
			return false;
	return true;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, int bits)
{
	const int whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, (size_t)whole) != 0)
		return false;
	return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

/* Each is in the other's network. */
static bool same_fabric(const struct rdma_port *a, const struct rdma_port *b)
{
	return a->infiniband == b->infiniband &&
	       same_bits(a->gid, b->gid, a->prefix > b->prefix ? a->prefix : b->prefix);
}

/* The lower of two GIDs, and the other one: the same from either end. */
static void in_order(const struct rdma_port *a, const struct rdma_port *b, const uint8_t *gids[2])
{
	const int swap = memcmp(a->gid, b->gid, 16) > 0;

	gids[swap] = a->gid;
	gids[!swap] = b->gid;
}

/* Does pair x come before pair y, at either end? Places count first, as each rank holds its best
 * port first. What is left cannot tie: two pairs of the same two GIDs are of ports that each
 * meet a port of the same GID first. */
static bool before(const struct rdma_port *mine, const struct rdma_port *theirs, const int x[2],
		   const int y[2])
{
	const uint8_t *gx[2], *gy[2];
	int order;

	if (x[0] + x[1] != y[0] + y[1])
		return x[0] + x[1] < y[0] + y[1];
	if (mine[x[0]].infiniband != mine[y[0]].infiniband)
		return mine[x[0]].infiniband;
	in_order(&mine[x[0]], &theirs[x[1]], gx);
	in_order(&mine[y[0]], &theirs[y[1]], gy);
	order = memcmp(gx[0], gy[0], 16);
	return order ? order < 0 : memcmp(gx[1], gy[1], 16) < 0;
}

/* The first pair of ports that are not taken. */
static bool next_pair(const struct rdma_port *mine, int n, const struct rdma_port *theirs, int m,
		      const bool taken[2][RDMA_PORTS_MAX], int pair[2])
{
	bool any = false;

	for (int i = 0; i < n; i++) {
		for (int j = 0; j < m; j++) {
			const int one[2] = { i, j };

			if (taken[0][i] || taken[1][j] || !same_fabric(&mine[i], &theirs[j]))
				continue;
			if (!any || before(mine, theirs, one, pair))
				memcpy(pair, one, sizeof(one));
			any = true;
		}
	}
	return any;
}

void tt_rdma_match(const struct rdma_port *mine, int n, const struct rdma_port *theirs, int m,
		   int pairs[RDMA_PORTS_MAX][2], int *count)
{
	bool taken[2][RDMA_PORTS_MAX] = { 0 };

	for (*count = 0;
	     *count < RDMA_PORTS_MAX && next_pair(mine, n, theirs, m, taken, pairs[*count]);
	     ++*count)
		taken[0][pairs[*count][0]] = taken[1][pairs[*count][1]] = true;
}
