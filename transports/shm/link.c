/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the links: a byte ring in the arena for each direction. The data of a ring are mapped
 * twice in a row, so every span is contiguous. */
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"
#include "log.h"
#include "shm.h"

/* The reader starts on a chunk while the writer copies the next. */
#define PUBLISH_BYTES (16u * 1024)
/* … and gets all of a short write at once, a header and a message: each look costs a line. */
#define TOGETHER_BYTES (2u * 1024)

struct shm_link {
	struct tt_link base;
	struct shm_ring *out, *in;
	uint8_t *out_data, *in_data;
	uint64_t out_tail, out_head; /* out_head: last seen */
	uint64_t in_head, in_tail;   /* in_tail: last seen */
	int local_peer;
};

static struct shm_link *shm_link_of(struct tt_link *link)
{
	assert(link->ops == &tt_transport_shm);
	return (struct shm_link *)link;
}

static const struct shm_arena *arena_of(const struct shm_link *link)
{
	return &shm_endpoint_of(link->base.endpoint)->arena;
}

tutti_result_t shm_connect(struct tt_endpoint *endpoint, int peer, enum tt_channel channel,
			   struct tt_link **out)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	const int local_peer = ep->local_peer_of[peer];
	const size_t there = shm_ring_offset(&ep->arena, ep->me, local_peer, channel);
	const size_t back = shm_ring_offset(&ep->arena, local_peer, ep->me, channel);
	struct shm_link *link = calloc(1, sizeof(*link));

	if (!link)
		return tt_fail(TUTTI_ERR_NO_MEMORY, SHM, "no memory for a link to rank %d", peer);
	link->base = (struct tt_link){ &tt_transport_shm, endpoint, peer };
	link->local_peer = local_peer;
	link->out = (struct shm_ring *)(ep->arena.base + there);
	link->in = (struct shm_ring *)(ep->arena.base + back);
	link->out_data = shm_ring_map(&ep->arena, there);
	if (!link->out_data)
		goto free_link;
	link->in_data = shm_ring_map(&ep->arena, back);
	if (!link->in_data)
		goto unmap_out;
	/* the peer may have written before this side connected */
	link->in_tail = link->in_head = atomic_load_explicit(&link->in->head, memory_order_relaxed);
	link->out_tail = atomic_load_explicit(&link->out->tail, memory_order_relaxed);
	link->out_head = atomic_load_explicit(&link->out->head, memory_order_acquire);
	*out = &link->base;
	return TUTTI_OK;
unmap_out:
	shm_ring_unmap(link->out_data);
free_link:
	free(link);
	return tt_fail_errno(SHM, "map the rings between this rank and rank %d", peer);
}

static size_t capacity(struct shm_link *link)
{
	size_t free_bytes = SHM_RING_BYTES - (size_t)(link->out_tail - link->out_head);

	if (free_bytes < PUBLISH_BYTES) {
		/* acquire: pairs with the release in shm_release(); the bytes were read before */
		link->out_head = atomic_load_explicit(&link->out->head, memory_order_acquire);
		free_bytes = SHM_RING_BYTES - (size_t)(link->out_tail - link->out_head);
	}
	return free_bytes;
}

static void publish(struct shm_link *link)
{
	/* release: pairs with the acquire in arrived(); the bytes are there before */
	atomic_store_explicit(&link->out->tail, link->out_tail, memory_order_release);
}

/* Into this much room, which there is. */
static void put(struct shm_link *link, const void *src, size_t bytes)
{
	memcpy(link->out_data + link->out_tail % SHM_RING_BYTES, src, bytes);
	link->out_tail += bytes;
}

static bool peer_left(const struct shm_link *link)
{
	return shm_left(shm_endpoint_of(link->base.endpoint), link->local_peer);
}

/* The ring is full: will the peer ever read? */
static ssize_t no_room_yet(struct shm_link *link)
{
	if (!peer_left(link) || capacity(link) > 0)
		return 0;
	return tt_fail(TUTTI_ERR_PEER_LOST, SHM,
		       "rank %d left the communicator while this rank had more to send to it",
		       link->base.peer);
}

