/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the listening socket and the pending connections: connections accepted whose handshake is
 * not complete. Anyone may connect, so pending connections are few, have a deadline, and the
 * oldest that has not said a hello of this communicator makes room for the next; a rank that lost its
 * place that way dials again, unless it was for a further rail of a link. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accept.h"
#include "endpoint.h"
#include "port_range.h"

#define PENDING_MS                                                                                 \
	5000 /* for a complete hello, sent right after connecting; and as long for the rest */
#define ACCEPT_MAX 64	      /* per poll */
#define PAUSE_MS   50	      /* when descriptors ran out */
#define ONE_LEFT   UINT64_MAX /* in place of a time: when a pending connection has left */
#define IDLE_MS                                                                                    \
	300 /* of a pending connection, after which it makes room when descriptors ran out */
#define SHORT_MS 500 /* that none is to be had, while somebody is waited for */

/* At all addresses, with IPv6 at those of IPv4, too; or at the loopback interface's. */
static int bind_to(int fd, int family, int port, bool everywhere)
{
	const struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
					  .sin6_port = htons((uint16_t)port),
					  .sin6_addr =
						  everywhere ? in6addr_any : in6addr_loopback };
	const struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK),
	};
	const int off = 0;

	if (family == AF_INET)
		return bind(fd, (const struct sockaddr *)&in, sizeof(in));
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
		return -1;
	return bind(fd, (const struct sockaddr *)&in6, sizeof(in6));
}

/* A listening socket, or -1 with errno. */
static int listen_at(const struct tcp_endpoint *e, int family, int port)
{
	const int fd = TT_FD(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), on = 1;

	if (fd < 0)
		return -1;
	/* ports of connections that linger after a job are free for the next job's listeners */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (e->buffer) {
		/* accepted sockets inherit it, in time for the window scale of the handshake */
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &e->buffer, sizeof(e->buffer));
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &e->buffer, sizeof(e->buffer));
	}
	/* a bound port of another socket may only show as taken when listening */
	if (bind_to(fd, family, port, tt_key_is_set(e->admission.terms.key)) == 0 &&
	    listen(fd, SOMAXCONN) == 0)
		return fd;
	tt_fd_close(fd);
	return -1;
}

/* Everywhere; without a key, at one loopback address. The second family where the first is
 * missing. */
static int listen_on(const struct tcp_endpoint *e, int port)
{
	const bool keyed = tt_key_is_set(e->admission.terms.key);
	const int fd = listen_at(e, keyed ? AF_INET6 : AF_INET, port);

	if (fd >= 0 || errno == EADDRINUSE || errno == EACCES)
		return fd;
	return listen_at(e, keyed ? AF_INET : AF_INET6, port);
}

/* What peers are told: where the socket is bound. */
static tutti_result_t fill_card(struct tcp_endpoint *e)
{
	struct sockaddr_storage name = { 0 };
	socklen_t length = sizeof(name);

	getsockname(e->listener.connection.fd, (struct sockaddr *)&name, &length);
	/* the port is at the same place in both families */
	e->card.port = ntohs(((struct sockaddr_in *)&name)->sin_port);
	if (tt_key_is_set(e->admission.terms.key)) {
		tt_log(DEBUG, TCP, "rank %d listens on port %d", e->rank, e->card.port);
		return TUTTI_OK;
	}
	tt_log(INFO, TCP,
	       "rank %d listens on the loopback interface only, port %d: there is no key (TUTTI_KEY, TUTTI_KEY_FILE)",
	       e->rank, e->card.port);
	return tt_tcp_only(&name, &e->card);
}

