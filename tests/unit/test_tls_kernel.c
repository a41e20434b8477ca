/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS between two ends on TCP, where the kernel encrypts what is sent; skipped where it does not
 * offer that. */
#include "test_tls_pair.h"
#include "test_warnings.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int both[2] = { AF_INET, AF_INET }, dialer_alone[2] = { AF_INET, AF_UNIX };

/* Connections for which the kernel has ever encrypted, or -1. */
static long encrypted_so_far(void)
{
	FILE *file = fopen("/proc/net/tls_stat", "re");
	char name[64];
	long value, found = -1;

	while (file && found < 0 && fscanf(file, "%63s %ld", name, &value) == 2)
		found = strcmp(name, "TlsTxSw") == 0 ? value : -1;
	if (file)
		fclose(file);
	return found;
}

static struct pair p;

static void connect_over(const int domain[2])
{
	pair_open(&p, domain, &ours, &ours);
	for (;;) {
		step(&p.end[0]);
		step(&p.end[1]);
		if (p.end[0].result != TUTTI_IN_PROGRESS && p.end[1].result != TUTTI_IN_PROGRESS)
			break;
		if (!carry(&p))
			wait_for_bytes(&p);
	}
	assert_int_equal(p.end[0].result, TUTTI_OK);
	assert_int_equal(p.end[1].result, TUTTI_OK);
}

static int disconnect(void **state)
{
	pair_close(&p);
	return 0;
}

/* Carry until there is something to read, or no more to come: what the read gave, and its errno. */
static ssize_t hear(struct end *end, void *bytes, size_t length)
{
	for (;;) {
		const ssize_t n = read_bytes(end, bytes, length);

		if (n >= 0 || errno != EAGAIN)
			return n;
		if (!carry(&p))
			wait_for_bytes(&p);
	}
}

/* ---- claims */

TEST_WITH(the_kernel_encrypts_what_is_sent, NULL, disconnect)
{
	const long before = encrypted_so_far();
	char heard[sizeof(PATTERN)];

	listen_to("what is sent by the kernel, what is received by OpenSSL");
	connect_over(both);
	expect_told(2); /* by each end */
	for (int i = 0; i < 2; i++) {
		assert_true(tt_tls_in_kernel(p.end[i].stream));
		assert_int_equal(write_bytes(&p.end[i], PATTERN, sizeof(PATTERN)), sizeof(PATTERN));
		assert_int_equal(hear(&p.end[!i], heard, sizeof(heard)), sizeof(heard));
		assert_string_equal(heard, PATTERN);
	}
	assert_false(seen(&p, "for the other"));
	assert_true(encrypted_so_far() >= before + 2);
}

TEST_WITH(long_streams_pass_both_ways_at_once, NULL, disconnect)
{
	connect_over(both);
	pass_long_streams(&p);
}

/* The other end changes its key every few records, for which this end's, in the kernel, need not
 * change. */
TEST_WITH(the_kernel_at_one_end_and_openssl_at_the_other, NULL, disconnect)
{
	connect_over(dialer_alone);
	assert_true(tt_tls_in_kernel(p.end[0].stream));
	assert_false(tt_tls_in_kernel(p.end[1].stream));
	pass_long_streams(&p);
}

/* Who reads a record that was changed tells the other end so by an alert, which is none of the
 * stream's bytes. */
TEST_WITH(an_alert_is_no_data, NULL, disconnect)
{
	uint8_t bytes[64];

	connect_over(both);
	assert_int_equal(write_bytes(&p.end[0], PATTERN, sizeof(PATTERN)), sizeof(PATTERN));
	while (p.hand[0].begin == p.hand[0].end) {
		wait_for_bytes(&p);
		const ssize_t n = recv(p.end[0].connection, p.hand[0].bytes, PIECE_MAX, 0);

		p.hand[0].begin = 0;
		p.hand[0].end = n > 0 ? (size_t)n : 0;
	}
	p.hand[0].bytes[p.hand[0].end - 1] ^= 1;
	assert_int_equal(hear(&p.end[1], bytes, sizeof(bytes)), -1);
	assert_int_equal(errno, EPROTO);
	assert_int_equal(hear(&p.end[0], bytes, sizeof(bytes)), -1);
	assert_int_equal(errno, EPROTO);
}

TEST_WITH(the_end_of_the_connection_is_the_end_of_the_stream, NULL, disconnect)
{
	char bytes[8] = "";
	ssize_t n;

	connect_over(both);
	assert_int_equal(read_bytes(&p.end[1], bytes, sizeof(bytes)), -1);
	assert_int_equal(errno, EAGAIN);
	close(p.end[1].connection);
	p.end[1].connection = -1;
	assert_int_equal(hear(&p.end[1], bytes, sizeof(bytes)), 0);
	do /* the first may still be taken */
		n = write_bytes(&p.end[1], bytes, sizeof(bytes));
	while (n >= 0); /* and no SIGPIPE */
	assert_true(errno == EPIPE || errno == ECONNRESET);
}

/* False: why. */
static bool kernel_offers_tls(const char **why)
{
	int fds[2];

	open_sockets(AF_INET, fds);
	const int result = setsockopt(fds[0], IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls"));

	*why = strerror(errno);
	close(fds[0]);
	close(fds[1]);
	return result == 0;
}

int main(void)
{
	const char *why;

	if (!kernel_offers_tls(&why)) {
		printf("the running kernel offers no TLS (the module tls: %s)\n", why);
		return 77;
	}
	return run_claims(NULL, NULL);
}