/* Each chunk is for the reader as soon as it is there. */
static size_t put_in_chunks(struct shm_link *link, const struct iovec *iov, int n)
{
	size_t total = 0;

	for (int i = 0; i < n; i++) {
		for (size_t done = 0; done < iov[i].iov_len;) {
			size_t chunk = capacity(link);

			if (chunk == 0)
				return total;
			if (chunk > PUBLISH_BYTES)
				chunk = PUBLISH_BYTES;
			if (chunk > iov[i].iov_len - done)
				chunk = iov[i].iov_len - done;
			put(link, (const uint8_t *)iov[i].iov_base + done, chunk);
			publish(link);
			done += chunk;
			total += chunk;
		}
	}
	return total;
}

static void put_at_once(struct shm_link *link, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++)
		put(link, iov[i].iov_base, iov[i].iov_len);
	publish(link);
}

ssize_t shm_write(struct tt_link *base, const struct iovec *iov, int n)
{
	struct shm_link *link = shm_link_of(base);
	size_t total = 0;

	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (total <= TOGETHER_BYTES && total <= capacity(link))
		put_at_once(link, iov, n);
	else
		total = put_in_chunks(link, iov, n);
	if (total == 0)
		return no_room_yet(link);
	shm_wake(base->endpoint);
	return (ssize_t)total;
}

static size_t arrived(struct shm_link *link)
{
	/* acquire: pairs with the release in publish() */
	link->in_tail = atomic_load_explicit(&link->in->tail, memory_order_acquire);
	return (size_t)(link->in_tail - link->in_head);
}

/* `want` bytes have not arrived: will they ever? */
static ssize_t nothing_yet(struct shm_link *link, size_t want)
{
	if (!peer_left(link) || arrived(link) >= want)
		return 0; /* the caller comes again */
	return tt_fail(TUTTI_ERR_PEER_LOST, SHM,
		       "rank %d left the communicator while this rank waited for its data",
		       link->base.peer);
}

/* A header and a short message behind it: asked for here, they come with the peer's `tail` and not
 * after it. */
static void fetch_next_lines(const struct shm_link *link)
{
	const uint8_t *next = link->in_data + link->in_head % SHM_RING_BYTES;

	__builtin_prefetch(next);
	__builtin_prefetch(next + SHM_LINE);
}

ssize_t shm_peek(struct tt_link *base, size_t want, size_t limit, const void **data)
{
	struct shm_link *link = shm_link_of(base);
	size_t bytes = (size_t)(link->in_tail - link->in_head);

	if (bytes < want || bytes < limit)
		bytes = arrived(link);
	if (bytes < want) {
		fetch_next_lines(link);
		return nothing_yet(link, want);
	}
	*data = link->in_data + link->in_head % SHM_RING_BYTES;
	return (ssize_t)(bytes < limit ? bytes : limit);
}

void shm_release(struct tt_link *base, size_t bytes)
{
	struct shm_link *link = shm_link_of(base);

	link->in_head += bytes;
	/* release: pairs with the acquire in capacity() */
	atomic_store_explicit(&link->in->head, link->in_head, memory_order_release);
	shm_wake(base->endpoint);
}

ssize_t shm_read(struct tt_link *base, const struct iovec *iov, int n)
{
	struct shm_link *link = shm_link_of(base);
	size_t total = 0;

	for (int i = 0; i < n; i++) {
		size_t done = 0;

		while (done < iov[i].iov_len) {
			size_t chunk = (size_t)(link->in_tail - link->in_head);

			if (chunk == 0)
				chunk = arrived(link);
			if (chunk == 0)
				goto out;
			if (chunk > PUBLISH_BYTES)
				chunk = PUBLISH_BYTES;
			if (chunk > iov[i].iov_len - done)
				chunk = iov[i].iov_len - done;
			memcpy((uint8_t *)iov[i].iov_base + done,
			       link->in_data + link->in_head % SHM_RING_BYTES, chunk);
			link->in_head += chunk;
			done += chunk;
			total += chunk;
			/* release: pairs with the acquire in capacity() */
			atomic_store_explicit(&link->in->head, link->in_head, memory_order_release);
		}
	}
out:
	if (total == 0)
		return nothing_yet(link, 1);
	shm_wake(base->endpoint);
	return (ssize_t)total;
}

bool shm_ready(const struct tt_link *link)
{
	return true;
}

void shm_close(struct tt_link *base)
{
	if (!base)
		return;
	struct shm_link *link = shm_link_of(base);

	if (arena_of(link)->base) { /* else the rings are gone as well */
		shm_ring_unmap(link->out_data);
		shm_ring_unmap(link->in_data);
	}
	free(link);
}
