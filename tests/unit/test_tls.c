/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS between two ends, with the wire in the test's hands: it carries as many bytes at a time as asked for, keeps what it
 * carried, and may change a byte. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"
#include "tls.h"

#define PIECE_MAX 65536
#define PATTERN	  "these words are for the other rank alone"

static const struct tt_key ours = { .set = true, .bytes = { 1, 2, 3 }, .encrypt = true };
static const struct tt_key theirs = { .set = true, .bytes = { 1, 2, 4 }, .encrypt = true };

struct end {
	int fd, wire; /* this end's socket, and the wire's end of it */
	struct tt_tls *tls;
	struct tt_tls_stream *stream;
	tutti_result_t result; /* of the handshake */
	char why[TT_ERROR_MAX];
};

/* What was taken from one end and not given to the other. */
struct hand {
	uint8_t bytes[PIECE_MAX];
	size_t begin, end;
};

struct pair {
	struct end end[2]; /* 0 dials */
	struct hand hand[2];
	size_t piece;	   /* bytes that the wire carries at a time */
	uint8_t *seen;	   /* all that it has carried */
	size_t seen_bytes, seen_room;
};

static void open_end(struct end *end, const struct tt_key *key, bool dials)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	end->fd = fds[0];
	end->wire = fds[1];
	end->result = TUTTI_IN_PROGRESS;
	if (!key)
		return;
	assert_int_equal(tt_tls_open(key, &end->tls), TUTTI_OK);
	assert_int_equal(tt_tls_stream_open(end->tls, end->fd, dials, &end->stream), TUTTI_OK);
}

static void pair_open(struct pair *p, const struct tt_key *dialer, const struct tt_key *listener)
{
	*p = (struct pair){ .piece = PIECE_MAX };
	open_end(&p->end[0], dialer, true);
	open_end(&p->end[1], listener, false);
}

static void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		tt_tls_stream_close(p->end[i].stream);
		tt_tls_close(p->end[i].tls);
		close(p->end[i].fd);
		close(p->end[i].wire);
	}
	free(p->seen);
}

static void note(struct pair *p, const uint8_t *bytes, size_t n)
{
	if (p->seen_bytes + n > p->seen_room) {
		p->seen_room = 2 * (p->seen_bytes + n);
		p->seen = realloc(p->seen, p->seen_room);
		assert_non_null(p->seen);
	}
	memcpy(p->seen + p->seen_bytes, bytes, n);
	p->seen_bytes += n;
}

/* Carry what is there from each end to the other; false: nothing was. Bytes for which there is no room stay in hand. */
static bool carry(struct pair *p)
{
	bool any = false;

	for (int from = 0; from < 2; from++) {
		struct hand *hand = &p->hand[from];

		if (hand->begin == hand->end) {
			const ssize_t n = recv(p->end[from].wire, hand->bytes, p->piece, 0);

			if (n <= 0)
				continue;
			hand->begin = 0;
			hand->end = (size_t)n;
			note(p, hand->bytes, (size_t)n);
		}
		const ssize_t sent = send(p->end[!from].wire, hand->bytes + hand->begin, hand->end - hand->begin, MSG_NOSIGNAL);

		if (sent > 0)
			hand->begin += (size_t)sent;
		else if (errno != EAGAIN)
			hand->begin = hand->end; /* closed */
		any = true;
	}
	return any;
}

static void step(struct end *end)
{
	if (end->result != TUTTI_IN_PROGRESS || !end->stream)
		return;
	end->result = tt_tls_handshake(end->stream);
	if (end->result < 0) {
		strncpy(end->why, tt_thread_error(), sizeof(end->why) - 1);
		shutdown(end->fd, SHUT_WR);
	}
}

static void shake_hands(struct pair *p)
{
	bool going = true;

	while (going) {
		step(&p->end[0]);
		step(&p->end[1]);
		going = carry(p);
	}
	step(&p->end[0]);
	step(&p->end[1]);
}

