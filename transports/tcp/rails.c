/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the rails of a link: several connections that share its stream, over interfaces of their
 * own where both ends have several in common subnets, or as many as TUTTI_TCP_RAILS says.
 *
 * The stream is cut in stripes, which go to the rails in turn, to a faster one more often. Both
 * ends know whose turn it is by the position alone, so nothing travels beside the bytes, and what
 * is shorter than a stripe goes over one rail.
 *
 * The two cards say how many rails there may be (tt_tcp_rail_count()). The dialer connects the
 * first as any connection. Then it dials the others, each over another way. The listener answers
 * each with a byte: only then does the dialer count it, as a connection may be lost on the
 * listener's side when its dialer takes it for made. What is not there NEGOTIATE_MS later is given
 * up: a subnet may lead nowhere. The first bytes on the first rail say which share the stream: a
 * weight for each, 0 for those that do not.
 *
 * The control graph may not use the interface that fails. So a way is asked itself: bytes that
 * nobody has acknowledged, and no acknowledgement at all, both for as long as hosts may be silent,
 * are its end. (A peer that computes acknowledges what its kernel takes in, and a full buffer
 * there leaves nothing to acknowledge.) */
#include <errno.h>
#include <netinet/in.h>
#include <linux/tcp.h> /* tcpi_bytes_acked, which the C library's does not have */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "endpoint.h"
#include "numbers.h"

#define STRIPE_BYTES (64u << 10)
#define NEGOTIATE_MS 1000
#define AT_ONCE	     8 /* rails that an endpoint dials; a peer has room for so many pending ones */
#define CHECK_MS     1000
#define SLOWEST	     8	/* times slower than the fastest rail: not used */
#define WEIGHT_MAX   16 /* of a rail; SLOWEST and some at most */

struct tcp_spread {
	int dialled; /* rails, the first included */
	int ways;    /* that there are, and … */
	int first;   /* … which of them the first rail is on; -1: none of them */
	uint64_t polled_at, negotiate_by; /* the dialer's */
	bool weighed;
	size_t told; /* bytes of `weights` that have come or gone */
	uint8_t weights[TCP_RAILS_MAX];
	int period;				   /* stripes until it begins anew … */
	uint8_t order[TCP_RAILS_MAX * WEIGHT_MAX]; /* … and whose each is */
};

static struct tcp_endpoint *endpoint_of(const struct tcp_link *link)
{
	return tcp_endpoint_of(link->base.endpoint);
}

static bool dials(const struct tcp_link *link)
{
	return endpoint_of(link)->rank < link->base.peer;
}

struct tcp_rail *tt_tcp_rail_at(struct tcp_link *link, uint64_t position, size_t *bytes)
{
	const struct tcp_spread *spread = link->spread;

	if (!spread || !spread->period) {
		*bytes = SIZE_MAX;
		return &link->rail[0];
	}
	*bytes = STRIPE_BYTES - (size_t)(position % STRIPE_BYTES);
	return &link->rail[spread->order[position / STRIPE_BYTES % (uint64_t)spread->period]];
}

static bool read_card(const struct tcp_endpoint *e, int peer, struct tcp_card *card)
{
	return e->known &&
	       tt_tcp_card_read(e->known[peer].address, e->known[peer].address_length, card);
}

int tt_tcp_rails_of(const struct tcp_endpoint *e, int peer, enum tt_channel channel)
{
	struct tcp_card card;

	if (channel == TT_CHANNEL_CONTROL || !read_card(e, peer, &card))
		return 1;
	return e->rank < peer ? tt_tcp_rail_count(&e->card, &card)
			      : tt_tcp_rail_count(&card, &e->card);
}

static void hang_up(struct tcp_link *link, struct tcp_rail *rail)
{
	tt_tcp_unwatch_rail(link, rail);
	tt_tcp_close_orderly(rail->connection);
	rail->connection = (struct tt_connection){ .fd = -1 };
}

