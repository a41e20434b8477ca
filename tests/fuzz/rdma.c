/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other of RDMA. */
#include <string.h>

#include "card.h"
#include "fuzz.h"
#include "hello.h"

/* ---- of their ports: two cards, and the ports of theirs that are matched */

/* A card that is taken says what it says in one way only. */
static bool read_card(const uint8_t *data, size_t size, struct rdma_port ports[RDMA_PORTS_MAX],
		      int *n)
{
	uint8_t again[RDMA_CARD_MAX];

	if (!tt_rdma_card_read(data, size, ports, n))
		return false;
	FUZZ_PROMISE(*n >= 0 && *n <= RDMA_PORTS_MAX);
	FUZZ_PROMISE(tt_rdma_card_write(ports, *n, again) == size &&
		     memcmp(again, data, size) == 0);
	for (int i = 0; i < *n; i++)
		FUZZ_PROMISE(ports[i].prefix <= 128 && ports[i].number > 0 &&
			     ports[i].device[0] == '\0');
	return true;
}

FUZZ(rdma_card)
{
	struct rdma_port own[RDMA_PORTS_MAX], theirs[RDMA_PORTS_MAX];
	int n, m, here[RDMA_PORTS_MAX][2], there[RDMA_PORTS_MAX][2], count, other;
	const size_t half = size > 1 && data[1] <= RDMA_PORTS_MAX
				    ? 2 + (size_t)data[1] * RDMA_CARD_ENTRY
				    : size;
	unsigned taken[2] = { 0, 0 };

	if (half > size || !read_card(data, half, own, &n) ||
	    !read_card(data + half, size - half, theirs, &m))
		return;
	tt_rdma_match(own, n, theirs, m, here, &count);
	tt_rdma_match(theirs, m, own, n, there, &other);
	FUZZ_PROMISE(count == other && count <= n && count <= m);
	for (int i = 0; i < count; i++) {
		FUZZ_PROMISE(here[i][0] < n && here[i][1] < m);
		FUZZ_PROMISE(!(taken[0] & 1u << here[i][0]) && !(taken[1] & 1u << here[i][1]));
		taken[0] |= 1u << here[i][0];
		taken[1] |= 1u << here[i][1];
		FUZZ_PROMISE(here[i][0] == there[i][1] && here[i][1] == there[i][0]);
	}
}

/* ---- of the queue pairs at the other end of a link */

FUZZ(rdma_hello)
{
	uint8_t again[RDMA_HELLO_BYTES];
	struct rdma_hello hello;

	if (size != RDMA_HELLO_BYTES || !tt_rdma_hello_read(data, &hello))
		return;
	FUZZ_PROMISE(hello.paths <= RDMA_PORTS_MAX);
	for (int i = 0; i < RDMA_PORTS_MAX; i++) {
		const struct rdma_hello_path *path = &hello.path[i];

		FUZZ_PROMISE(path->packet < 1u << 24 &&
			     (path->queue == 0 || (path->mtu >= 1 && path->mtu <= 5)));
	}
	tt_rdma_hello_write(&hello, again);
	FUZZ_PROMISE(memcmp(again, data, size) == 0);
}
