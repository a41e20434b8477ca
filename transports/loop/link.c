/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the links: two pipes each, and what TUTTI_LOOP does to them. A pipe belongs to the fabric
 * and outlives its ends, so that what was written before close() still arrives. */
#include <assert.h>
#include <stdlib.h>

#include "endpoint.h"
#include "log.h"
#include "loop.h"

#define STALL_NS 50000 /* until what did not move is tried again */

struct loop_link {
	struct tt_link base;
	struct loop_pipe *out, *in;
	uint64_t random; /* state of the generator */
	size_t peeked;	 /* bytes last shown and not released: no fewer are shown next time */
};

static struct loop_link *link_of(struct tt_link *link)
{
	assert(link->ops == &tt_transport_loop);
	return (struct loop_link *)link;
}

static struct loop_endpoint *endpoint_of(struct loop_link *link)
{
	return tt_loop_endpoint_of(link->base.endpoint);
}

/* xorshift: good enough to be irregular, and the same for the same seed */
static uint64_t next_random(struct loop_link *link)
{
	link->random ^= link->random << 13;
	link->random ^= link->random >> 7;
	link->random ^= link->random << 17;
	return link->random;
}

static uint64_t first_random(uint64_t seed, int rank, int peer, enum tt_channel channel)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xbf58476d1ce4e5b9u +
		     (uint64_t)peer * 0x94d049bb133111ebu + (uint64_t)channel;

	x ^= x >> 31;
	return x * 0xd6e8feb86659fd93u | 1;
}

/* Should this operation move nothing? Then the sleeper is called soon: bytes or room may be
 * there. */
static bool stalls(struct loop_link *link)
{
	struct loop_endpoint *self = endpoint_of(link);
	const uint64_t one_in = self->fabric->faults.stall;

	if (one_in == 0 || next_random(link) % one_in != 0)
		return false;
	tt_loop_fabric_ring(self->fabric, self->rank, tt_now() + STALL_NS);
	return true;
}

/* The bytes that one operation may move, with `short` in force. */
static size_t shorten(struct loop_link *link, size_t bytes)
{
	const uint64_t longest = endpoint_of(link)->fabric->faults.longest;
	const size_t some = longest > 0 ? 1 + (size_t)(next_random(link) % longest) : bytes;

	return some < bytes ? some : bytes;
}

static tutti_result_t fail_if_dead(const struct loop_endpoint *self)
{
	if (self->fabric->ranks[self->rank].state != LOOP_DEAD)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_PEER_LOST, LOOP, "rank %d is dead, as it was asked to be",
		       self->rank);
}

/* No more will come from or go to the peer: why, or TUTTI_OK. */
static tutti_result_t fail_if_parted(struct loop_link *link)
{
	const struct loop_endpoint *self = endpoint_of(link);

	if (link->out->cut)
		return tt_fail(TUTTI_ERR_PEER_LOST, LOOP,
			       "rank %d lost its link with rank %d: it was cut", self->rank,
			       link->base.peer);
	if (self->fabric->ranks[link->base.peer].state == LOOP_LEFT)
		return tt_fail(TUTTI_ERR_PEER_LOST, LOOP, "rank %d left the communicator",
			       link->base.peer);
	return TUTTI_OK;
}

static tutti_result_t make_link(struct loop_endpoint *self, int peer, enum tt_channel channel,
				struct loop_link **out)
{
	struct loop_fabric *fabric = self->fabric;
	struct loop_link *link = calloc(1, sizeof(*link));

	if (!link)
		goto fail;
	link->base = (struct tt_link){ &tt_transport_loop, &self->base, peer };
	link->random = first_random(fabric->faults.seed, self->rank, peer, channel);
	link->out = tt_loop_fabric_pipe(fabric, self->rank, peer, channel);
	link->in = tt_loop_fabric_pipe(fabric, peer, self->rank, channel);
	if (!link->out || !link->in)
		goto free_link;
	link->out->writing = true;
	link->in->reading = true;
	*out = link;
	return TUTTI_OK;
free_link:
	free(link);
fail:
	return tt_fail(TUTTI_ERR_NO_MEMORY, LOOP, "no memory to connect rank %d with rank %d",
		       self->rank, peer);
}

tutti_result_t tt_loop_connect(struct tt_endpoint *endpoint, int peer, enum tt_channel channel,
			       struct tt_link **out)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_link *link = NULL;
	tutti_result_t result;

	tt_loop_fabric_lock(self->fabric);
	result = fail_if_dead(self);
	if (result == TUTTI_OK &&
	    tt_loop_pairs_find(&self->fabric->faults.refusals, self->rank, peer))
		result = tt_fail(TUTTI_ERR_PEER_LOST, LOOP,
				 "rank %d refused the connection of rank %d", peer, self->rank);
	if (result == TUTTI_OK)
		result = make_link(self, peer, channel, &link);
	if (result == TUTTI_OK) {
		tt_loop_fabric_ring(self->fabric, peer, 0); /* it now has room */
		*out = &link->base;
	}
	tt_loop_fabric_unlock(self->fabric);
	return result;
}

/* The bytes that may still be written before the cut and before the rank's death. */
static uint64_t bytes_left_to_write(struct loop_link *link)
{
	const struct loop_endpoint *self = endpoint_of(link);
	const struct loop_faults *faults = &self->fabric->faults;
	const struct loop_pair *cut =
		tt_loop_pairs_find(&faults->cuts, self->rank, link->base.peer);
	const uint64_t written = self->fabric->ranks[self->rank].written;
	uint64_t left = cut ? cut->after - link->out->written : UINT64_MAX;

	if (faults->mortal == self->rank && faults->dies_after - written < left)
		left = faults->dies_after - written;
	return left;
}