/* ---- whose turn it is */

/* By turns as even as the weights allow: who is furthest behind its share is next. */
static void fill_order(struct tcp_spread *spread)
{
	int credit[TCP_RAILS_MAX] = { 0 }, total = 0;

	for (int i = 0; i < TCP_RAILS_MAX; i++)
		total += spread->weights[i];
	for (int stripe = 0; stripe < total; stripe++) {
		int next = 0;

		for (int i = 0; i < TCP_RAILS_MAX; i++) {
			credit[i] += spread->weights[i];
			if (credit[i] > credit[next])
				next = i;
		}
		credit[next] -= total;
		spread->order[stripe] = (uint8_t)next;
	}
	spread->period = total;
}

/* The weights are known, and the rails there. The first one stays, used or not. */
static void go_up(struct tcp_link *link)
{
	struct tcp_endpoint *e = endpoint_of(link);
	int used = 0;

	for (int i = 0; i < link->count; i++) {
		if (link->spread->weights[i])
			used++;
		else if (i > 0 && link->rail[i].connection.fd >= 0)
			hang_up(link, &link->rail[i]);
	}
	fill_order(link->spread);
	if (used > 1 && !e->rails_check_at)
		e->rails_check_at = tt_now() + CHECK_MS * TCP_MS;
	tt_log(DEBUG, TCP, "rank %d channel %d with rank %d: %d connections share it", e->rank,
	       (int)link->channel, link->base.peer, used);
	tt_tcp_link_up(link);
}

/* ---- the dialer */

/* Which way a rail takes, of those that there are. */
static int way_of(const struct tcp_spread *spread, int rail)
{
	if (spread->first >= 0)
		return (spread->first + rail) % spread->ways;
	return rail > 0 ? (rail - 1) % spread->ways : -1;
}

static int find_ways(const struct tcp_link *link, struct tcp_candidate ways[TCP_RAILS_MAX])
{
	const struct tcp_endpoint *e = endpoint_of(link);
	struct tcp_card card;

	return read_card(e, link->base.peer, &card) ? tt_tcp_ways(&e->card, &card, ways) : 0;
}

/* The first rail is there: which way does it take? */
static void find_first(struct tcp_link *link)
{
	const struct tcp_endpoint *e = endpoint_of(link);
	struct tcp_candidate ways[TCP_RAILS_MAX];
	struct sockaddr_storage there = { 0 };
	socklen_t length = sizeof(there);
	struct tcp_card card;

	link->spread->first = -1;
	link->spread->ways = find_ways(link, ways);
	if (link->spread->ways == 0 || !read_card(e, link->base.peer, &card))
		return;
	getpeername(link->rail[0].connection.fd, (struct sockaddr *)&there, &length);
	for (int i = 0; i < link->spread->ways && link->spread->first < 0; i++)
		if (tt_tcp_scope_of(&card, &ways[i].to) == tt_tcp_scope_of(&card, &there))
			link->spread->first = i;
}

/* Where the ends have no ways of their own, further rails take the first one's. */
static struct tcp_candidate same_way(const struct tcp_link *link)
{
	struct tcp_candidate way = { .length = sizeof(way.to) };

	getpeername(link->rail[0].connection.fd, (struct sockaddr *)&way.to, &way.length);
	return way;
}

static void dial_rail(struct tcp_link *link, int rail, const struct tcp_candidate *ways)
{
	struct tcp_endpoint *e = endpoint_of(link);
	const struct tcp_spread *spread = link->spread;
	const struct tt_hello hello = { TCP_FOR_DATA, tcp_slot(link->channel, rail), e->comm_id,
					e->rank, link->base.peer };
	const struct tcp_candidate same = same_way(link);
	const int way = spread->ways ? way_of(spread, rail) : -1;

	if (way >= 0 && e->peers[link->base.peer].dead_ways & 1 << way)
		link->rail[rail].failed = true;
	else if (tt_tcp_dial_way(e, &hello, way < 0 ? &same : &ways[way]) < 0)
		link->rail[rail].failed = true;
	else
		e->rails_dialled++;
}