tutti_result_t tt_tcp_listen(struct tcp_endpoint *e)
{
	struct tt_port_range range;
	const tutti_result_t result = tt_port_range_parse(getenv("TUTTI_PORT_RANGE"), &range);

	if (result < 0)
		return result;
	for (int port = range.first; port <= range.last; port++) {
		e->listener.connection.fd = listen_on(e, port);
		if (e->listener.connection.fd >= 0 || (errno != EADDRINUSE && errno != EACCES))
			break;
	}
	if (e->listener.connection.fd < 0 && range.last > 0)
		return tt_fail_errno(TCP,
				     "no port of TUTTI_PORT_RANGE %d-%d can be listened on; give a "
				     "range with a free port for every rank of this machine",
				     range.first, range.last);
	if (e->listener.connection.fd < 0)
		return tt_fail_errno(TCP, "listen on a TCP port");
	e->listener.kind = TCP_LISTENER;
	if (!tt_tcp_watch(e, &e->listener, EPOLLIN))
		return tt_fail_errno(TCP, "watch the listening socket");
	return fill_card(e);
}

static void dismiss(struct tcp_endpoint *e, struct tcp_pending *pending)
{
	for (int i = 0; i < e->pending_count; i++)
		if (e->pending[i] == pending)
			e->pending[i] = e->pending[--e->pending_count];
	if (pending->source.connection.fd >= 0) {
		tt_tcp_unwatch(e, &pending->source);
		tt_fd_close(pending->source.connection.fd);
		pending->source.connection.fd = -1;
	}
	tt_tls_stream_close(pending->source.connection.tls);
	pending->source.connection.tls = NULL;
	tt_tcp_release(e, &pending->released);
	if (e->listen_again_at == ONE_LEFT)
		e->listen_again_at = 1; /* at once */
}

void tt_tcp_stop_listening(struct tcp_endpoint *e)
{
	while (e->pending_count > 0)
		dismiss(e, e->pending[0]);
	if (e->listener.connection.fd < 0)
		return;
	tt_tcp_unwatch(e, &e->listener);
	tt_fd_close(e->listener.connection.fd);
	e->listener.connection.fd = -1;
}

static struct tcp_pending *least_welcome(const struct tcp_endpoint *e)
{
	struct tcp_pending *least = e->pending[0];

	for (int i = 1; i < e->pending_count; i++)
		if (tt_pending_less_welcome(&e->pending[i]->handshake, &least->handshake))
			least = e->pending[i];
	return least;
}

/* A rank in the middle of its proof makes no room: it takes the connection for made when it has sent
 * it. Those who come next wait in the kernel's queue meanwhile. */
static bool is_full(const struct tcp_endpoint *e)
{
	return e->pending_count == TCP_PENDING_MAX &&
	       least_welcome(e)->handshake.stage == TT_PENDING_CONFIRM;
}

static void dismiss_oldest(struct tcp_endpoint *e)
{
	struct tcp_pending *oldest = least_welcome(e);
	char text[TCP_ADDRESS_TEXT];

	tt_log(INFO, TCP,
	       "dropped a connection from %s: %d wait to introduce themselves, and it waited "
	       "longest",
	       tt_tcp_text(&oldest->from, text), e->pending_count);
	dismiss(e, oldest);
}

/* For want of descriptors: one that idles makes room for one that may prove more. */
static bool dismiss_idler(struct tcp_endpoint *e)
{
	if (e->pending_count == 0 ||
	    tt_now() + PENDING_MS * TCP_MS <
		    least_welcome(e)->handshake.deadline + IDLE_MS * TCP_MS)
		return false;
	dismiss_oldest(e);
	return true;
}

/* Likewise. */
static void leave_descriptors(struct tcp_endpoint *e, int fd)
{
	const int most = tt_accept_most(fd, TCP_PENDING_MAX);

	while (e->pending_count >= most && least_welcome(e)->handshake.stage != TT_PENDING_CONFIRM)
		dismiss_oldest(e);
}

