/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the byte streams. A link moves nothing until it is up. Bytes come out of scratch first, then
 * of the socket; a peek takes in no more than its limit, so that what belongs to the next read goes
 * straight to where it is wanted. The end of a stream is believed a moment late: the control links
 * may know the better reason, such as who else died and made the peer leave. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "endpoint.h"

#define SCRATCH_BYTES  ((size_t)128 << 10) /* stays in a core's L2 cache */
#define TOGETHER_BYTES 512
#define PIECES	       16 /* of a stripe at once */

static struct tcp_link *tcp_link_of(struct tt_link *base)
{
	return (struct tcp_link *)base;
}

static struct tcp_endpoint *endpoint_of(const struct tcp_link *link)
{
	return tcp_endpoint_of(link->base.endpoint);
}

/* What those that sleep wait for has changed. */
static void refresh(struct tcp_link *link)
{
	if (!endpoint_of(link)->armed)
		return;
	tt_tcp_link_watch(link);
	tt_tcp_timer_set(endpoint_of(link));
}

static struct tcp_link *make_link(struct tt_endpoint *base, int peer, enum tt_channel channel)
{
	const int count = tt_tcp_rails_of(tcp_endpoint_of(base), peer, channel);
	struct tcp_link *link = calloc(1, sizeof(*link) + (size_t)count * sizeof(link->rail[0]));

	if (!link)
		return NULL;
	link->base = (struct tt_link){ base->ops, base, peer };
	link->channel = channel;
	link->count = count;
	for (int i = 0; i < count; i++)
		link->rail[i].connection.fd = -1;
	return link;
}

/* Connections that came before; more than there may be are nobody's. */
static void take_kept(struct tcp_endpoint *e, struct tcp_link *link)
{
	for (int i = 0; i < TCP_RAILS_MAX; i++) {
		struct tcp_kept **at =
			tt_tcp_find_kept(e, link->base.peer, tcp_slot(link->channel, i));
		struct tcp_kept *kept = *at;

		if (!kept)
			continue;
		*at = kept->next;
		if (i < link->count)
			tt_tcp_link_attach(link, i, kept->connection);
		else
			tt_tcp_close_orderly(kept->connection);
		free(kept);
	}
}

tutti_result_t tt_tcp_link_connect(struct tt_endpoint *base, int peer, enum tt_channel channel,
				   struct tt_link **out)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);
	struct tcp_peer *to = &e->peers[peer];
	const struct tt_hello hello = { TCP_FOR_DATA, channel, e->comm_id, e->rank, peer };
	struct tcp_link *link = make_link(base, peer, channel);
	tutti_result_t result;

	if (!link)
		return tt_fail(TUTTI_ERR_NO_MEMORY, TCP, "no memory for a link with rank %d", peer);
	to->link[channel] = link;
	if (e->rank < peer) {
		result = tt_tcp_dial(e, &hello);
		if (result < 0) {
			to->link[channel] = NULL;
			free(link);
			return result;
		}
	} else {
		e->waiting++;
		take_kept(e, link);
		if (channel == TT_CHANNEL_CONTROL && link->state == TCP_LINK_WAITING)
			tt_tcp_control_ask(e, peer);
	}
	*out = &link->base;
	return TUTTI_OK;
}

static void begin_negotiation(struct tcp_link *link)
{
	struct tt_fault fault = { .result = TUTTI_ERR_NO_MEMORY, .rank = endpoint_of(link)->rank };

	link->state = TCP_LINK_NEGOTIATING;
	endpoint_of(link)->negotiating++;
	if (tt_tcp_negotiation_begin(link))
		return;
	snprintf(fault.text, sizeof(fault.text), "rank %d: no memory for a link", fault.rank);
	tt_tcp_link_fail(link, &fault);
}

/* A connection is there: of a dial, of a pending connection that the link waited for, or kept. */
void tt_tcp_link_attach(struct tcp_link *link, int rail, struct tt_connection connection)
{
	link->rail[rail].connection = connection;
	if (rail == 0 && link->count == 1)
		tt_tcp_link_up(link);
	else if (rail == 0)
		begin_negotiation(link);
	refresh(link);
}

/* From now on it is up, or will not be. Of a pair, the higher rank counts the links that it waits
 * for; the lower one has a dial. */