static void connected(struct pair *p)
{
	pair_open(p, &ours, &ours);
	shake_hands(p);
	assert_int_equal(p->end[0].result, TUTTI_OK);
	assert_int_equal(p->end[1].result, TUTTI_OK);
}

static ssize_t write_bytes(struct end *end, const void *bytes, size_t length)
{
	const struct iovec iov = { (void *)(uintptr_t)bytes, length };

	return tt_tls_write(end->stream, &iov, 1);
}

static ssize_t read_bytes(struct end *end, void *bytes, size_t length)
{
	const struct iovec iov = { bytes, length };

	return tt_tls_read(end->stream, &iov, 1);
}

static bool seen(const struct pair *p, const char *text)
{
	return memmem(p->seen, p->seen_bytes, text, strlen(text)) != NULL;
}

/* ---- claims */

static void nothing_is_in_the_clear(void **state)
{
	static struct pair p;
	char heard[sizeof(PATTERN)] = "";

	(void)state;
	connected(&p);
	assert_int_equal(write_bytes(&p.end[0], PATTERN, sizeof(PATTERN)), sizeof(PATTERN));
	while (carry(&p))
		continue;
	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), sizeof(heard));
	assert_string_equal(heard, PATTERN);
	assert_false(seen(&p, "for the other"));
	pair_close(&p);
}

static void a_handshake_may_come_byte_by_byte(void **state)
{
	static struct pair p;

	(void)state;
	pair_open(&p, &ours, &ours);
	p.piece = 1;
	shake_hands(&p);
	assert_int_equal(p.end[0].result, TUTTI_OK);
	assert_int_equal(p.end[1].result, TUTTI_OK);
	pair_close(&p);
}

static void who_has_another_key_does_not_get_through(void **state)
{
	static struct pair p;

	(void)state;
	pair_open(&p, &theirs, &ours);
	shake_hands(&p);
	assert_int_equal(p.end[1].result, TUTTI_ERR_INVALID);
	assert_true(p.end[0].result < 0);
	assert_non_null(strstr(p.end[0].why, "the same key"));
	assert_non_null(strstr(p.end[1].why, "the same key"));
	pair_close(&p);
}

static void who_does_not_encrypt_does_not_get_through(void **state)
{
	static struct pair p;

	(void)state;
	pair_open(&p, NULL, &ours);
	assert_int_equal(send(p.end[0].fd, "tuttitcp and so on", 18, MSG_NOSIGNAL), 18);
	shake_hands(&p);
	assert_int_equal(p.end[1].result, TUTTI_ERR_INVALID);
	pair_close(&p);
}

/* A server of OpenSSL with a certificate of its own making, and without the key. */
static SSL_CTX *stranger(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();

	assert_true(context && key && certificate);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
	assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
	assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return context;
}

static void a_certificate_is_no_key(void **state)
{
	SSL_CTX *context = stranger();
	SSL *ssl = SSL_new(context);
	static struct pair p;
	bool going = true;

	(void)state;
	pair_open(&p, &ours, NULL);
	SSL_set_fd(ssl, p.end[1].fd);
	while (going) {
		step(&p.end[0]);
		SSL_accept(ssl);
		going = carry(&p);
	}
	step(&p.end[0]);
	assert_int_equal(p.end[0].result, TUTTI_ERR_INVALID);
	SSL_free(ssl);
	SSL_CTX_free(context);
	pair_close(&p);
}

static void a_changed_byte_ends_the_stream(void **state)
{
	static struct pair p;
	uint8_t record[256], heard[64];

	(void)state;
	connected(&p);
	assert_int_equal(write_bytes(&p.end[0], PATTERN, sizeof(PATTERN)), sizeof(PATTERN));
	const ssize_t n = recv(p.end[0].wire, record, sizeof(record), 0);

	assert_true(n > 0);
	record[n - 1] ^= 1;
	assert_int_equal(send(p.end[1].wire, record, (size_t)n, MSG_NOSIGNAL), n);
	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), -1);
	assert_int_equal(errno, EPROTO);
	pair_close(&p);
}

