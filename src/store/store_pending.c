/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the clients of a store of which nobody knows yet whether they belong to the job.
 *
 * Anybody may connect. Until a client has said hello and proven that it has the job's key it is
 * a pending client: nothing but a hello and a proof is kept of it, it has a deadline for both, and
 * where pending clients are too many, the oldest is dropped; a rank that lost its place that way
 * connects again. */
#include "store_pending.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "accept.h"
#include "fork.h"
#include "log.h"
#include "store_address.h"
#include "store_peer.h"
#include "store_requests.h"
#include "store_session.h"
#include "transport.h"
#include "unix_peer.h"

#define PENDING_MAX 512
#define SECOND	    1000000000ull
#define HELLO_WAIT  (10 * SECOND) /* for a client to say hello and to prove that it has the key */

/* Anybody can bring these lines about. */
void tt_store_pending_turn_away(struct tt_store_clients *s, struct tt_store_client *c,
				const char *why)
{
	char more[TT_LOG_MORE];

	if (tt_log_due(&s->quota, more))
		tt_log(WARN, STORE, "drops %s, which %s%s", c->name, why, more);
	tt_store_client_drop(s, c, NULL);
}

/* It may be a rank that was given another key than the others, who then wait for it in vain.
 * What a pending client says ends nothing, unless it could end the job in other ways: as the
 * same user on this machine, or where there is no key. */
static void turn_away_unfit(struct tt_store_clients *s, struct tt_store_client *c, const char *why)
{
	const bool believed =
		c->handshake.says.from >= 0 &&
		(!tt_key_is_set(s->admission.terms.key) || tt_store_peer_is_own(c->connection.fd));

	tt_store_client_unfit(s, c, why, believed);
	tt_store_pending_turn_away(s, c, why);
}

static void let_in(struct tt_store_clients *s, struct tt_store_client *c)
{
	s->pending--;
	c->deadline = TT_STORE_NEVER;
	tt_store_client_read_next(s, c);
}

static enum tt_verdict judge(const void *unused, const struct tt_hello *hello)
{
	return hello->purpose == 0 && hello->channel == 0 && hello->comm_id == 0 &&
			       hello->to == 0 && hello->from >= -1
		       ? TT_VERDICT_ACCEPTED
		       : TT_VERDICT_NOT_UNDERSTOOD;
}

struct tt_listener tt_store_pending_listener(const struct tt_key *key, struct tt_tls *tls)
{
	return (struct tt_listener){ .terms = { &tt_store_protocol, key, tls }, .judge = judge };
}

void tt_store_pending_step(struct tt_store_clients *s, struct tt_store_client *c)
{
	switch (tt_pending_step(&s->admission, &c->handshake, &c->connection)) {
	case TT_HANDSHAKE_READS: tt_store_client_watch_out(s, c, false); break;
	case TT_HANDSHAKE_WRITES: tt_store_client_watch_out(s, c, true); break;
	case TT_HANDSHAKE_DONE: let_in(s, c); break;
	case TT_HANDSHAKE_FAILED:
		if (c->handshake.verdict == TT_VERDICT_GONE)
			tt_store_client_drop(s, c, NULL);
		else
			turn_away_unfit(s, c, c->handshake.why);
	}
}

/* ---------------------------------------------------------------- who comes, and who makes room */

/* Fills in the client's name; false if it may not take part. */
static bool admit(struct tt_store_client *c, const struct sockaddr_storage *from)
{
	const int one = 1;
	if (from->ss_family == AF_UNIX) {
		tt_unix_peer_text(c->connection.fd, c->name);
		return tt_unix_peer_trusted(c->connection.fd);
	}
	tt_store_sockaddr_name(from, c->name, sizeof(c->name));
	setsockopt(c->connection.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(c->connection.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	return true;
}

static struct tt_store_client *least_welcome(const struct tt_store_clients *s)
{
	struct tt_store_client *least = NULL;

	for (struct tt_store_client *c = s->first; c; c = c->next)
		if (c->state == TT_CLIENT_PENDING &&
		    (!least || tt_pending_less_welcome(&c->handshake, &least->handshake)))
			least = c;
	return least;
}

/* A rank that is in the middle of its proof would not notice in time that it was dropped. */
static void leave_descriptors(struct tt_store_clients *s, int fd)
{
	const int most = tt_accept_most(fd, PENDING_MAX);

	for (const struct tt_store_client *c; s->pending >= most && (c = least_welcome(s)) &&
					      c->handshake.stage != TT_PENDING_CONFIRM;)
		tt_store_pending_make_space(s);
}

struct tt_store_client *tt_store_pending_receive(struct tt_store_clients *s, int fd,
						 const struct sockaddr_storage *from)
{
	struct tt_store_client *c = calloc(1, sizeof(*c));
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = c };

	if (s->pending >= PENDING_MAX)
		tt_store_pending_make_space(s);
	leave_descriptors(s, fd);
	if (!c || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
		tt_log(WARN, STORE, "refuses a connection: %s", strerror(errno));
		free(c);
		tt_fd_close(fd);
		return NULL;
	}
	c->connection.fd = fd;
	tt_pending_init(&s->admission, &c->handshake, from->ss_family != AF_UNIX,
			tt_now() + HELLO_WAIT);
	tt_store_client_enter(s, c);
	tt_store_client_set_deadline(s, c, c->handshake.deadline);
	if (!admit(c, from))
		tt_store_client_drop(s, c, "may not use the store: only its owner and root may");
	return c;
}

bool tt_store_pending_make_space(struct tt_store_clients *s)
{
	struct tt_store_client *oldest = least_welcome(s);

	if (oldest)
		tt_store_pending_turn_away(
			s, oldest,
			"has waited longest of too many that have not proven that they belong to the job");
	return oldest;
}

void tt_store_pending_hurry(struct tt_store_clients *s, uint64_t deadline)
{
	for (struct tt_store_client *c = s->first; c; c = c->next)
		if (c->state == TT_CLIENT_PENDING && c->deadline > deadline)
			tt_store_client_set_deadline(s, c, deadline);
}