/* Neither there nor given up. */
static bool is_under_way(const struct tcp_link *link, int rail)
{
	return rail > 0 && rail < link->spread->dialled && !link->rail[rail].counted &&
	       !link->rail[rail].failed;
}

static void dial_more(struct tcp_link *link)
{
	struct tcp_endpoint *e = endpoint_of(link);
	struct tcp_candidate ways[TCP_RAILS_MAX];

	if (link->spread->dialled == link->count || e->rails_dialled >= AT_ONCE)
		return;
	find_ways(link, ways);
	while (link->spread->dialled < link->count && e->rails_dialled < AT_ONCE)
		dial_rail(link, link->spread->dialled++, ways);
}

/* Its dial is over. */
static void end_dial(struct tcp_link *link, int rail, bool failed)
{
	struct tcp_endpoint *e = endpoint_of(link);
	const struct tcp_spread *spread = link->spread;
	const int slot = tcp_slot(link->channel, rail);

	e->rails_dialled--;
	link->rail[rail].counted = !failed;
	if (!failed)
		return;
	link->rail[rail].failed = true;
	if (spread->ways && tt_tcp_dial_is_silent(e, link->base.peer, slot))
		e->peers[link->base.peer].dead_ways |= (uint8_t)(1 << way_of(spread, rail));
	if (link->rail[rail].connection.fd >= 0)
		hang_up(link, &link->rail[rail]);
	tt_tcp_dial_drop(e, link->base.peer, slot);
}

void tt_tcp_rail_failed(struct tcp_link *link, int rail)
{
	if (link && link->spread && is_under_way(link, rail))
		end_dial(link, rail, true);
}

/* The listener's byte on a rail that is connected. */
static void receive_answer(struct tcp_link *link, int rail)
{
	char byte;
	const struct iovec to = { &byte, 1 };
	const ssize_t got = tt_tcp_rail_receive(&link->rail[rail], &to, 1);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	end_dial(link, rail, got <= 0);
}

/* By the speeds of the interfaces; where the first one's is not known all count alike. A rail much
 * slower than another, or whose speed is not known where the first one's is, is left out: it would
 * hold the others up. */
static void weigh(struct tcp_link *link)
{
	struct tcp_spread *spread = link->spread;
	struct tcp_candidate ways[TCP_RAILS_MAX];
	uint32_t speed[TCP_RAILS_MAX] = { 0 }, most = 0, least = UINT32_MAX;

	find_ways(link, ways);
	for (int i = 0; i < link->count && i < TCP_RAILS_MAX; i++) {
		const bool there = i == 0 || link->rail[i].counted;
		const int way = spread->ways ? way_of(spread, i) : -1;

		speed[i] = there && way >= 0 ? ways[way].speed : 0;
		spread->weights[i] = there;
		most = speed[i] > most ? speed[i] : most;
	}
	spread->weighed = true;
	if (speed[0] == 0)
		return;
	for (int i = 0; i < TCP_RAILS_MAX; i++)
		if (speed[i] > 0 && speed[i] >= most / SLOWEST && speed[i] < least)
			least = speed[i];
	for (int i = 0; i < TCP_RAILS_MAX; i++)
		spread->weights[i] =
			speed[i] >= least ? (uint8_t)((speed[i] + least / 2) / least) : 0;
}

/* Is it time to do without those that are not there? Only time in which this rank looks counts. */
static bool is_late(struct tcp_spread *spread)
{
	const uint64_t now = tt_now();

	spread->negotiate_by += tt_uncounted(spread->polled_at, now, TT_LOOK_NS);
	spread->polled_at = now;
	return now >= spread->negotiate_by;
}

