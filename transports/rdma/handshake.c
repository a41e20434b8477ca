/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the two ends of a link say over its TCP link before any byte goes by RDMA: first a
 * hello each, of the queue pairs; then a verdict each, which of them are connected with the
 * other's: a packet for one that is not ready would be dropped, and sent again after the timeout
 * only. Then both write a packet of full size to each other over each path, and say over which
 * it arrived: addresses that look like one network may be two, packets of a size may be lost.
 * Where none is good at both ends, TCP carries the bytes.
 *
 * A link that was up and whose queue pairs failed, as a cable was out or a switch began anew, is
 * introduced again, and again, by either end, until it is up or the limit of TUTTI_SILENCE has
 * passed. The other end finds the hello where no byte was expected. */
#include <stdio.h>

#include "endpoint.h"

bool tt_rdma_handshakes(const struct rdma_link *link)
{
	return link->state <= RDMA_PROVING;
}

static void enter(struct rdma_link *link, enum rdma_state state, unsigned verdict)
{
	link->state = state;
	link->verdict = (uint8_t)verdict;
	link->told = link->heard = 0;
}

void tt_rdma_handshake(struct rdma_link *link)
{
	enter(link, RDMA_HANDSHAKE, 0);
	rdma_endpoint_of_link(link)->handshake++;
}

/* Move one side's part of a message; true: it is through. */
static bool tell(struct rdma_link *link, const uint8_t *bytes, size_t length)
{
	const struct iovec rest = { (void *)(uintptr_t)(bytes + link->told), length - link->told };
	const ssize_t sent = rest.iov_len ? link->tcp->ops->write(link->tcp, &rest, 1) : 0;

	if (sent < 0)
		tt_rdma_link_fail(link, "%s", tt_thread_error());
	else
		link->told += (size_t)sent;
	return link->told == length;
}

static bool hear(struct rdma_link *link, uint8_t *bytes, size_t length)
{
	const struct iovec rest = { bytes + link->heard, length - link->heard };
	const ssize_t got = rest.iov_len ? link->tcp->ops->read(link->tcp, &rest, 1) : 0;

	if (got < 0)
		tt_rdma_link_fail(link, "%s", tt_thread_error());
	else
		link->heard += (size_t)got;
	return link->heard == length;
}

/* Queue pairs for another introduction. */
static void renew(struct rdma_link *link)
{
	link->state = RDMA_HANDSHAKE; /* nothing is sent while the old ones go */
	tt_rdma_queues_close(link);
	link->broken = false;
	if (tt_rdma_link_number(link) != TUTTI_OK || tt_rdma_queues_open(link) != TUTTI_OK)
		tt_rdma_link_fail(link, "rank %d could not be reached again: %s", link->base.peer,
				  tt_thread_error());
	else
		enter(link, RDMA_HANDSHAKE, 0);
}

void tt_rdma_reconnect(struct rdma_link *link)
{
	struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	if (!link->reconnecting) {
		link->reconnecting = true;
		link->prove_until = 0;
		link->lasting = link->usable;
		tt_log(INFO, RDMA, "rank %d channel %d with rank %d reconnects: %s", e->rank,
		       link->channel, link->base.peer,
		       link->broken ? link->why : "the peer asks for it");
	}
	e->handshake++;
	renew(link);
}

/* A port that comes back is used by whatever is introduced after that. */
static void report_lost_ports(const struct rdma_link *link)
{
	const struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	for (int i = 0; i < link->paths; i++)
		if (link->lasting & ~link->usable & 1u << i)
			tt_log(WARN, RDMA,
			       "rank %d uses fewer ports with rank %d, without %s port %d from now on%s%s",
			       e->rank, link->base.peer, link->path[i].rail->port->device,
			       link->path[i].rail->port->number, *link->why ? ": " : "", link->why);
}

static void settle_up(struct rdma_link *link)
{
	struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	link->state = RDMA_UP;
	e->handshake--;
	if (link->reconnecting)
		report_lost_ports(link);
	link->reconnecting = false;
	if (!link->broken)
		*link->why = 0;
	for (int i = 0; i < link->paths; i++)
		if (link->usable >> i & 1)
			tt_log(DEBUG, RDMA, "rank %d channel %d with rank %d is up over %s port %d",
			       e->rank, link->channel, link->base.peer,
			       link->path[i].rail->port->device, link->path[i].rail->port->number);
	tt_rdma_ring_resume(link);
	tt_rdma_link_probe(link);
}

/* No path is good at both ends. */
static void settle_without(struct rdma_link *link)
{
	struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	if (!link->reconnecting) {
		link->state = RDMA_BY_TCP;
		e->handshake--;
		if (*link->why)
			tt_log(WARN, RDMA, "rank %d uses TCP with rank %d: %s", e->rank,
			       link->base.peer, link->why);
		tt_log(INFO, RDMA, "rank %d channel %d with rank %d goes by TCP", e->rank,
		       link->channel, link->base.peer);
		tt_rdma_memory_close(link);
	} else if (tt_now() > link->prove_until) {
		char why[sizeof(link->why)];

		memcpy(why, link->why, sizeof(why));
		if (!*why)
			snprintf(
				why, sizeof(why),
				"rank %d found no way to rank %d by RDMA any more: tutti-info on both hosts says which ports are up",
				link->base.peer, e->rank);
		tt_rdma_link_fail(link, "%s", why);
	} else {
		renew(link);
	}
}

