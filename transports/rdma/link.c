/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the life of links, and which way their bytes go. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "endpoint.h"

static struct rdma_link *rdma_link_of(struct tt_link *base)
{
	return (struct rdma_link *)base;
}

static void note_why(struct rdma_link *link, const char *format, va_list args)
{
	vsnprintf(link->why, sizeof(link->why), format, args);
	tt_log(DEBUG, RDMA, "rank %d channel %d: %s", rdma_endpoint_of_link(link)->rank,
	       link->channel, link->why);
}

void tt_rdma_link_fail(struct rdma_link *link, const char *format, ...)
{
	va_list args;

	if (link->state == RDMA_FAILED)
		return;
	rdma_endpoint_of_link(link)->handshake -= tt_rdma_handshakes(link);
	link->state = RDMA_FAILED;
	va_start(args, format);
	note_why(link, format, args);
	va_end(args);
}

void tt_rdma_link_break(struct rdma_link *link, const char *format, ...)
{
	va_list args;

	if (link->broken || link->state == RDMA_FAILED)
		return;
	link->broken = true;
	va_start(args, format);
	note_why(link, format, args);
	va_end(args);
}

/* ---- beginning */

tutti_result_t tt_rdma_link_number(struct rdma_link *link)
{
	struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	if (e->nlinks == e->links_capacity) {
		const uint32_t capacity = e->links_capacity ? 2 * e->links_capacity : 16;
		struct rdma_link **links = realloc(e->links, capacity * sizeof(struct rdma_link *));

		if (!links)
			return tt_fail(TUTTI_ERR_NO_MEMORY, RDMA,
				       "no memory for a link with rank %d", link->base.peer);
		e->links = links;
		e->links_capacity = capacity;
	}
	if (link->id < e->nlinks && e->links[link->id] == link)
		e->links[link->id] = NULL;
	link->id = e->nlinks;
	e->links[e->nlinks++] = link;
	return TUTTI_OK;
}

/* Paths between the ports through which the two reach each other, in the same order at both
 * ends. */
static tutti_result_t open_paths(struct rdma_link *link)
{
	struct rdma_endpoint *e = rdma_endpoint_of_link(link);
	int pairs[RDMA_PORTS_MAX][2];

	if (e->nports == 0)
		return tt_fail(TUTTI_ERR_SYSTEM, RDMA, "this rank's device could not be opened");
	const int n = tt_rdma_pairs(&e->known[e->rank], &e->known[link->base.peer], pairs);
	if (n == 0)
		return tt_fail(TUTTI_ERR_SYSTEM, RDMA, "their devices share no network");
	for (int i = 0; i < n; i++) {
		struct rdma_rail *rail = &e->rails[pairs[i][0]];

		if (rail->links == rail->links_max)
			return tt_fail(
				TUTTI_ERR_SYSTEM, RDMA,
				"the completion queue of %s has space for no more than %d links",
				rail->adapter->name, rail->links_max);
		rail->links++;
		link->path[link->paths++].rail = rail;
	}
	const tutti_result_t result = tt_rdma_memory_open(link);
	return result ? result : tt_rdma_queues_open(link);
}

tutti_result_t tt_rdma_link_connect(struct tt_endpoint *base, int peer, enum tt_channel channel,
				    struct tt_link **out)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);
	struct rdma_link *link = calloc(1, sizeof(*link));

	if (!link)
		return tt_fail(TUTTI_ERR_NO_MEMORY, RDMA, "no memory for a link with rank %d",
			       peer);
	link->base = (struct tt_link){ base->ops, base, peer };
	link->channel = channel;
	tutti_result_t result = e->tcp->ops->connect(e->tcp, peer, channel, &link->tcp);
	if (!result)
		result = tt_rdma_link_number(link);
	if (result) {
		if (link->tcp)
			link->tcp->ops->close(link->tcp);
		free(link);
		return result;
	}
	*out = &link->base;
	if (channel == TT_CHANNEL_CONTROL) {
		link->state = RDMA_BY_TCP; /* what is said of the end of a communicator is short,
					    * and must not depend on a device */
		return TUTTI_OK;
	}
	if (open_paths(link) != TUTTI_OK) {
		tt_log(WARN, RDMA, "rank %d uses TCP with rank %d: %s", e->rank, peer,
		       tt_thread_error());
		tt_rdma_memory_close(link);
		link->mine = (struct rdma_hello){ 0 };
		link->broken = false;
	}
	tt_rdma_handshake(link);
	return TUTTI_OK;
}