/* Once for each peer: fewer than there may be. */
static void report_missing(struct tcp_link *link)
{
	struct tcp_endpoint *e = endpoint_of(link);
	struct tcp_peer *peer = &e->peers[link->base.peer];
	int counted = 1;

	for (int i = 1; i < link->count; i++)
		counted += link->rail[i].counted;
	if (counted == link->count || peer->reported)
		return;
	peer->reported = true;
	tt_log(INFO, TCP,
	       "rank %d shares the bytes to rank %d among %d connections: %d more did not come up in time",
	       e->rank, link->base.peer, counted, link->count - counted);
}

static void tell_weights(struct tcp_link *link)
{
	struct tcp_spread *spread = link->spread;
	const struct iovec rest = { spread->weights + spread->told,
				    sizeof(spread->weights) - spread->told };
	const ssize_t sent = tt_tcp_rail_send(&link->rail[0], &rest, 1, rest.iov_len);

	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		tt_tcp_link_ended(link, errno);
		return;
	}
	spread->told += sent > 0 ? (size_t)sent : 0;
	if (spread->told == sizeof(spread->weights))
		go_up(link);
}

static void negotiate_as_dialer(struct tcp_link *link)
{
	struct tcp_spread *spread = link->spread;
	const bool late = is_late(spread);
	bool all = true;

	dial_more(link);
	for (int i = 1; i < link->count && !spread->weighed; i++) {
		if (is_under_way(link, i) && link->rail[i].connection.fd >= 0)
			receive_answer(link, i);
		if (is_under_way(link, i) && late)
			end_dial(link, i, true);
		all &= link->rail[i].counted || link->rail[i].failed;
	}
	if (!all && !late)
		return;
	spread->dialled = link->count; /* what waited for its turn is not dialled any more */
	if (!spread->weighed) {
		report_missing(link);
		weigh(link);
	}
	tell_weights(link);
}

/* ---- the listener */

void tt_tcp_rail_answer(const struct tcp_endpoint *e, const struct tt_hello *hello,
			struct tt_connection connection)
{
	const struct tcp_rail rail = { .connection = connection };
	const struct iovec byte = { (char[]){ 1 }, 1 };

	/* nothing was sent on it, so there is room; if it has ended, the dialer sees that */
	if (hello->channel >= TT_CHANNELS && hello->from < e->rank)
		tt_tcp_rail_send(&rail, &byte, 1, 1);
}

static bool weights_are_sane(const struct tcp_link *link)
{
	bool sane = true;
	int sum = 0;

	for (int i = 0; i < TCP_RAILS_MAX; i++) {
		const int weight = link->spread->weights[i];

		sane &= weight <= WEIGHT_MAX &&
			(weight == 0 || (i < link->count && link->rail[i].connection.fd >= 0));
		sum += weight;
	}
	return sane && sum > 0;
}

static void refuse(struct tcp_link *link)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = link->base.peer };

	snprintf(
		fault.text, sizeof(fault.text),
		"rank %d shares bytes with rank %d among up to %d connections, but not as this version of tutti does: all ranks "
		"must use the same one",
		link->base.peer, endpoint_of(link)->rank, link->count);
	tt_tcp_link_fail(link, &fault);
}

static void negotiate_as_listener(struct tcp_link *link)
{
	struct tcp_spread *spread = link->spread;
	const struct iovec rest = { spread->weights + spread->told,
				    sizeof(spread->weights) - spread->told };
	const ssize_t got = tt_tcp_rail_receive(&link->rail[0], &rest, 1);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		tt_tcp_link_ended(link, got < 0 ? errno : 0);
		return;
	}
	spread->told += got > 0 ? (size_t)got : 0;
	if (spread->told < sizeof(spread->weights))
		return;
	if (weights_are_sane(link))
		go_up(link);
	else
		refuse(link);
}

/* ---- both */