static void admit(struct tcp_endpoint *e, int fd, const struct sockaddr_storage *from)
{
	struct tcp_pending *pending = calloc(1, sizeof(*pending));

	if (!pending) {
		tt_log(WARN, TCP, "dropped a connection: no memory");
		tt_fd_close(fd);
		return;
	}
	if (e->pending_count == TCP_PENDING_MAX)
		dismiss_oldest(e);
	leave_descriptors(e, fd);
	pending->source = (struct tcp_source){ TCP_PENDING, { .fd = fd } };
	pending->from = *from;
	tt_pending_init(&e->admission, &pending->handshake, true, tt_now() + PENDING_MS * TCP_MS);
	e->pending[e->pending_count++] = pending;
	if (tt_tcp_watch(e, &pending->source, EPOLLIN))
		tt_tcp_pending_step(e, pending); /* its hello is often there by now */
	else
		dismiss(e, pending);
}

static void stop_accepting(struct tcp_endpoint *e, uint64_t until)
{
	tt_tcp_unwatch(e, &e->listener);
	e->listen_again_at = until;
}

/* The rest of accept()'s errors are the failed connection's own. */
static void accept_failed(struct tcp_endpoint *e)
{
	const uint64_t now = tt_now();
	char text[TT_ERRNO_MAX];

	if (!tt_errno_is_shortage(errno)) {
		e->short_since = 0;
		return;
	}
	if (!e->short_since) {
		e->short_since = now;
		tt_log(WARN, TCP, "rank %d cannot accept a connection: %s; trying again", e->rank,
		       tt_errno_text(errno, text));
	}
	e->shortage = errno;
	stop_accepting(e, now + PAUSE_MS * TCP_MS);
}

/* A rank that waits for others to connect while it cannot let them in would wait until its
 * deadline. Where it waits for none, a crowd of pending clients at the door ends nothing. When the
 * communicator has ended already, it is survivors that wait for each other: they are turned
 * away, and go on without this one. */
static void give_up_listening(struct tcp_endpoint *e)
{
	struct tt_fault fault = { .result = TUTTI_ERR_SYSTEM, .rank = e->rank };
	char text[TT_ERRNO_MAX];

	if (e->base.fault.result) {
		tt_log(WARN, TCP, "rank %d accepts no connections any more: %s", e->rank,
		       tt_errno_text(e->shortage, text));
		tt_tcp_stop_listening(e);
		return;
	}
	snprintf(fault.text, sizeof(fault.text),
		 "rank %d cannot accept the connections of other ranks: %s", e->rank,
		 tt_errno_text(e->shortage, text));
	tt_tcp_own_fault(e, &fault);
}

void tt_tcp_accept(struct tcp_endpoint *e)
{
	for (int i = 0; i < ACCEPT_MAX && e->listener.connection.fd >= 0; i++) {
		struct sockaddr_storage from;

		if (is_full(e)) {
			stop_accepting(e, ONE_LEFT);
			return;
		}
		const int fd = tt_accept(e->listener.connection.fd, &from);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && tt_errno_is_shortage(errno) && dismiss_idler(e))
			continue;
		if (fd < 0) {
			accept_failed(e);
			return;
		}
		e->short_since = 0;
		admit(e, fd, &from);
	}
}

enum tt_verdict tt_tcp_judge(const void *endpoint, const struct tt_hello *hello)
{
	const struct tcp_endpoint *e = endpoint;
	const int rail = hello->channel / TT_CHANNELS;
	const struct tcp_link *link;

	if (hello->purpose > TCP_FOR_CONTROL || rail >= TCP_RAILS_MAX)
		return TT_VERDICT_NOT_UNDERSTOOD;
	if (hello->comm_id != e->comm_id)
		return TT_VERDICT_OTHER_JOB;
	/* the lower rank dials, but for a rank that asks whether this one is still there */
	if (hello->to != e->rank || hello->from < 0 || hello->from == e->rank ||
	    hello->from >= e->size || (hello->from > e->rank && hello->purpose != TCP_FOR_CONTROL))
		return TT_VERDICT_OTHER_RANK;
	if (hello->purpose == TCP_FOR_CONTROL)
		return e->peers[hello->from].control ? TT_VERDICT_DUPLICATE : TT_VERDICT_ACCEPTED;
	if (*tt_tcp_find_kept((struct tcp_endpoint *)e, hello->from, hello->channel))
		return TT_VERDICT_DUPLICATE;
	if (rail > 0 && e->known &&
	    rail >= tt_tcp_rails_of(e, hello->from, hello->channel % TT_CHANNELS))
		return TT_VERDICT_NOT_UNDERSTOOD;
	link = e->peers[hello->from].link[hello->channel % TT_CHANNELS];
	if (link && (link->state > TCP_LINK_NEGOTIATING || rail >= link->count ||
		     link->rail[rail].connection.fd >= 0))
		return TT_VERDICT_DUPLICATE;
	return TT_VERDICT_ACCEPTED;
}