/* Has what was written reached the point where the link is cut or the rank dies? */
static void strike(struct loop_link *link)
{
	struct loop_endpoint *self = endpoint_of(link);
	const struct loop_faults *faults = &self->fabric->faults;
	const struct loop_pair *cut =
		tt_loop_pairs_find(&faults->cuts, self->rank, link->base.peer);

	if (cut && link->out->written >= cut->after) {
		link->out->cut = true;
		link->in->cut = true;
		tt_loop_fabric_ring_all(self->fabric);
	}
	if (faults->mortal == self->rank &&
	    self->fabric->ranks[self->rank].written >= faults->dies_after)
		tt_loop_fabric_die(self->fabric, self->rank);
}

static size_t total(const struct iovec *iov, int n)
{
	size_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

/* When bytes written now can be read; 0: at once. */
static uint64_t arrival(struct loop_link *link)
{
	const struct loop_faults *faults = &endpoint_of(link)->fabric->faults;

	if (faults->delay_ns == 0 && faults->jitter_ns == 0)
		return 0;
	return tt_now() + faults->delay_ns +
	       (faults->jitter_ns ? next_random(link) % faults->jitter_ns : 0);
}

static size_t put(struct loop_link *link, const struct iovec *iov, int n)
{
	struct loop_endpoint *self = endpoint_of(link);
	const uint64_t time = arrival(link);
	const uint64_t left = bytes_left_to_write(link);
	size_t most = total(iov, n);
	size_t done;

	if (most > tt_loop_pipe_capacity(link->out))
		most = tt_loop_pipe_capacity(link->out);
	if (most > left)
		most = (size_t)left;
	done = tt_loop_pipe_put(link->out, iov, n, shorten(link, most), time);
	self->fabric->ranks[self->rank].written += done;
	if (done > 0)
		tt_loop_fabric_ring(self->fabric, link->base.peer, time);
	strike(link);
	return done;
}

ssize_t tt_loop_write(struct tt_link *base, const struct iovec *iov, int n)
{
	struct loop_link *link = link_of(base);
	struct loop_endpoint *self = endpoint_of(link);
	ssize_t result;

	tt_loop_fabric_lock(self->fabric);
	result = fail_if_dead(self);
	if (result == 0)
		result = fail_if_parted(link);
	if (result == 0 && link->out->reading && tt_loop_pipe_capacity(link->out) > 0 &&
	    !stalls(link))
		result = (ssize_t)put(link, iov, n);
	tt_loop_fabric_unlock(self->fabric);
	return result;
}

/* Bytes that may be read now. A link that has ended says so when all have been read. Under the
 * lock. */
static ssize_t arrived(struct loop_link *link, const uint8_t **data)
{
	struct loop_endpoint *self = endpoint_of(link);
	const tutti_result_t dead = fail_if_dead(self);
	size_t bytes;

	if (dead != TUTTI_OK)
		return dead;
	bytes = tt_loop_pipe_arrived(link->in, tt_now(), data);
	if (bytes == 0 && link->in->taken == link->in->written)
		return fail_if_parted(link);
	return (ssize_t)bytes;
}

ssize_t tt_loop_read(struct tt_link *base, const struct iovec *iov, int n)
{
	struct loop_link *link = link_of(base);
	struct loop_endpoint *self = endpoint_of(link);
	const uint8_t *data;
	ssize_t result;

	tt_loop_fabric_lock(self->fabric);
	result = arrived(link, &data);
	if (result > 0 && stalls(link))
		result = 0;
	if (result > 0) {
		result = (ssize_t)tt_loop_pipe_get(link->in, iov, n, shorten(link, (size_t)result));
		link->peeked = 0;
		tt_loop_fabric_ring(self->fabric, base->peer, 0);
	}
	tt_loop_fabric_unlock(self->fabric);
	return result;
}

ssize_t tt_loop_peek(struct tt_link *base, size_t want, size_t limit, const void **data)
{
	struct loop_link *link = link_of(base);
	struct loop_endpoint *self = endpoint_of(link);
	const uint8_t *bytes;
	ssize_t result;

	tt_loop_fabric_lock(self->fabric);
	result = arrived(link, &bytes);
	if (result > 0 && link->peeked == 0 && stalls(link))
		result = 0;
	if (result > 0) {
		const size_t there = (size_t)result < limit ? (size_t)result : limit;
		size_t shown = shorten(link, there);

		if (shown < want)
			shown = want < there ? want : there;
		if (shown < link->peeked)
			shown = link->peeked < there ? link->peeked : there;
		link->peeked = shown;
		*data = bytes;
		result = (ssize_t)shown;
	}
	tt_loop_fabric_unlock(self->fabric);
	return result;
}

void tt_loop_release(struct tt_link *base, size_t bytes)
{
	struct loop_link *link = link_of(base);
	struct loop_endpoint *self = endpoint_of(link);

	tt_loop_fabric_lock(self->fabric);
	tt_loop_pipe_drop(link->in, bytes);
	link->peeked = bytes < link->peeked ? link->peeked - bytes : 0;
	tt_loop_fabric_ring(self->fabric, base->peer, 0);
	tt_loop_fabric_unlock(self->fabric);
}

bool tt_loop_ready(const struct tt_link *base)
{
	const struct loop_link *link = (const struct loop_link *)base;
	struct loop_fabric *fabric = ((struct loop_endpoint *)base->endpoint)->fabric;
	bool ready;

	tt_loop_fabric_lock(fabric);
	ready = link->out->reading && link->in->writing && !link->out->cut;
	tt_loop_fabric_unlock(fabric);
	return ready;
}

/* Both flags stay set: the peer must be able to write what this rank will not read, as into a
 * socket. */
void tt_loop_close(struct tt_link *base)
{
	free(base);
}