static void stop_waiting(struct tcp_link *link)
{
	struct tcp_endpoint *e = endpoint_of(link);

	e->waiting -= link->state <= TCP_LINK_NEGOTIATING && e->rank > link->base.peer;
	e->negotiating -= link->state == TCP_LINK_NEGOTIATING;
}

void tt_tcp_link_up(struct tcp_link *link)
{
	stop_waiting(link);
	link->state = TCP_LINK_UP;
	refresh(link);
	tt_log(DEBUG, TCP, "rank %d channel %d with rank %d is up", endpoint_of(link)->rank,
	       link->channel, link->base.peer);
}

void tt_tcp_link_fail(struct tcp_link *link, const struct tt_fault *fault)
{
	stop_waiting(link);
	link->state = TCP_LINK_FAILED;
	link->result = (tutti_result_t)fault->result;
	snprintf(link->why, sizeof(link->why), "%.*s", (int)sizeof(link->why) - 1, fault->text);
	refresh(link);
}

static ssize_t not_now(struct tcp_link *link, bool *flag)
{
	*flag = true;
	if (endpoint_of(link)->armed)
		tt_tcp_link_watch(link);
	return 0;
}

/* Does the error say that packets do not get through, rather than what the peer did? */
static bool is_of_way(int error)
{
	return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
	       error == ENETDOWN;
}

/* What an operation gives on a link that is not up. */
static ssize_t report(struct tcp_link *link, bool *flag)
{
	struct tcp_endpoint *e = endpoint_of(link);
	const int peer = link->base.peer;

	/* a fault may be about another rank, and says nothing of this link */
	if (e->base.fault.result && link->channel != TT_CHANNEL_CONTROL)
		return tt_fail(e->base.fault.result, TCP, "%s", e->base.fault.text);
	if (link->state <= TCP_LINK_NEGOTIATING && !e->peers[peer].left)
		return not_now(link, flag);
	if (link->state == TCP_LINK_FAILED)
		return tt_fail(link->result, TCP, "%s", link->why);
	if (e->peers[peer].left)
		return tt_fail(TUTTI_ERR_PEER_LOST, TCP,
			       "rank %d left the communicator while rank %d still expected it",
			       peer, e->rank);
	if (tt_now() < link->believed_at)
		return 0;
	if (is_of_way(link->error))
		return tt_fail(TUTTI_ERR_PEER_LOST, TCP,
			       "a connection of rank %d with rank %d has ended: %s", e->rank, peer,
			       strerror(link->error));
	return tt_fail(TUTTI_ERR_PEER_LOST, TCP, "rank %d closed its connection with rank %d", peer,
		       e->rank);
}

/* End of stream, or an error that ends it. An error of a write leaves what has arrived to be read.
 */
static ssize_t ended(struct tcp_link *link, int error, bool *flag)
{
	struct tcp_endpoint *e = endpoint_of(link);

	*flag = false;
	if (flag == &link->starved) {
		stop_waiting(link);
		link->state = TCP_LINK_ENDED;
	}
	if (!link->believed_at) {
		link->error = error;
		tt_log(DEBUG, TCP, "rank %d channel %d: rank %d closed its connection: %s", e->rank,
		       link->channel, link->base.peer, error ? strerror(error) : "end of stream");
		link->believed_at = tt_now() + TCP_DOUBT_MS * TCP_MS;
		e->doubt_until = link->believed_at;
		if (e->armed)
			tt_tcp_timer_set(e);
	}
	tt_tcp_link_watch(link);
	return report(link, flag);
}

void tt_tcp_link_ended(struct tcp_link *link, int error)
{
	ended(link, error, &link->starved);
}

