/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS between two ends on sockets that the kernel does not encrypt for, so that OpenSSL does. */
#include "test_tls_pair.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>

static const struct tt_key theirs = { .set = true, .bytes = { 1, 2, 4 }, .encrypt = true };
static const int domain[2] = { AF_UNIX, AF_UNIX };

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
	pair_open(p, domain, &ours, &ours);
	shake_hands(p);
	assert_int_equal(p->end[0].result, TUTTI_OK);
	assert_int_equal(p->end[1].result, TUTTI_OK);
}

/* ---- claims */

static void nothing_is_in_the_clear(void **state)
{
	static struct pair p;
	char heard[sizeof(PATTERN)] = "";

	(void)state;
	keep_log();
	connected(&p);
	assert_true(logged("connections are encrypted (TLS_AES_128_GCM_SHA256): what is sent by OpenSSL, what is received by OpenSSL"));
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
	pair_open(&p, domain, &ours, &ours);
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
	pair_open(&p, domain, &theirs, &ours);
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
	pair_open(&p, domain, NULL, &ours);
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

static void long_streams_pass_both_ways_at_once(void **state)
{
	static struct pair p;

	(void)state;
	connected(&p);
	pass_long_streams(&p);
	pair_close(&p);
}

/* A record has 22 bytes more than it carries; the message that announces a new key has five. */
static void a_key_is_changed_after_its_records(void **state)
{
	enum { RECORDS = 5 * RECORDS_PER_KEY / 2, BYTES = 100 };
	static struct pair p;
	uint8_t bytes[BYTES] = { 0 }, heard[BYTES];

	(void)state;
	connected(&p);
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
	pair_close(&p);
}

static void without_a_key_there_is_no_tls(void **state)
{
	const struct tt_key none = { 0 };
	struct tt_tls *tls = NULL;

	(void)state;
	assert_int_equal(tt_tls_open(&none, "connections", &tls), TUTTI_ERR_INVALID);
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
		cmocka_unit_test(a_key_is_changed_after_its_records),
		cmocka_unit_test(without_a_key_there_is_no_tls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