/* Anybody can bring these lines about. */
static void warn_of(struct tcp_endpoint *e, const struct tcp_pending *pending, const char *what)
{
	char text[TCP_ADDRESS_TEXT], more[TT_LOG_MORE];

	if (tt_log_due(&e->turned_away, more))
		tt_log(WARN, TCP, "rank %d dropped a connection from %s: it %s%s", e->rank,
		       tt_tcp_text(&pending->from, text), what, more);
}

static void turn_away(struct tcp_endpoint *e, struct tcp_pending *pending)
{
	const struct tt_pending *handshake = &pending->handshake;
	char text[TCP_ADDRESS_TEXT];

	if (handshake->verdict == TT_VERDICT_DUPLICATE)
		tt_log(DEBUG, TCP, "dropped a second connection from rank %d, %s",
		       handshake->says.from, tt_tcp_text(&pending->from, text));
	else if (handshake->verdict == TT_VERDICT_GONE)
		tt_log(DEBUG, TCP, "dropped a connection from %s: it went away",
		       tt_tcp_text(&pending->from, text));
	else
		warn_of(e, pending, handshake->why);
	dismiss(e, pending);
}

static void let_in(struct tcp_endpoint *e, struct tcp_pending *pending)
{
	const struct tt_connection connection = pending->source.connection;
	const struct tt_hello hello = pending->handshake.says;

	tt_tcp_unwatch(e, &pending->source);
	pending->source.connection = (struct tt_connection){ .fd = -1 }; /* for dismiss() */
	dismiss(e, pending);
	tt_tcp_tune(e, connection.fd, tt_tcp_is_local(connection.fd));
	tt_tcp_connected(e, &hello, hello.from, connection);
}

void tt_tcp_pending_step(struct tcp_endpoint *e, struct tcp_pending *pending)
{
	const bool said_hello = pending->handshake.stage == TT_PENDING_CONFIRM;

	switch (tt_pending_step(&e->admission, &pending->handshake, &pending->source.connection)) {
	case TT_HANDSHAKE_READS: tt_tcp_watch_for(e, &pending->source, EPOLLIN); break;
	case TT_HANDSHAKE_WRITES: tt_tcp_watch_for(e, &pending->source, EPOLLOUT); break;
	case TT_HANDSHAKE_DONE: let_in(e, pending); return;
	case TT_HANDSHAKE_FAILED: turn_away(e, pending); return;
	}
	if (!said_hello && pending->handshake.stage == TT_PENDING_CONFIRM)
		pending->handshake.deadline += PENDING_MS * TCP_MS;
}

void tt_tcp_pending_expire(struct tcp_endpoint *e, uint64_t now)
{
	for (int i = e->pending_count - 1; i >= 0; i--) {
		struct tcp_pending *pending = e->pending[i];

		if (now < pending->handshake.deadline)
			continue;
		warn_of(e, pending, "did not introduce itself in time");
		dismiss(e, pending);
	}
	if (e->listen_again_at && now >= e->listen_again_at) {
		e->listen_again_at = 0;
		tt_tcp_watch(e, &e->listener, EPOLLIN);
		tt_tcp_accept(e); /* the last time may be long ago, if this rank was in no call */
		if (e->short_since && now - e->short_since > SHORT_MS * TCP_MS &&
		    tt_tcp_awaits_pending(e)) {
			e->short_since = now;
			give_up_listening(e);
		}
	}
}
