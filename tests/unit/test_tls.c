/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS between two ends on sockets that the kernel does not encrypt for, so that OpenSSL does. */
#include "held.h"
#include "test_tls_pair.h"
#include "test_warnings.h"

#include <errno.h>
#include <malloc.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>
#include <unistd.h>

static const struct tt_key theirs = { .set = true, .bytes = { 1, 2, 4 }, .encrypt = true };
static const int domain[2] = { AF_UNIX, AF_UNIX };

static struct pair p;

static void shake_hands(void)
{
	bool going = true;

	while (going) {
		step(&p.end[0]);
		step(&p.end[1]);
		going = carry(&p);
	}
	step(&p.end[0]);
	step(&p.end[1]);
}

static int connected(void **state)
{
	pair_open(&p, domain, &ours, &ours);
	shake_hands();
	return p.end[0].result || p.end[1].result;
}

static int disconnect(void **state)
{
	pair_close(&p);
	return 0;
}

/* ---- claims */

TEST_WITH(nothing_is_in_the_clear, NULL, disconnect)
{
	char heard[sizeof(PATTERN)] = "";

	listen_to(
		"connections are encrypted (TLS_AES_128_GCM_SHA256): what is sent by OpenSSL, what is received by OpenSSL");
	assert_int_equal(connected(state), 0);
	expect_told(2); /* by each end */
	assert_int_equal(write_bytes(&p.end[0], PATTERN, sizeof(PATTERN)), sizeof(PATTERN));
	while (carry(&p))
		continue;
	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), sizeof(heard));
	assert_string_equal(heard, PATTERN);
	assert_false(seen(&p, "for the other"));
}

TEST_WITH(a_handshake_may_come_byte_by_byte, NULL, disconnect)
{
	pair_open(&p, domain, &ours, &ours);
	p.piece = 1;
	shake_hands();
	assert_int_equal(p.end[0].result, TUTTI_OK);
	assert_int_equal(p.end[1].result, TUTTI_OK);
}

TEST_WITH(who_has_another_key_does_not_get_through, NULL, disconnect)
{
	pair_open(&p, domain, &theirs, &ours);
	shake_hands();
	assert_int_equal(p.end[1].result, TUTTI_ERR_INVALID);
	assert_true(p.end[0].result < 0);
	assert_says(p.end[0].why, "the same TUTTI_KEY");
	assert_says(p.end[1].why, "the same TUTTI_KEY");
}

TEST_WITH(who_does_not_encrypt_does_not_get_through, NULL, disconnect)
{
	pair_open(&p, domain, NULL, &ours);
	assert_int_equal(send(p.end[0].fd, "tuttitcp and so on", 18, MSG_NOSIGNAL), 18);
	shake_hands();
	assert_int_equal(p.end[1].result, TUTTI_ERR_INVALID);
}

/* A server of OpenSSL with a certificate of its own making, and without the key. */
static SSL_CTX *stranger(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, NULL);
	X509 *certificate = X509_new();
	EVP_PKEY *key = NULL;

	assert_true(context && maker && certificate);
	assert_true(EVP_PKEY_keygen_init(maker) == 1 && EVP_PKEY_keygen(maker, &key) == 1);
	EVP_PKEY_CTX_free(maker);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
	assert_true(X509_sign(certificate, key, NULL) > 0);
	assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return context;
}

TEST_WITH(a_certificate_is_no_key, NULL, disconnect)
{
	SSL_CTX *context = stranger();
	SSL *ssl = SSL_new(context);
	bool going = true;

	pair_open(&p, domain, &ours, NULL);
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
}

TEST_WITH(a_changed_byte_ends_the_stream, connected, disconnect)
{
	uint8_t record[256], heard[64];

	assert_int_equal(write_bytes(&p.end[0], PATTERN, sizeof(PATTERN)), sizeof(PATTERN));
	const ssize_t n = recv(p.end[0].connection, record, sizeof(record), 0);

	assert_true(n > 0);
	record[n - 1] ^= 1;
	assert_int_equal(send(p.end[1].connection, record, (size_t)n, MSG_NOSIGNAL), n);
	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), -1);
	assert_int_equal(errno, EPROTO);
}

TEST_WITH(the_end_of_the_connection_is_the_end_of_the_stream, connected, disconnect)
{
	char heard[8];

	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), -1);
	assert_int_equal(errno, EAGAIN);
	shutdown(p.end[1].connection, SHUT_RDWR);
	assert_int_equal(read_bytes(&p.end[1], heard, sizeof(heard)), 0);
	assert_int_equal(write_bytes(&p.end[1], heard, sizeof(heard)), -1); /* and no SIGPIPE */
}