bool tt_tcp_negotiation_begin(struct tcp_link *link)
{
	link->spread = calloc(1, sizeof(*link->spread));
	if (!link->spread)
		return false;
	link->spread->dialled = 1;
	link->spread->polled_at = tt_now();
	link->spread->negotiate_by = link->spread->polled_at + NEGOTIATE_MS * TCP_MS;
	if (dials(link))
		find_first(link);
	return true;
}

void tt_tcp_negotiation_end(struct tcp_link *link)
{
	for (int i = 1; link->spread && i < link->count; i++)
		if (is_under_way(link, i) && dials(link))
			end_dial(link, i, true);
}

uint64_t tt_tcp_negotiation_due(const struct tcp_link *link)
{
	return link->spread && dials(link) ? link->spread->negotiate_by : UINT64_MAX;
}

void tt_tcp_negotiate_all(struct tcp_endpoint *e)
{
	for (int peer = 0; peer < e->size && e->negotiating; peer++) {
		for (int channel = 0; channel < TT_CHANNELS; channel++) {
			struct tcp_link *link = e->peers[peer].link[channel];

			if (!link || link->state != TCP_LINK_NEGOTIATING)
				continue;
			if (dials(link))
				negotiate_as_dialer(link);
			else
				negotiate_as_listener(link);
		}
	}
}

bool tt_tcp_awaits_weights(const struct tcp_link *link)
{
	return link->state == TCP_LINK_NEGOTIATING && !dials(link);
}

bool tt_tcp_awaits_answer(const struct tcp_link *link, int rail)
{
	return link->state == TCP_LINK_NEGOTIATING && dials(link) && is_under_way(link, rail) &&
	       link->rail[rail].connection.fd >= 0;
}

/* ---- ways that end */

/* For how long has nothing come back for bytes that were sent? Milliseconds; 0: not known. */
static uint64_t silence_of(struct tcp_rail *rail, uint64_t now)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	if (rail->connection.fd < 0 ||
	    getsockopt(rail->connection.fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
		return 0;
	if (info.tcpi_unacked == 0 || info.tcpi_bytes_acked != rail->acked || !rail->silent_since) {
		rail->acked = info.tcpi_bytes_acked;
		rail->silent_since = info.tcpi_unacked ? now : 0;
		return 0;
	}
	const uint64_t silence = (now - rail->silent_since) / TCP_MS;

	return silence < info.tcpi_last_ack_recv ? silence : info.tcpi_last_ack_recv;
}

static void check_link(struct tcp_link *link, uint64_t now)
{
	struct tcp_endpoint *e = endpoint_of(link);
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = link->base.peer };
	char there[TCP_ADDRESS_TEXT];

	for (int i = 0; i < link->count && !e->base.fault.result; i++) {
		const uint64_t silence = silence_of(&link->rail[i], now);

		if ((double)silence < e->silence_s * 1000)
			continue;
		tt_tcp_peer_text(link->rail[i].connection.fd, there);
		tt_print(
			fault.text, sizeof(fault.text),
			"the way from rank %d to rank %d at %s is cut: nothing came back for %.1f s, while their other interfaces may "
			"answer (TUTTI_INTERFACE leaves an interface out)",
			e->rank, link->base.peer, there, (double)silence / 1000);
		tt_tcp_fault(e, &fault, NULL);
	}
}

void tt_tcp_rails_check(struct tcp_endpoint *e, uint64_t now)
{
	bool some = false;

	for (int peer = 0; peer < e->size && !e->base.fault.result; peer++) {
		for (int channel = 0; channel < TT_CHANNELS; channel++) {
			struct tcp_link *link = e->peers[peer].link[channel];

			if (!link || link->count == 1 || link->state != TCP_LINK_UP)
				continue;
			check_link(link, now);
			some = true;
		}
	}
	e->rails_check_at = some && !e->base.fault.result ? now + CHECK_MS * TCP_MS : 0;
}