static size_t sum(const struct iovec *iov, int n)
{
	size_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* Short pieces, such as a header and its payload, are put together: sendmsg() takes longer than
 * copying them. */
static ssize_t send_together(int fd, const struct iovec *iov, int n, int flags)
{
	uint8_t bytes[TOGETHER_BYTES];
	size_t length = 0;

	for (int i = 0; i < n; length += iov[i++].iov_len)
		memcpy(bytes + length, iov[i].iov_base, iov[i].iov_len);
	return send(fd, bytes, length, flags);
}

ssize_t tt_tcp_rail_send(const struct tcp_rail *rail, const struct iovec *iov, int n, size_t bytes)
{
	const struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;

	if (rail->connection.tls)
		return tt_tls_write(rail->connection.tls, iov, n);
	if (n == 1)
		return send(rail->connection.fd, iov->iov_base, iov->iov_len, flags);
	if (bytes <= TOGETHER_BYTES)
		return send_together(rail->connection.fd, iov, n, flags);
	return sendmsg(rail->connection.fd, &message, flags);
}

ssize_t tt_tcp_rail_receive(const struct tcp_rail *rail, const struct iovec *iov, int n)
{
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	if (rail->connection.tls)
		return tt_tls_read(rail->connection.tls, iov, n);
	if (n == 1)
		return recv(rail->connection.fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);
	return recvmsg(rail->connection.fd, &message, MSG_DONTWAIT);
}

/* The part of iov from byte `from` on, PIECES at most and no more than `most` bytes; gives how
 * many pieces, and their bytes. */
static int cut(const struct iovec *iov, int n, size_t from, size_t most, struct iovec out[PIECES],
	       size_t *bytes)
{
	int pieces = 0;

	*bytes = 0;
	for (int i = 0; i < n && pieces < PIECES && *bytes < most; i++) {
		if (from >= iov[i].iov_len) {
			from -= iov[i].iov_len;
			continue;
		}
		const size_t left = iov[i].iov_len - from, fits = most - *bytes;

		out[pieces] = (struct iovec){ (uint8_t *)iov[i].iov_base + from,
					      left < fits ? left : fits };
		*bytes += out[pieces++].iov_len;
		from = 0;
	}
	return pieces;
}

static ssize_t send_on(struct tcp_link *link, const struct iovec *iov, int n, size_t bytes)
{
	size_t most;
	const struct tcp_rail *rail = tt_tcp_rail_at(link, link->sent, &most);
	ssize_t sent;

	do
		sent = tt_tcp_rail_send(rail, iov, n, bytes);
	while (sent < 0 && errno == EINTR);
	link->sent += sent > 0 ? (uint64_t)sent : 0;
	return sent;
}

/* Stripe by stripe, as far as the rail whose turn it is takes them. */
static ssize_t send_striped(struct tcp_link *link, const struct iovec *iov, int n, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		struct iovec part[PIECES];
		size_t most, length;

		tt_tcp_rail_at(link, link->sent, &most);
		const int pieces = cut(iov, n, done, most, part, &length);
		const ssize_t sent = send_on(link, part, pieces, length);

		if (sent < 0)
			return done ? (ssize_t)done : sent;
		done += (size_t)sent;
		if ((size_t)sent < length)
			break;
	}
	return (ssize_t)done;
}

ssize_t tt_tcp_link_write(struct tt_link *base, const struct iovec *iov, int n)
{
	struct tcp_link *link = tcp_link_of(base);
	const int few = n < IOV_MAX ? n : IOV_MAX;
	const size_t bytes = sum(iov, few);

	if (link->state != TCP_LINK_UP)
		return report(link, &link->blocked);
	const ssize_t sent =
		link->spread ? send_striped(link, iov, few, bytes) : send_on(link, iov, few, bytes);
	if (sent < 0 && errno != EAGAIN)
		return ended(link, errno, &link->blocked);
	if (sent < 0)
		return not_now(link, &link->blocked);
	link->blocked = (size_t)sent < bytes;
	return sent;
}

static ssize_t drain_scratch(struct tcp_link *link, const struct iovec *iov, int n)
{
	size_t moved = 0;

	for (int i = 0; i < n && link->begin < link->end; i++) {
		const size_t there = link->end - link->begin;
		const size_t bytes = there < iov[i].iov_len ? there : iov[i].iov_len;

		memcpy(iov[i].iov_base, link->scratch + link->begin, bytes);
		tt_tcp_link_release(&link->base, bytes);
		moved += bytes;
	}
	return (ssize_t)moved;
}

static ssize_t receive_on(struct tcp_link *link, const struct iovec *iov, int n)
{
	size_t most;
	const struct tcp_rail *rail = tt_tcp_rail_at(link, link->received, &most);
	ssize_t got;

	do
		got = tt_tcp_rail_receive(rail, iov, n);
	while (got < 0 && errno == EINTR);
	link->received += got > 0 ? (uint64_t)got : 0;
	return got;
}