/* ---- bytes */

static ssize_t failed(const struct rdma_link *link)
{
	const struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	if (e->base.fault.result)
		return tt_fail(e->base.fault.result, RDMA, "%s", e->base.fault.text);
	return tt_fail(TUTTI_ERR_PEER_LOST, RDMA, "%s", link->why);
}

/* What the TCP link says, which ends when its peer does: 0, or why. While the link is up there
 * comes nothing but a hello, where the peer introduces it again. */
static ssize_t ask_tcp(struct rdma_link *link)
{
	const struct iovec one = { link->answer, 1 };
	const ssize_t got = link->tcp->ops->read(link->tcp, &one, 1);

	if (got <= 0)
		return got;
	tt_rdma_reconnect(link);
	link->heard = 1;
	return 0;
}

void tt_rdma_link_probe(struct rdma_link *link)
{
	if (link->state == RDMA_UP && ask_tcp(link) < 0)
		link->peer_ended = true;
}

static bool is_cut(const struct rdma_link *link)
{
	return link->state == RDMA_UP && link->broken;
}

/* Also what an introduction ends in, where that is another one: the caller may sleep next, and the
 * peer for want of a hello. */
static void introduce(struct rdma_link *link)
{
	uint32_t before;

	do {
		if (is_cut(link))
			tt_rdma_reconnect(link);
		before = link->id;
		tt_rdma_handshake_step(link);
	} while (link->id != before || is_cut(link));
}

/* The state in which bytes are to be moved, after what can be done to get there. */
static enum rdma_state advance(struct rdma_link *link)
{
	if (__builtin_expect(is_cut(link) || tt_rdma_handshakes(link), 0))
		introduce(link);
	return link->state;
}

static size_t write_some(struct rdma_link *link, const struct iovec *iov, int n)
{
	size_t moved;

	if (!tt_rdma_direct_write(link, iov, &moved))
		moved = tt_rdma_ring_write(link, iov, n);
	return moved;
}

ssize_t tt_rdma_link_write(struct tt_link *base, const struct iovec *iov, int n)
{
	struct rdma_link *link = rdma_link_of(base);

	switch (advance(link)) {
	case RDMA_UP: break;
	case RDMA_BY_TCP: return link->tcp->ops->write(link->tcp, iov, n);
	case RDMA_FAILED: return failed(link);
	default: return 0;
	}
	if (link->peer_ended)
		return ask_tcp(link);
	size_t moved = write_some(link, iov, n);
	if (moved == 0) { /* is there room by now? */
		tt_rdma_poll(rdma_endpoint_of(base->endpoint));
		moved = link->state == RDMA_UP ? write_some(link, iov, n) : 0;
	}
	return link->state == RDMA_FAILED ? failed(link) : (ssize_t)moved;
}

/* Nothing is there to be read: why? 0: it has not come yet. */
static ssize_t nothing(struct rdma_link *link)
{
	if (link->state == RDMA_FAILED)
		return failed(link);
	return link->peer_ended && link->state == RDMA_UP ? ask_tcp(link) : 0;
}

ssize_t tt_rdma_link_read(struct tt_link *base, const struct iovec *iov, int n)
{
	struct rdma_link *link = rdma_link_of(base);
	const enum rdma_state state = advance(link);

	if (state == RDMA_BY_TCP)
		return link->tcp->ops->read(link->tcp, iov, n);
	if (link->arrived == link->taken && state == RDMA_UP)
		tt_rdma_poll(rdma_endpoint_of(base->endpoint));
	if (state == RDMA_UP && n > 0)
		tt_rdma_direct_offer(link, iov);
	if (link->arrived == link->taken) /* otherwise also where the link has failed since */
		return nothing(link);
	return (ssize_t)tt_rdma_ring_read(link, iov, n);
}