/* A path is of no use. If it was the only one, TCP has its place. */
static void leave_out(struct rdma_link *link, int path, const char *what, const char *why)
{
	const struct rdma_endpoint *e = rdma_endpoint_of_link(link);
	const struct rdma_port *port = link->path[path].rail->port;

	if (link->reconnecting && !*link->why)
		snprintf(link->why, sizeof(link->why), "rank %d over %s port %d: %s",
			 link->base.peer, port->device, port->number, why);
	if (link->reconnecting) /* otherwise why it is introduced again is to be said */
		return;
	snprintf(link->why, sizeof(link->why), "%s over %s port %d (%s)", what, port->device,
		 port->number, why);
	if (link->paths > 1)
		tt_log(WARN, RDMA, "rank %d uses fewer ports with rank %d: %s", e->rank,
		       link->base.peer, link->why);
}

static void connect_paths(struct rdma_link *link)
{
	const int paths = link->paths < link->peer.paths ? link->paths : link->peer.paths;
	unsigned good = 0;

	for (int i = 0; i < paths; i++) {
		if (!link->mine.path[i].queue || !link->peer.path[i].queue)
			continue;
		if (tt_rdma_queue_connect(link, i) == TUTTI_OK)
			good |= 1u << i;
		else
			leave_out(link, i, "no queue pair is connected", tt_thread_error());
	}
	enter(link, RDMA_AGREEING, good);
}

void tt_rdma_handshake_disproved(struct rdma_link *link, int path, const char *why)
{
	if (link->verdict >> path & 1) /* the first of many: all requests that were posted end so */
		leave_out(link, path, "no packet of full size arrives there", why);
	link->verdict &= (uint8_t) ~(1u << path);
}

/* Exchange verdicts; true: both are known. */
static bool exchange(struct rdma_link *link)
{
	const bool told = tell(link, &link->verdict, 1);

	return link->state != RDMA_FAILED && hear(link, link->answer, 1) && told;
}

/* A packet of the path's size to where the peer keeps nothing else. */
static void post_proof(struct rdma_link *link, int path)
{
	const struct rdma_path *ours = &link->path[path];
	const uint8_t mtu = link->peer.path[path].mtu;
	const enum ibv_mtu least = mtu < ours->rail->mtu ? (enum ibv_mtu)mtu : ours->rail->mtu;
	const struct rdma_post post = {
		.from = link->memory->proof[1],
		.bytes = 128u << least,
		.lkey = ours->mr->lkey,
		.to = link->peer.memory + offsetof(struct rdma_memory, proof),
		.rkey = link->peer.path[path].key,
		.signalled = true,
	};

	tt_rdma_post(link, path, &post);
}

/* The peer has answered; before that it may have computed for long. While a link is mended the
 * limit is that of all attempts. */
static void begin_limit(struct rdma_link *link)
{
	if (!link->reconnecting || !link->prove_until)
		link->prove_until =
			tt_now() + (uint64_t)(rdma_endpoint_of_link(link)->silence_s * 1e9);
}

/* The verdict is of those paths over which word has come, and is not known before. */
static void prove(struct rdma_link *link)
{
	enter(link, RDMA_PROVING, link->usable);
	link->decided = false;
	for (int i = 0; i < link->paths; i++)
		if (link->usable >> i & 1)
			post_proof(link, i);
}

/* soft-RoCE tries for ever where its own card takes no packets. */
static bool is_decided(struct rdma_link *link)
{
	const bool late = tt_now() > link->prove_until || link->broken;
	bool all = true;

	for (int i = 0; i < link->paths && !link->decided; i++) {
		if (!(link->verdict >> i & 1) || link->path[i].sends == link->path[i].sends_done)
			continue;
		if (late)
			tt_rdma_handshake_disproved(
				link, i,
				link->broken
					? "the packet could not be sent"
					: "no word of the packet within TUTTI_SILENCE: the host or the network is gone");
		all &= late;
	}
	if (!link->decided)
		link->broken = false; /* it has had its consequence */
	link->decided |= all;
	return link->decided;
}

void tt_rdma_handshake_step(struct rdma_link *link)
{
	if (link->state == RDMA_HANDSHAKE) {
		uint8_t hello[RDMA_HELLO_BYTES];

		tt_rdma_hello_write(&link->mine, hello);
		const bool told = tell(link, hello, sizeof(hello));

		if (link->state == RDMA_FAILED || !hear(link, link->answer, RDMA_HELLO_BYTES) ||
		    !told)
			return;
		if (!tt_rdma_hello_read(link->answer, &link->peer) ||
		    !tt_rdma_ring_is_possible(link)) {
			tt_rdma_link_fail(
				link,
				"rank %d greets in another way than rank %d: not the same version of tutti",
				link->base.peer, rdma_endpoint_of_link(link)->rank);
			return;
		}
		if (link->memory)
			tt_rdma_ring_renew(link);
		connect_paths(link);
	}
	if (link->state == RDMA_AGREEING) {
		if (!exchange(link))
			return;
		link->usable = link->verdict & link->answer[0];
		begin_limit(link);
		if (link->usable)
			prove(link);
		else
			settle_without(link);
	}
	if (link->state == RDMA_PROVING && is_decided(link) && exchange(link)) {
		link->usable = link->verdict & link->answer[0];
		if (link->usable)
			settle_up(link);
		else
			settle_without(link);
	}
}