/* 0: the end of the stream; as recvmsg(). */
static ssize_t receive_striped(struct tcp_link *link, const struct iovec *iov, int n, size_t asked)
{
	size_t done = 0;

	while (done < asked) {
		struct iovec part[PIECES];
		size_t most, length;

		tt_tcp_rail_at(link, link->received, &most);
		const int pieces = cut(iov, n, done, most, part, &length);
		const ssize_t got = receive_on(link, part, pieces);

		if (got <= 0)
			return done ? (ssize_t)done : got;
		done += (size_t)got;
		if ((size_t)got < length)
			break;
	}
	return (ssize_t)done;
}

/* Into iov; `asked` is its sum and not 0. */
static ssize_t receive(struct tcp_link *link, const struct iovec *iov, int n, size_t asked)
{
	if (link->state != TCP_LINK_UP)
		return report(link, &link->starved);
	const ssize_t got =
		link->spread ? receive_striped(link, iov, n, asked) : receive_on(link, iov, n);
	if (got == 0 || (got < 0 && errno != EAGAIN))
		return ended(link, got < 0 ? errno : 0, &link->starved);
	if (got < 0)
		return not_now(link, &link->starved);
	link->starved = (size_t)got < asked;
	return got;
}

ssize_t tt_tcp_link_read(struct tt_link *base, const struct iovec *iov, int n)
{
	struct tcp_link *link = tcp_link_of(base);
	const int few = n < IOV_MAX ? n : IOV_MAX;
	const size_t asked = sum(iov, few);

	if (asked == 0)
		return 0;
	if (link->begin < link->end)
		return drain_scratch(link, iov, few);
	return receive(link, iov, few, asked);
}

/* Take in what has arrived, so that at most `limit` bytes are in scratch. */
static ssize_t fill(struct tcp_link *link, size_t want, size_t limit)
{
	const size_t there = link->end - link->begin;
	struct iovec capacity;

	if (!link->scratch)
		link->scratch = aligned_alloc(4096, SCRATCH_BYTES);
	if (!link->scratch)
		return tt_fail(TUTTI_ERR_NO_MEMORY, TCP, "no memory of %zu bytes to receive into",
			       (size_t)SCRATCH_BYTES);
	/* what is left over is short: there < want */
	if (there > 0 && link->begin > 0 && SCRATCH_BYTES - link->end < limit - there) {
		memmove(link->scratch, link->scratch + link->begin, there);
		link->begin = 0;
		link->end = there;
	}
	capacity.iov_base = link->scratch + link->end;
	capacity.iov_len = SCRATCH_BYTES - link->end;
	if (capacity.iov_len > limit - there)
		capacity.iov_len = limit - there;
	const ssize_t got = receive(link, &capacity, 1, want - there);
	if (got > 0)
		link->end += (size_t)got;
	return got;
}

ssize_t tt_tcp_link_peek(struct tt_link *base, size_t want, size_t limit, const void **data)
{
	struct tcp_link *link = tcp_link_of(base);
	size_t there = link->end - link->begin;

	if (want == 0)
		want = 1;
	if (limit == 0)
		return 0;
	if (want > limit)
		want = limit;
	if (there < want) {
		const ssize_t got = fill(link, want, limit);

		if (got < 0)
			return got;
		there = link->end - link->begin;
	}
	*data = link->scratch + link->begin;
	return (ssize_t)(there < limit ? there : limit);
}

void tt_tcp_link_release(struct tt_link *base, size_t bytes)
{
	struct tcp_link *link = tcp_link_of(base);

	link->begin += bytes;
	if (link->begin == link->end)
		link->begin = link->end = 0; /* the next bytes come aligned */
}

bool tt_tcp_link_ready(const struct tt_link *base)
{
	return ((const struct tcp_link *)base)->state == TCP_LINK_UP;
}

void tt_tcp_link_close(struct tt_link *base)
{
	struct tcp_link *link = tcp_link_of(base);
	struct tcp_endpoint *e;

	if (!link)
		return;
	e = endpoint_of(link);
	tt_tcp_negotiation_end(link);
	if (link->state == TCP_LINK_WAITING)
		tt_tcp_dial_drop(e, base->peer, tcp_slot(link->channel, 0));
	stop_waiting(link);
	link->state = TCP_LINK_ENDED;
	tt_tcp_link_watch(link); /* nothing any more */
	for (int i = 0; i < link->count; i++)
		tt_tcp_close_orderly(link->rail[i].connection);
	e->peers[base->peer].link[link->channel] = NULL;
	free(link->spread);
	free(link->scratch);
	free(link);
}
