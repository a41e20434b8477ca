/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the two ends of a link say over its TCP link before any byte goes by RDMA: first a hello each, of the queue pair;
 * then a verdict each, whether it is connected with the other's: a packet for one that is not ready would be dropped, and sent again after the timeout
 * only. Then both write nothing to each other, and say whether that arrived: addresses that look like one network may be two,
 * packets of a size may be lost. Where either says no, TCP carries the bytes. */
#include "endpoint.h"

bool tt_rdma_greets(const struct rdma_link *link)
{
	return link->state <= RDMA_PROVING;
}

void tt_rdma_greet(struct rdma_link *link)
{
	tt_rdma_hello_write(&link->mine, link->hello); /* of no queue pair, if there is none */
	link->told = link->heard = 0;
	link->state = RDMA_GREETING;
	rdma_endpoint_of_link(link)->greeting++;
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

static void settle(struct rdma_link *link, enum rdma_state state)
{
	link->state = state;
	rdma_endpoint_of_link(link)->greeting--;
	if (state == RDMA_UP) {
		tt_log(DEBUG, RDMA, "rank %d lane %d with rank %d is up over %s port %d", rdma_endpoint_of_link(link)->rank,
		       link->lane, link->base.peer, link->rail->port->device, link->rail->port->number);
		tt_rdma_link_probe(link);
	} else {
		tt_log(INFO, RDMA, "rank %d lane %d with rank %d goes by TCP", rdma_endpoint_of_link(link)->rank, link->lane,
		       link->base.peer);
		tt_rdma_queue_close(link);
	}
}

static void enter(struct rdma_link *link, enum rdma_state state, uint8_t verdict)
{
	link->state = state;
	link->verdict = verdict;
	link->told = link->heard = 0;
}

static void judge(struct rdma_link *link)
{
	enter(link, RDMA_AGREEING, RDMA_NO);
	if (link->mine.queue && link->peer.queue) {
		if (tt_rdma_queue_connect(link) == TUTTI_OK)
			link->verdict = RDMA_YES;
		else
			tt_log(WARN, RDMA, "rank %d uses TCP with rank %d: %s", rdma_endpoint_of_link(link)->rank, link->base.peer,
			       tt_thread_error());
	}
}

void tt_rdma_greeting_disproved(struct rdma_link *link, const char *why)
{
	if (link->verdict != RDMA_UNDECIDED) /* the first of many: all requests that were posted end so */
		return;
	tt_log(WARN, RDMA, "rank %d uses TCP with rank %d: nothing arrives there over %s port %d (%s)",
	       rdma_endpoint_of_link(link)->rank, link->base.peer, link->rail->port->device, link->rail->port->number, why);
	link->verdict = RDMA_NO;
}

/* Exchange verdicts; true: both are known. */
static bool exchange(struct rdma_link *link)
{
	const bool told = tell(link, &link->verdict, 1);

	return link->state != RDMA_FAILED && hear(link, link->answer, 1) && told;
}

static void prove(struct rdma_link *link)
{
	enter(link, RDMA_PROVING, RDMA_UNDECIDED);
	link->prove_until = tt_now() + (uint64_t)(rdma_endpoint_of_link(link)->silence_s * 1e9);
	tt_rdma_ring_ask(link);
}

void tt_rdma_greeting_step(struct rdma_link *link)
{
	if (link->state == RDMA_GREETING) {
		const bool told = tell(link, link->hello, RDMA_HELLO_BYTES);

		if (link->state == RDMA_FAILED || !hear(link, link->answer, RDMA_HELLO_BYTES) || !told)
			return;
		if (!tt_rdma_hello_read(link->answer, &link->peer)) {
			tt_rdma_link_fail(link, "rank %d greets in another way than rank %d: not the same version of tutti",
					  link->base.peer, rdma_endpoint_of_link(link)->rank);
			return;
		}
		judge(link);
	}
	if (link->state == RDMA_AGREEING) {
		if (!exchange(link))
			return;
		if (link->verdict == RDMA_YES && link->answer[0] == RDMA_YES)
			prove(link);
		else
			settle(link, RDMA_BY_TCP);
	}
	if (link->state == RDMA_PROVING) {
		if (link->verdict == RDMA_UNDECIDED && link->sends == link->sends_done)
			link->verdict = RDMA_YES;
		else if (tt_now() > link->prove_until) /* soft-RoCE tries for ever where its own card takes no packets */
			tt_rdma_greeting_disproved(link, "no word of it within the limit of TUTTI_SILENCE");
		if (link->verdict != RDMA_UNDECIDED && exchange(link))
			settle(link, link->verdict == RDMA_YES && link->answer[0] == RDMA_YES ? RDMA_UP : RDMA_BY_TCP);
	}
}
