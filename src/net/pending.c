/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the listener's steps of a handshake. Anybody may connect: nothing but a hello and a proof
 * is kept of a pending connection. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "failure.h"
#include "handshake.h"
#include "log.h"

#define UNREAD_MAX 16 /* reads of what a connection that is turned away has sent */

static enum tt_handshake_state fail(struct tt_pending *p, enum tt_verdict verdict, const char *why)
{
	p->verdict = verdict;
	p->why = why;
	return TT_HANDSHAKE_FAILED;
}

static enum tt_handshake_state refuse(struct tt_pending *p, enum tt_verdict verdict)
{
	return fail(p, verdict, tt_verdict_text(verdict));
}

/* A socket closed with bytes unread throws away what was sent on it. */
static void take_unread(int fd)
{
	uint8_t bytes[512];

	for (int i = 0; i < UNREAD_MAX && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
		continue;
}

static enum tt_verdict judge(const struct tt_listener *listener, const struct tt_pending *p,
			     const struct tt_connection *connection)
{
	const struct tt_hello *hello = &p->says;

	if (p->encrypts && !connection->tls)
		return TT_VERDICT_PLAIN;
	if (hello->keyed != tt_key_is_set(listener->terms.key))
		return hello->keyed ? TT_VERDICT_KEYED : TT_VERDICT_KEYLESS;
	return listener->judge(listener->context, hello);
}

/* The hello is there, or cannot become one: ask for the proof, or say why not. */
static enum tt_handshake_state answer(const struct tt_listener *listener, struct tt_pending *p,
				      struct tt_connection *connection, enum tt_verdict verdict)
{
	const struct tt_handshake_terms *terms = &listener->terms;
	uint8_t nonce[TT_NONCE_BYTES] = { 0 };

	if (verdict == TT_VERDICT_ACCEPTED && tt_random(nonce, sizeof(nonce)) < 0)
		return fail(p, TT_VERDICT_SYSTEM, tt_thread_error());
	if (verdict != TT_VERDICT_ACCEPTED && !connection->tls)
		take_unread(connection->fd);
	tt_answer_write(terms->protocol, terms->key, p->hello, listener->rank, verdict, nonce,
			p->answer);
	/* the first bytes on the socket: there is room for all of them */
	if (tt_connection_send(*connection, p->answer, sizeof(p->answer)) !=
	    (ssize_t)sizeof(p->answer))
		return refuse(p, verdict == TT_VERDICT_ACCEPTED ? TT_VERDICT_GONE : verdict);
	if (verdict != TT_VERDICT_ACCEPTED)
		return refuse(p, verdict);
	p->stage = TT_PENDING_CONFIRM;
	p->got = 0;
	return TT_HANDSHAKE_READS;
}

/* A stranger is not answered, unless it is a rank that encrypts. */
static enum tt_handshake_state not_a_hello(const struct tt_listener *listener, struct tt_pending *p,
					   struct tt_connection *connection)
{
	if (!connection->tls && p->hello[0] == TT_TLS_FIRST_BYTE) {
		p->says.from = tt_tls_peek_rank(connection->fd);
		return answer(listener, p, connection, TT_VERDICT_ENCRYPTED);
	}
	return refuse(p, TT_VERDICT_NO_HELLO);
}

/* Takes what is there of one message; bytes behind it stay in the socket. DONE: some came. */
static enum tt_handshake_state receive(struct tt_pending *p, struct tt_connection *connection,
				       uint8_t *in, size_t length)
{
	const ssize_t n = tt_connection_receive(*connection, in + p->got, length - p->got);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return TT_HANDSHAKE_READS;
	if (n <= 0)
		return refuse(p, TT_VERDICT_GONE);
	p->got += (size_t)n;
	return TT_HANDSHAKE_DONE;
}

static enum tt_handshake_state receive_hello(const struct tt_listener *listener,
					     struct tt_pending *p, struct tt_connection *connection)
{
	const struct tt_protocol *protocol = listener->terms.protocol;
	enum tt_verdict verdict = TT_VERDICT_ACCEPTED;

	while (verdict == TT_VERDICT_ACCEPTED && p->got < sizeof(p->hello)) {
		const enum tt_handshake_state state =
			receive(p, connection, p->hello, sizeof(p->hello));

		if (state != TT_HANDSHAKE_DONE)
			return state;
		verdict = tt_hello_begins(protocol, p->hello, p->got);
	}
	if (verdict == TT_VERDICT_NO_HELLO)
		return not_a_hello(listener, p, connection);
	if (p->got == sizeof(p->hello))
		verdict = tt_hello_read(protocol, p->hello, &p->says);
	if (verdict == TT_VERDICT_ACCEPTED)
		verdict = judge(listener, p, connection);
	return answer(listener, p, connection, verdict);
}

static enum tt_handshake_state receive_confirm(const struct tt_listener *listener,
					       struct tt_pending *p,
					       struct tt_connection *connection)
{
	const struct tt_handshake_terms *terms = &listener->terms;
	enum tt_verdict verdict;

	while (p->got < sizeof(p->confirm)) {
		const enum tt_handshake_state state =
			receive(p, connection, p->confirm, sizeof(p->confirm));

		if (state != TT_HANDSHAKE_DONE)
			return state;
	}
	verdict = tt_confirm_read(terms->protocol, terms->key, p->hello, p->answer, p->confirm);
	if (verdict == TT_VERDICT_ACCEPTED)
		verdict = judge(listener, p, connection);
	return verdict == TT_VERDICT_ACCEPTED ? TT_HANDSHAKE_DONE : refuse(p, verdict);
}

/* The first byte says whether a pending connection encrypts; one that does not is told by the
 * answer that it must. DONE: go on. */
static enum tt_handshake_state begin_tls(const struct tt_listener *listener, struct tt_pending *p,
					 struct tt_connection *connection)
{
	uint8_t first;
	const ssize_t n = recv(connection->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return TT_HANDSHAKE_READS;
	if (n == 1 && first == TT_TLS_FIRST_BYTE &&
	    tt_tls_stream_open(listener->terms.tls, connection->fd, false, -1, &connection->tls) <
		    0)
		return fail(p, TT_VERDICT_SYSTEM, tt_thread_error());
	if (!connection->tls)
		p->stage = TT_PENDING_HELLO;
	return TT_HANDSHAKE_DONE;
}

static enum tt_handshake_state secure(const struct tt_listener *listener, struct tt_pending *p,
				      struct tt_connection *connection)
{
	if (!connection->tls) {
		const enum tt_handshake_state state = begin_tls(listener, p, connection);

		if (state != TT_HANDSHAKE_DONE || !connection->tls)
			return state;
	}
	const tutti_result_t result = tt_tls_handshake(connection->tls);
	if (result == TUTTI_ERR_PEER_LOST)
		return refuse(p, TT_VERDICT_GONE);
	if (result < 0) {
		p->says.from = tt_tls_rank(connection->tls);
		return tt_tls_has_other_key(connection->tls)
			       ? refuse(p, TT_VERDICT_OTHER_KEY)
			       : fail(p, TT_VERDICT_NO_TLS, tt_thread_error());
	}
	if (result == TUTTI_IN_PROGRESS)
		return tt_tls_blocked(connection->tls) ? TT_HANDSHAKE_WRITES : TT_HANDSHAKE_READS;
	p->stage = TT_PENDING_HELLO;
	return TT_HANDSHAKE_DONE;
}

void tt_pending_init(const struct tt_listener *listener, struct tt_pending *p, bool encrypts,
		     uint64_t deadline)
{
	memset(p, 0, sizeof(*p));
	p->encrypts = encrypts && listener->terms.tls;
	p->stage = p->encrypts ? TT_PENDING_TLS : TT_PENDING_HELLO;
	p->deadline = deadline;
	p->says.from = -1;
}

enum tt_handshake_state tt_pending_step(const struct tt_listener *listener, struct tt_pending *p,
					struct tt_connection *connection)
{
	enum tt_handshake_state state;

	if (p->stage == TT_PENDING_TLS) {
		state = secure(listener, p, connection);
		if (p->stage == TT_PENDING_TLS)
			return state;
	}
	if (p->stage == TT_PENDING_HELLO) {
		state = receive_hello(listener, p, connection);
		if (p->stage == TT_PENDING_HELLO)
			return state;
	}
	return receive_confirm(listener, p, connection);
}

bool tt_pending_less_welcome(const struct tt_pending *a, const struct tt_pending *b)
{
	return a->stage != b->stage ? a->stage < b->stage : a->deadline < b->deadline;
}
