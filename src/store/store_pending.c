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
		c->claim >= 0 && (!tt_key_is_set(s->key) || tt_store_peer_is_own(c->fd));

	tt_store_client_unfit(s, c, why, believed);
	tt_store_pending_turn_away(s, c, why);
}

static void let_in(struct tt_store_clients *s, struct tt_store_client *c)
{
	s->pending--;
	c->deadline = TT_STORE_NEVER;
	tt_store_client_read_next(s, c);
}

void tt_store_pending_hello(struct tt_store_clients *s, struct tt_store_client *c)
{
	uint8_t proof[TT_PROOF_BYTES], expected[TT_PROOF_BYTES];

	if (!tt_key_is_set(s->key)) {
		let_in(s, c);
		return;
	}
	tt_wire_prove(s->key, TT_WIRE_HOST, c->own, c->fixed, proof);
	tt_wire_prove(s->key, TT_WIRE_CLIENT, c->own, c->fixed, expected);
	memcpy(c->own, expected, sizeof(expected));
	c->state = TT_CLIENT_PROVING;
	c->in_length = TT_PROOF_BYTES;
	c->in_done = 0;
	if (tt_store_client_send(c, proof, sizeof(proof)) !=
	    sizeof(proof)) /* there is room after a hello */
		tt_store_client_drop(s, c, "has closed its connection");
}

void tt_store_pending_proof(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (tt_proof_equal(c->fixed, c->own))
		let_in(s, c);
	else
		turn_away_unfit(
			s, c,
			"has another key than this job: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE");
}

bool tt_store_pending_hello_good(struct tt_store_clients *s, struct tt_store_client *c)
{
	const char *fault = tt_wire_hello_fault(tt_key_is_set(s->key), c->fixed, c->in_done);

	c->claim = tt_wire_hello_claim(c->fixed, c->in_done);
	if (fault)
		turn_away_unfit(s, c, fault);
	return !fault;
}

static void greet(struct tt_store_clients *s, struct tt_store_client *c)
{
	c->state = TT_CLIENT_GREETING;
	/* fits an empty buffer */
	if (tt_store_client_send(c, c->own, sizeof(c->own)) != sizeof(c->own))
		tt_store_client_drop(s, c, "has closed its connection");
}

/* What it sent is taken first: a connection closed with bytes unread would lose the hello that
 * says why. */
static void refuse_plain(struct tt_store_clients *s, struct tt_store_client *c)
{
	const uint8_t nonce[TT_NONCE_BYTES] = { 0 };

	ssize_t n, first = 0;

	tt_wire_put_hello(TT_WIRE_KEYED | TT_WIRE_ENCRYPTED, -1, nonce, c->own);
	while ((n = tt_store_client_receive(c, c->fixed, sizeof(c->fixed))) > 0)
		first = first ? first : n;
	c->claim = tt_wire_hello_claim(c->fixed, (size_t)first);
	tt_store_client_send(c, c->own, sizeof(c->own));
	turn_away_unfit(
		s, c, "does not encrypt, as this job does: give all ranks the same TUTTI_ENCRYPT");
}

/* The first byte says whether a client encrypts. False: it is not there yet, or does not. */
static bool begin_tls(struct tt_store_clients *s, struct tt_store_client *c)
{
	uint8_t first;
	const ssize_t n = recv(c->fd, &first, 1, MSG_PEEK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0)
		tt_store_client_drop(s, c, NULL);
	else if (first != TT_TLS_FIRST_BYTE)
		refuse_plain(s, c);
	else if (tt_tls_stream_open(s->tls, c->fd, false, &c->tls) < 0)
		tt_store_pending_turn_away(s, c, "finds no memory for TLS");
	return c->tls;
}

void tt_store_pending_secure(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (!c->tls && !begin_tls(s, c))
		return;
	const tutti_result_t result = tt_tls_handshake(c->tls);

	if (result < 0) {
		turn_away_unfit(
			s, c,
			"did not get through the TLS handshake: it has another key than this job, or is no rank");
		return;
	}
	tt_store_client_watch_out(s, c, result && tt_tls_blocked(c->tls));
	if (result == TUTTI_OK)
		greet(s, c);
}

/* ---------------------------------------------------------------- who comes, and who makes room */

/* Fills in the client's name; false if it may not take part. */
static bool admit(struct tt_store_client *c, const struct sockaddr_storage *from)
{
	const int one = 1;
	if (from->ss_family == AF_UNIX) {
		tt_unix_peer_text(c->fd, c->name);
		return tt_unix_peer_trusted(c->fd);
	}
	tt_store_sockaddr_name(from, c->name, sizeof(c->name));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	return true;
}

struct tt_store_client *tt_store_pending_receive(struct tt_store_clients *s, int fd,
						 const struct sockaddr_storage *from)
{
	struct tt_store_client *c = calloc(1, sizeof(*c));
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = c };
	uint8_t nonce[TT_NONCE_BYTES];

	if (s->pending >= PENDING_MAX)
		tt_store_pending_make_space(s);
	if (!c || tt_nonce_make(nonce) < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
		tt_log(WARN, STORE, "refuses a connection: %s", strerror(errno));
		free(c);
		tt_fd_close(fd);
		return NULL;
	}
	c->fd = fd;
	c->claim = -1;
	c->state = s->tls && from->ss_family != AF_UNIX ? TT_CLIENT_SECURING : TT_CLIENT_GREETING;
	c->in_length = TT_WIRE_HELLO;
	tt_store_client_enter(s, c);
	tt_store_client_set_deadline(s, c, tt_now() + HELLO_WAIT);
	tt_wire_put_hello(tt_key_is_set(s->key) ? TT_WIRE_KEYED : 0, -1, nonce, c->own);
	if (!admit(c, from))
		tt_store_client_drop(s, c, "may not use the store: only its owner and root may");
	else if (c->state == TT_CLIENT_SECURING)
		tt_store_pending_secure(s, c);
	else
		greet(s, c);
	return c;
}

/* Does `a` make room before `b`? */
static bool less_welcome(const struct tt_store_client *a, const struct tt_store_client *b)
{
	return a->state != b->state ? a->state < b->state : a->deadline < b->deadline;
}

bool tt_store_pending_make_space(struct tt_store_clients *s)
{
	struct tt_store_client *oldest = NULL;

	for (struct tt_store_client *c = s->first; c; c = c->next)
		if (tt_store_client_is_pending(c) && (!oldest || less_welcome(c, oldest)))
			oldest = c;
	if (oldest)
		tt_store_pending_turn_away(
			s, oldest,
			"has waited longest of too many that have not proven that they belong to the job");
	return oldest;
}

void tt_store_pending_hurry(struct tt_store_clients *s, uint64_t deadline)
{
	for (struct tt_store_client *c = s->first; c; c = c->next)
		if (tt_store_client_is_pending(c) && c->deadline > deadline)
			tt_store_client_set_deadline(s, c, deadline);
}
