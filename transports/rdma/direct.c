/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way of many bytes straight from the writer's memory into the reader's, where both can
 * be registered.
 *
 * A reader that is asked for many bytes offers the place that they are for, by the stream's
 * position, and goes on reading; a writer that comes to that position writes there what it has.
 * Neither waits for the other: what has gone through the ring before the offer came has gone,
 * and the offer holds for the rest. The writer's caller gets its memory back when the device has
 * word that all has arrived. What is last goes through the ring, behind the rest, so that the
 * way is not idle until then. */
#include "endpoint.h"

#define LEAST_BYTES RDMA_CHUNK_BYTES
#define MOST_BYTES  ((size_t)8 << 20) /* before the caller is told that they moved */
#define UNDER_WAY                                                                                  \
	2 /* messages of a path that the device has no word of: enough for the way, and no more
	   * than a slow receiver can hold */

static void put_all(struct rdma_registration *registrations[RDMA_PORTS_MAX])
{
	for (int i = 0; i < RDMA_PORTS_MAX; i++) {
		if (registrations[i])
			tt_rdma_registration_put(registrations[i]);
		registrations[i] = NULL;
	}
}

/* With every path's device, or with none. */
static bool get_all(const struct rdma_link *link, const void *pointer, size_t bytes,
		    struct rdma_registration *registrations[RDMA_PORTS_MAX])
{
	for (int i = 0; i < link->paths; i++) {
		registrations[i] =
			tt_rdma_registration_get(link->path[i].rail->adapter, pointer, bytes);
		if (!registrations[i]) {
			put_all(registrations);
			return false;
		}
	}
	return true;
}

/* ---- the writer */

/* Bytes from here on that the peer has offered a place for. */
static size_t offered_bytes(const struct rdma_link *link)
{
	const struct rdma_offer *offer = &link->offered;

	if (offer->bytes == 0 || link->written < offer->at ||
	    link->written - offer->at >= offer->bytes)
		return 0;
	return (size_t)(offer->at + offer->bytes - link->written);
}

/* False: the memory cannot be registered, or is too short. */
static bool begin(struct rdma_link *link, const struct iovec *iov)
{
	struct rdma_direct *direct = &link->direct;
	size_t bytes = offered_bytes(link);

	if (bytes > iov->iov_len)
		bytes = iov->iov_len;
	if (bytes > MOST_BYTES)
		bytes = MOST_BYTES;
	if (bytes < LEAST_BYTES)
		return false;
	if (!get_all(link, iov->iov_base, bytes, direct->source)) {
		link->offered.bytes = 0;
		return false;
	}
	direct->bytes = bytes;
	direct->straight = bytes < 2 * LEAST_BYTES ? bytes : bytes - LEAST_BYTES;
	direct->posted = 0;
	direct->from = iov->iov_base;
	direct->to = link->offered.address + (link->written - link->offered.at);
	memcpy(direct->key, link->offered.key, sizeof(direct->key));
	direct->end = link->messages;
	for (int i = 0; i < link->paths; i++)
		link->path[i].direct = 0;
	tt_log(DEBUG, RDMA, "%zu bytes to rank %d go straight from memory to memory",
	       direct->straight, link->base.peer);
	return true;
}

void tt_rdma_direct_post(struct rdma_link *link, int path, const struct rdma_message *message,
			 uint32_t immediate)
{
	struct rdma_direct *direct = &link->direct;
	struct rdma_post post = { .to = link->peer.memory,
				  .rkey = link->peer.path[path].key,
				  .tells = true,
				  .immediate = immediate,
				  .signalled = true };

	if (!message->done) {
		post.from = direct->from + message->from;
		post.bytes = message->bytes;
		post.lkey = direct->source[path]->mr->lkey;
		post.to = direct->to + message->from;
		post.rkey = direct->key[path];
	}
	if (tt_rdma_post(link, path, &post))
		link->path[path].direct = link->path[path].sends;
}

/* Sends of the path up to the last of these that the device has no word of. */
static uint64_t under_way(const struct rdma_path *path)
{
	return path->direct > path->sends_done ? path->direct - path->sends_done : 0;
}