static void the_end_of_the_connection_is_the_end_of_the_stream(void **state)
{
	static struct pair p;
	char heard[8];

	(void)state;
	connected(&p);
	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), -1);
	assert_int_equal(errno, EAGAIN);
	shutdown(p.end[1].wire, SHUT_RDWR);
	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), 0);
	assert_int_equal(write_bytes(&p.end[1], heard, sizeof(heard)), -1); /* and no SIGPIPE */
	pair_close(&p);
}

#define LONG (3u << 20)

static uint8_t byte_at(int from, size_t at)
{
	return (uint8_t)(at * 31 + at / 4096 + (size_t)from);
}

struct flow {
	uint8_t *out, *in;
	size_t written, read, turn;
};

/* Cards and payloads: some short pieces, one of several records. */
static void push(struct end *end, struct flow *flow)
{
	const size_t left = LONG - flow->written, first = left < 64 ? left : 64;
	const size_t most = flow->turn++ % 3 ? 70000 : 100, rest = left - first < most ? left - first : most;
	const struct iovec iov[] = { { flow->out + flow->written, first },
				     { NULL, 0 },
				     { flow->out + flow->written + first, rest } };
	const ssize_t n = left ? tt_tls_write(end->stream, iov, 3) : 0;

	assert_true(n >= 0 || errno == EAGAIN);
	flow->written += n > 0 ? (size_t)n : 0;
}

static void pull(struct end *end, struct flow *flow)
{
	const size_t left = LONG - flow->read, some = left < 50000 ? left : 50000;
	const struct iovec iov[] = { { flow->in + flow->read, some / 3 }, { flow->in + flow->read + some / 3, some - some / 3 } };
	const ssize_t n = left ? tt_tls_read(end->stream, iov, 2) : 0;

	assert_true(n >= 0 || errno == EAGAIN);
	flow->read += n > 0 ? (size_t)n : 0;
}

static void long_streams_pass_both_ways_at_once(void **state)
{
	struct flow flows[2];
	static struct pair p;

	(void)state;
	connected(&p);
	for (int i = 0; i < 2; i++) {
		flows[i] = (struct flow){ malloc(LONG), calloc(1, LONG), 0, 0, 0 };
		assert_true(flows[i].out && flows[i].in);
		for (size_t at = 0; at < LONG; at++)
			flows[i].out[at] = byte_at(i, at);
	}
	p.piece = 9973; /* so that sockets fill, and records come in parts */
	while (flows[0].read < LONG || flows[1].read < LONG) {
		for (int i = 0; i < 2; i++) {
			push(&p.end[i], &flows[i]);
			pull(&p.end[i], &flows[i]);
		}
		carry(&p);
	}
	for (int i = 0; i < 2; i++)
		assert_memory_equal(flows[i].in, flows[!i].out, LONG);
	for (int i = 0; i < 2; i++) {
		free(flows[i].out);
		free(flows[i].in);
	}
	pair_close(&p);
}

static void without_a_key_there_is_no_tls(void **state)
{
	const struct tt_key none = { 0 };
	struct tt_tls *tls = NULL;

	(void)state;
	assert_int_equal(tt_tls_open(&none, &tls), TUTTI_ERR_INVALID);
	assert_null(tls);
	assert_non_null(strstr(tt_thread_error(), "TUTTI_KEY"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_in_the_clear),
		cmocka_unit_test(a_handshake_may_come_byte_by_byte),
		cmocka_unit_test(who_has_another_key_does_not_get_through),
		cmocka_unit_test(who_does_not_encrypt_does_not_get_through),
		cmocka_unit_test(a_certificate_is_no_key),
		cmocka_unit_test(a_changed_byte_ends_the_stream),
		cmocka_unit_test(the_end_of_the_connection_is_the_end_of_the_stream),
		cmocka_unit_test(long_streams_pass_both_ways_at_once),
		cmocka_unit_test(without_a_key_there_is_no_tls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
