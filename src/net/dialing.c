/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the dialer's steps of a handshake. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "failure.h"
#include "handshake.h"

static enum tt_handshake_state fail(struct tt_dialing *d, enum tt_verdict verdict, const char *why)
{
	d->verdict = verdict;
	d->why = why;
	return TT_HANDSHAKE_FAILED;
}

/* What a handshake sends fits into the buffer of a socket on which it waits for each answer. */
static bool send_all(struct tt_connection connection, const uint8_t *bytes, size_t length)
{
	return tt_connection_send(connection, bytes, length) == (ssize_t)length;
}

static enum tt_handshake_state ask(struct tt_dialing *d, struct tt_connection *connection)
{
	if (!send_all(*connection, d->hello, sizeof(d->hello)))
		return fail(d, TT_VERDICT_GONE, strerror(errno));
	d->asked = true;
	return TT_HANDSHAKE_READS;
}

/* Zeros are no proof: the other end then knows that the keys differ. */
static enum tt_handshake_state confirm(const struct tt_handshake_terms *terms, struct tt_dialing *d,
				       struct tt_connection *connection, bool proven)
{
	uint8_t bytes[TT_CONFIRM_BYTES] = { 0 };

	if (proven)
		tt_confirm_write(terms->protocol, terms->key, d->hello, d->answer, bytes);
	if (!send_all(*connection, bytes, sizeof(bytes)))
		return fail(d, TT_VERDICT_GONE, strerror(errno));
	return proven ? TT_HANDSHAKE_DONE
		      : fail(d, TT_VERDICT_OTHER_KEY, tt_verdict_text(TT_VERDICT_OTHER_KEY));
}

static enum tt_handshake_state receive_answer(const struct tt_handshake_terms *terms,
					      struct tt_dialing *d,
					      struct tt_connection *connection)
{
	const ssize_t n =
		tt_connection_receive(*connection, d->answer + d->got, sizeof(d->answer) - d->got);
	enum tt_verdict verdict;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return TT_HANDSHAKE_READS;
	if (n <= 0)
		return fail(d, TT_VERDICT_GONE,
			    n < 0 ? strerror(errno) : "closed without an answer");
	d->got += (size_t)n;
	verdict = tt_answer_begins(terms->protocol, d->answer, d->got);
	if (verdict == TT_VERDICT_ACCEPTED && d->got < sizeof(d->answer))
		return TT_HANDSHAKE_READS;
	if (verdict == TT_VERDICT_ACCEPTED)
		verdict = tt_answer_read(terms->protocol, terms->key, d->hello, d->answer);
	if (verdict == TT_VERDICT_ACCEPTED || verdict == TT_VERDICT_OTHER_KEY)
		return confirm(terms, d, connection, verdict == TT_VERDICT_ACCEPTED);
	return fail(d, verdict, tt_verdict_text(verdict));
}

static enum tt_handshake_state secure(struct tt_dialing *d, struct tt_connection *connection)
{
	const tutti_result_t result = tt_tls_handshake(connection->tls);

	if (result < 0)
		return fail(d, result == TUTTI_ERR_PEER_LOST ? TT_VERDICT_GONE : TT_VERDICT_NO_TLS,
			    tt_thread_error());
	if (result == TUTTI_OK)
		return ask(d, connection);
	return tt_tls_blocked(connection->tls) ? TT_HANDSHAKE_WRITES : TT_HANDSHAKE_READS;
}

enum tt_handshake_state tt_dialing_step(const struct tt_handshake_terms *terms,
					struct tt_dialing *d, struct tt_connection *connection)
{
	return d->asked ? receive_answer(terms, d, connection) : secure(d, connection);
}

enum tt_handshake_state tt_dialing_begin(const struct tt_handshake_terms *terms,
					 struct tt_dialing *d, struct tt_connection *connection,
					 const struct tt_hello *hello)
{
	struct tt_hello says = *hello;
	uint8_t nonce[TT_NONCE_BYTES];

	memset(d, 0, sizeof(*d));
	says.keyed = tt_key_is_set(terms->key);
	if (tt_random(nonce, sizeof(nonce)) < 0)
		return fail(d, TT_VERDICT_SYSTEM, tt_thread_error());
	tt_hello_write(terms->protocol, &says, nonce, d->hello);
	if (!terms->tls)
		return ask(d, connection);
	if (tt_tls_stream_open(terms->tls, connection->fd, true, hello->from, &connection->tls) < 0)
		return fail(d, TT_VERDICT_SYSTEM, tt_thread_error());
	return secure(d, connection);
}