static bool is_completed(const struct rdma_link *link)
{
	for (int i = 0; i < link->paths; i++)
		if (under_way(&link->path[i]) > 0)
			return false;
	return !link->broken;
}

/* Has word come of all that was posted? From the device or from the peer, whichever is first:
 * soft-RoCE that has lost packets may say nothing until something else is sent. */
static bool is_known(const struct rdma_link *link)
{
	return link->noted >= link->direct.end || is_completed(link);
}

static void post_some(struct rdma_link *link)
{
	struct rdma_direct *direct = &link->direct;
	int path;

	while (direct->posted < direct->straight && (path = tt_rdma_ring_path(link)) >= 0 &&
	       (under_way(&link->path[path]) < UNDER_WAY || is_known(link))) {
		const size_t left = direct->straight - direct->posted,
			     bytes = left < RDMA_DIRECT_BYTES ? left : RDMA_DIRECT_BYTES;
		const struct rdma_message message = { .bytes = (uint32_t)bytes,
						      .direct = true,
						      .from = direct->posted };

		direct->posted += bytes;
		link->written += bytes;
		tt_rdma_direct_post(link, path, &message, tt_rdma_ring_note(link, path, &message));
		direct->end = link->messages;
	}
	if (direct->posted >= direct->straight && direct->posted < direct->bytes) {
		const struct iovec rest = { (void *)(uintptr_t)(direct->from + direct->posted),
					    direct->bytes - direct->posted };

		direct->posted += tt_rdma_ring_write(link, &rest, 1);
	}
}

static bool is_done(const struct rdma_link *link)
{
	return link->direct.bytes > 0 && link->direct.posted == link->direct.bytes &&
	       is_known(link);
}

static size_t finish(struct rdma_link *link)
{
	const size_t bytes = link->direct.bytes;

	for (int i = 0; i < RDMA_MESSAGES; i++)
		link->sent[i].done |= link->sent[i].direct;
	put_all(link->direct.source);
	link->direct.bytes = 0;
	return bytes;
}

bool tt_rdma_direct_write(struct rdma_link *link, const struct iovec *iov, size_t *moved)
{
	*moved = 0;
	if (link->direct.bytes == 0 && !begin(link, iov))
		return false;
	post_some(link);
	if (!is_done(link))
		tt_rdma_poll(rdma_endpoint_of_link(link));
	if (is_done(link))
		*moved = finish(link);
	return true;
}

/* ---- the reader */

void tt_rdma_direct_offer(struct rdma_link *link, const struct iovec *iov)
{
	struct rdma_open_offer *ours = &link->ours;
	const uint32_t slot = link->offers % RDMA_OFFERS;
	const size_t unread = (size_t)(link->arrived - link->taken);

	if (iov->iov_len < unread + LEAST_BYTES || ours->open || link->broken ||
	    link->taken < link->no_offer_before)
		return;
	if (!get_all(link, iov->iov_base, iov->iov_len, ours->target)) {
		link->no_offer_before = link->taken + iov->iov_len;
		return;
	}
	ours->offer = (struct rdma_offer){ .at = link->arrived,
					   .bytes = iov->iov_len - unread,
					   .address = (uintptr_t)iov->iov_base + unread };
	for (int i = 0; i < link->paths; i++)
		ours->offer.key[i] = ours->target[i]->mr->rkey;
	link->memory->offers[slot] = ours->offer;
	ours->open = tt_rdma_ring_offer(link, slot);
	if (ours->open)
		link->offers++;
	else
		put_all(ours->target);
}

bool tt_rdma_direct_taken(struct rdma_link *link)
{
	struct rdma_open_offer *ours = &link->ours;

	if (!ours->open || link->taken < ours->offer.at + ours->offer.bytes)
		return false;
	put_all(ours->target);
	ours->open = false;
	return true;
}

/* ---- both */

bool tt_rdma_direct_is_on(const struct rdma_link *link)
{
	return link->ours.open || link->direct.bytes > 0;
}

void tt_rdma_direct_end(struct rdma_link *link)
{
	put_all(link->ours.target);
	put_all(link->direct.source);
	link->ours.open = false;
	link->direct.bytes = 0;
}