ssize_t tt_rdma_link_peek(struct tt_link *base, size_t want, size_t limit, const void **data)
{
	struct rdma_link *link = rdma_link_of(base);
	const enum rdma_state state = advance(link);

	if (state == RDMA_BY_TCP)
		return link->tcp->ops->peek(link->tcp, want, limit, data);
	if (limit == 0)
		return 0;
	if (link->arrived - link->taken < (want ? want : 1) && state == RDMA_UP)
		tt_rdma_poll(rdma_endpoint_of(base->endpoint));
	if (link->arrived == link->taken)
		return nothing(link);
	const size_t there = tt_rdma_ring_peek(link, want, data);
	return (ssize_t)(there < limit ? there : limit);
}

void tt_rdma_link_release(struct tt_link *base, size_t bytes)
{
	struct rdma_link *link = rdma_link_of(base);

	if (link->state == RDMA_BY_TCP)
		link->tcp->ops->release(link->tcp, bytes);
	else
		tt_rdma_ring_release(link, bytes);
}

bool tt_rdma_link_ready(const struct tt_link *base)
{
	const struct rdma_link *link = (const struct rdma_link *)base;

	return link->state == RDMA_UP ||
	       (link->state == RDMA_BY_TCP && link->tcp->ops->ready(link->tcp));
}

/* ---- end */

static void free_link(struct rdma_link *link)
{
	struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	e->handshake -= tt_rdma_handshakes(link);
	link->state = RDMA_FAILED;
	tt_rdma_memory_close(link);
	link->tcp->ops->close(link->tcp);
	e->links[link->id] = NULL;
	free(link);
}

/* Callers' memory is theirs from now on, and may not be written to any more, whatever becomes of
 * what was sent. */
static bool is_done(struct rdma_link *link)
{
	if (tt_rdma_direct_is_on(link) || link->state == RDMA_FAILED || link->state == RDMA_BY_TCP)
		return true;
	if (link->state != RDMA_UP)
		return !link->reconnecting;
	return !link->broken && tt_rdma_ring_is_drained(link);
}

/* Its TCP link stays as long as it sends: the peer takes the end of that for the end of the
 * bytes. */
void tt_rdma_link_close(struct tt_link *base)
{
	struct rdma_link *link = rdma_link_of(base);

	if (!link)
		return;
	if (is_done(link)) {
		free_link(link);
		return;
	}
	link->closed = true;
	rdma_endpoint_of_link(link)->closing++;
}

void tt_rdma_links_step(struct rdma_endpoint *e, bool thorough)
{
	for (uint32_t i = 0; i < e->nlinks; i++) { /* also to who is introduced again meanwhile */
		struct rdma_link *link = e->links[i];

		if (!link)
			continue;
		advance(link);
		if (link->closed && is_done(link)) {
			e->closing--;
			free_link(link);
		} else if (thorough || link->closed) {
			tt_rdma_link_probe(link);
		}
	}
}

void tt_rdma_links_stop(struct rdma_endpoint *e)
{
	for (uint32_t i = 0; i < e->nlinks; i++) {
		struct rdma_link *link = e->links[i];

		if (!link || !tt_rdma_direct_is_on(link))
			continue;
		tt_rdma_queues_close(link);
		tt_rdma_direct_end(link);
		tt_rdma_link_fail(link, "the communicator has ended");
	}
}

void tt_rdma_links_end(struct rdma_endpoint *e)
{
	const uint64_t until = tt_now() + RDMA_LINGER_MS * 1000000ull;

	while (e->closing > 0 && tt_now() < until) {
		tt_rdma_poll(e);
		tt_rdma_links_step(e, false);
	}
	for (uint32_t i = 0; i < e->nlinks; i++)
		if (e->links[i])
			free_link(e->links[i]);
}