TEST_OF_WITH(long_streams_pass_both_ways_at_once, connected, disconnect, pass_long_streams(&p))

/* A record has 22 bytes more than it carries; the message that announces a new key has five. */
TEST_WITH(a_key_is_changed_after_its_records, connected, disconnect)
{
	enum { RECORDS = 5 * RECORDS_PER_KEY / 2, BYTES = 100 };
	uint8_t bytes[BYTES] = { 0 }, heard[BYTES];

	const size_t before = p.seen_bytes;

	for (uint8_t i = 0; i < RECORDS; i++) {
		bytes[0] = i;
		assert_int_equal(write_bytes(&p.end[0], bytes, BYTES), BYTES);
		while (carry(&p))
			continue;
		assert_int_equal(read_bytes(&p.end[1], heard, BYTES), BYTES);
		assert_memory_equal(heard, bytes, BYTES);
	}
	assert_int_equal(p.seen_bytes - before, RECORDS * (BYTES + 22) + 2 * (5 + 22));
}

TEST(without_a_key_there_is_no_tls)
{
	const struct tt_key none = { 0 };
	struct tt_tls *tls = NULL;

	assert_int_equal(tt_tls_open(&none, "connections", &tls), TUTTI_ERR_INVALID);
	assert_null(tls);
	assert_says(tt_thread_error(), "TUTTI_KEY");
}

/* ---- who has no key, and does not say so */

#define STRANGERS    200
#define STRANGER_KIB 60 /* docs/reference/security.md says some 50 */

static long resident_kib(void)
{
	return (long)(bytes_held(HELD_RESIDENT) / 1024);
}

/* A listener's answer to the beginning of a handshake: a record, but for its last bytes, with a
 * message that may be longer. */
static tutti_result_t begin_with(struct tt_tls *tls, struct tt_tls_stream **stream, int fds[2],
				 size_t record, size_t missing, size_t message)
{
	static uint8_t bytes[20000] = { 0x16, 3, 1 };
	const size_t length = 5 + record - missing;

	bytes[3] = (uint8_t)(record >> 8);
	bytes[4] = (uint8_t)record;
	bytes[5] = 1; /* ClientHello */
	bytes[6] = (uint8_t)(message >> 16);
	bytes[7] = (uint8_t)(message >> 8);
	bytes[8] = (uint8_t)message;
	open_sockets(AF_UNIX, fds);
	assert_int_equal(send(fds[0], bytes, length, 0), length);
	assert_ok(tt_tls_stream_open(tls, fds[1], false, -1, stream));
	return tt_tls_handshake(*stream);
}

/* It waits for ever. */
TEST(a_stranger_is_given_little_memory)
{
	/* as long as a rank's may be; the record as long as TLS allows, and the message as
	 * OpenSSL does; in pieces */
	static const struct {
		size_t record, missing, message;
		tutti_result_t result;
	} cases[] = {
		{ 2048, 1, 2044, TUTTI_IN_PROGRESS },
		{ 16384, 0, 131072, TUTTI_ERR_INVALID },
		{ 100, 0, 131072, TUTTI_ERR_INVALID },
		{ 3, 0, 131072, TUTTI_ERR_INVALID },
	};
	struct tt_tls_stream *streams[STRANGERS] = { 0 };
	struct tt_tls *tls;
	int fds[STRANGERS][2];

	assert_ok(tt_tls_open(&ours, "connections", &tls));
	for (int i = 0; i < 4; i++) {
		long before = 0;

		malloc_trim(0);
		for (int k = 0; k < STRANGERS; k++) {
			if (k == 10) /* of what OpenSSL has made once */
				before = resident_kib();
			const tutti_result_t result =
				begin_with(tls, &streams[k], fds[k], cases[i].record,
					   cases[i].missing, cases[i].message);

			assert_int_equal(result, cases[i].result);
			assert_true(result > 0 || strstr(tt_thread_error(),
							 "longer than a rank's, or fragmented"));
		}
		const long each = (resident_kib() - before) / (STRANGERS - 10);

		for (int k = 0; k < STRANGERS; k++) {
			tt_tls_stream_close(streams[k]);
			close(fds[k][0]);
			close(fds[k][1]);
		}
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what is freed */
		if (each > STRANGER_KIB)
			fail_msg("case %d: %ld KiB for each, expected %d at most", i, each,
				 STRANGER_KIB);
#endif
		(void)each;
	}
	tt_tls_close(tls);
}
