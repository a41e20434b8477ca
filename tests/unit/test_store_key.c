/* SPDX-License-Identifier: BSD-3-Clause */
/* A store of a job with a key serves those who have it, and without a key only processes of this
 * machine. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "key_read.h"
#include "log.h"
#include "store.h"
#include "store_wire.h"
#include "test_store_raw.h"
#include "test_warnings.h"
#include "transport.h"

#define PATIENCE_S  20.0
#define PATIENCE_MS 20000
#define KEY	    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER	    "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* ---------------------------------------------------------------- stores */

static tutti_result_t open_with(const char *address, int serve, const char *key,
				tutti_store_t *store)
{
	tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;

	config.serve = serve;
	config.timeout_s = PATIENCE_S;
	config.key = key;
	return tutti_store_open_with(address, &config, store);
}

static int open_host(void **state)
{
	listen_for_warnings();
	return open_with("tcp://127.0.0.1:0", 1, KEY, (tutti_store_t *)state);
}

static int close_host(void **state)
{
	const uint64_t start = tt_now();

	tutti_store_close(*state);
	leave_warnings();
	assert_true(tt_now() - start < 8000000000u);
	return 0;
}

static void check_serves(tutti_store_t host)
{
	tutti_store_t client;
	char value[3];
	size_t length = sizeof(value);

	assert_int_equal(open_with(tutti_store_address(host), 0, KEY, &client), TUTTI_OK);
	assert_int_equal(tutti_store_set(client, "good", "yes", 3), TUTTI_OK);
	assert_int_equal(tutti_store_get(client, "good", value, &length, PATIENCE_S), TUTTI_OK);
	assert_memory_equal(value, "yes", 3);
	tutti_store_close(client);
}

TEST_WITH(who_has_the_key_is_served, open_host, close_host)
{
	check_serves(*state);
	check_serves(*state);
	assert_int_equal(atomic_load(&warnings), 0);
}

TEST_WITH(who_has_another_key_is_told_so_and_disturbs_nobody, open_host, close_host)
{
	tutti_store_t store;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(open_with(tutti_store_address(*state), 0, OTHER, &store),
				 TUTTI_ERR_INVALID);
		assert_null(store);
		assert_non_null(strstr(tt_thread_error(), "has another key"));
		assert_non_null(strstr(tt_thread_error(), "TUTTI_KEY"));
	}
	check_serves(*state);
	expect_warning("has another key");
	assert_int_equal(atomic_load(&warnings), 1);
}

TEST_WITH(who_has_no_key_is_told_so, open_host, close_host)
{
	tutti_store_t store;

	assert_int_equal(open_with(tutti_store_address(*state), 0, NULL, &store),
			 TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "has a key, and this end has none"));
	check_serves(*state);
	expect_warning("has no key, and this end has one");
}

TEST_WITH(a_key_is_not_shown_to_a_host_without, open_host, close_host)
{
	tutti_store_t host, store;

	assert_int_equal(open_with("tcp://127.0.0.1:0", 1, NULL, &host), TUTTI_OK);
	assert_int_equal(open_with(tutti_store_address(host), 0, KEY, &store), TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "has no key, and this end has one"));
	expect_warning("has a key, and this end has none");
	tutti_store_close(host);
}

TEST_WITH(without_a_key_only_loopback_is_served_and_asked, open_host, close_host)
{
	static const char *const outside[] = { "tcp://0.0.0.0:0", "tcp://[::]:0",
					       "tcp://192.0.2.77:1",
					       "tcp://[::ffff:192.0.2.77]:1" };
	static const char *const inside[] = { "tcp://127.0.0.1:0", "tcp://127.3.2.1:0",
					      "tcp://[::ffff:127.0.0.1]:0" };
	tutti_store_t store;

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		assert_int_equal(open_with(outside[i], 1, NULL, &store), TUTTI_ERR_INVALID);
		assert_non_null(strstr(tt_thread_error(), "TUTTI_KEY or TUTTI_KEY_FILE"));
	}
	assert_int_equal(open_with("tcp://192.0.2.77:1", 0, NULL, &store), TUTTI_ERR_INVALID);
	assert_non_null(
		strstr(tt_thread_error(), "not on the loopback interface, and there is no key"));
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		assert_int_equal(open_with(inside[i], 1, NULL, &store), TUTTI_OK);
		tutti_store_close(store);
	}
}

TEST_WITH(a_config_that_is_none_is_refused, open_host, close_host)
{
	tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;
	tutti_store_t store;

	assert_int_equal(tutti_store_open_with("tcp://127.0.0.1:0", NULL, &store),
			 TUTTI_ERR_INVALID);
	config.size = 3;
	assert_int_equal(tutti_store_open_with("tcp://127.0.0.1:0", &config, &store),
			 TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "TUTTI_STORE_CONFIG_INIT"));
	assert_int_equal(open_with("tcp://127.0.0.1:0", 1, "short", &store), TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "the key of the config has 5 characters"));
}

/* ---------------------------------------------------------------- raw connections */

/* The other end says no more and closes. */
static void expect_closed(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

struct talk {
	int fd;
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];
};

static struct tt_key key_of(const char *text)
{
	struct tt_key key;

	assert_int_equal(tt_key_read(text, 0, &key), TUTTI_OK);
	return key;
}

/* As far as the host's proof. */
static struct talk begin(tutti_store_t store)
{
	struct talk t = { .fd = raw_connect(port_of(store)) };
	const struct tt_key key = key_of(KEY);

	raw_put_hello(true, t.hello);
	raw_send(t.fd, t.hello, sizeof(t.hello));
	raw_receive(t.fd, t.answer, sizeof(t.answer));
	assert_int_equal(tt_answer_read(&tt_store_protocol, &key, t.hello, t.answer),
			 TT_VERDICT_ACCEPTED);
	return t;
}

static void prove(const struct talk *t, uint8_t proof[TT_PROOF_BYTES])
{
	const struct tt_key key = key_of(KEY);

	tt_confirm_write(&tt_store_protocol, &key, t->hello, t->answer, proof);
}

static const uint8_t *hosts_proof(const struct talk *t)
{
	return t->answer + TT_ANSWER_BYTES - TT_PROOF_BYTES;
}

static void raw_get(int fd, const char *key)
{
	const struct tt_wire_header header = { .kind = TT_WIRE_GET,
					       .key_length = (uint8_t)strlen(key) };
	uint8_t bytes[TT_WIRE_HEADER + 16];

	tt_wire_put_header(&header, bytes);
	memcpy(bytes + TT_WIRE_HEADER, key, strlen(key));
	raw_send(fd, bytes, TT_WIRE_HEADER + strlen(key));
}

static void expect_answer(int fd)
{
	uint8_t bytes[TT_WIRE_HEADER];
	struct tt_wire_header header;

	raw_receive(fd, bytes, sizeof(bytes));
	assert_true(tt_wire_get_header(bytes, &header));
	assert_int_equal(header.status, TT_WIRE_MISSING);
}

TEST_WITH(a_proof_may_come_byte_by_byte_and_with_the_request, open_host, close_host)
{
	struct talk t = begin(*state);
	uint8_t proof[TT_PROOF_BYTES];

	prove(&t, proof);
	for (size_t i = 0; i < sizeof(proof) - 1; i++) {
		raw_send(t.fd, proof + i, 1);
		if (i % 8 == 0)
			check_serves(*state);
	}
	uint8_t rest[1 + TT_WIRE_HEADER + 1] = { proof[sizeof(proof) - 1], TT_WIRE_GET, 1 };
	rest[1 + TT_WIRE_HEADER] = 'k';
	raw_send(t.fd, rest, sizeof(rest));
	expect_answer(t.fd);
	close(t.fd);
}

TEST_WITH(a_request_without_a_proof_is_not_read, open_host, close_host)
{
	struct talk t = begin(*state);
	uint8_t request[TT_PROOF_BYTES] = { TT_WIRE_GET, 4 };

	memcpy(request + TT_WIRE_HEADER, "good", 4);
	assert_int_equal(tutti_store_set(*state, "good", "yes", 3), TUTTI_OK);
	raw_send(t.fd, request, sizeof(request)); /* where the proof belongs */
	expect_closed(t.fd);
	t = begin(*state);
	memset(request, 0, sizeof(request));
	raw_send(t.fd, request, sizeof(request)); /* "yours is no proof to me" */
	expect_closed(t.fd);
	check_serves(*state);
	expect_warning("has another key");
}

TEST_WITH(what_was_recorded_is_no_proof, open_host, close_host)
{
	struct talk t = begin(*state), again;
	uint8_t proof[TT_PROOF_BYTES];

	prove(&t, proof);
	raw_send(t.fd, proof, sizeof(proof));
	raw_get(t.fd, "k");
	expect_answer(t.fd); /* it was good once */
	again = begin(*state);
	assert_memory_equal(again.hello, t.hello, sizeof(t.hello));
	assert_memory_not_equal(again.answer, t.answer, sizeof(t.answer) - TT_PROOF_BYTES);
	assert_memory_not_equal(hosts_proof(&again), hosts_proof(&t), TT_PROOF_BYTES);
	raw_send(again.fd, proof, sizeof(proof));
	expect_closed(again.fd);
	close(t.fd);
	check_serves(*state);
}

TEST_WITH(the_hosts_proof_is_none_of_a_client, open_host, close_host)
{
	struct talk t = begin(*state);

	raw_send(t.fd, hosts_proof(&t), TT_PROOF_BYTES);
	expect_closed(t.fd);
	check_serves(*state);
}

TEST_WITH(the_proof_of_one_connection_is_none_of_another, open_host, close_host)
{
	struct talk a = begin(*state), b = begin(*state);
	uint8_t proof[TT_PROOF_BYTES];

	prove(&a, proof);
	raw_send(b.fd, proof, sizeof(proof));
	expect_closed(b.fd);
	raw_send(a.fd, proof, sizeof(proof));
	raw_get(a.fd, "k");
	expect_answer(a.fd);
	close(a.fd);
	check_serves(*state);
}

/* A host that has not the key: a client says so, and asks it for nothing. */
TEST_WITH(a_host_that_only_repeats_is_found_out, open_host, close_host)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct talk t = begin(*state);
	socklen_t length = sizeof(at);
	uint8_t heard[TT_HELLO_BYTES + TT_PROOF_BYTES + 1], zeros[TT_PROOF_BYTES] = { 0 };
	char address[64];
	tutti_store_t store;

	close(t.fd);
	assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listening, 1), 0);
	getsockname(listening, (struct sockaddr *)&at, &length);
	snprintf(address, sizeof(address), "tcp://127.0.0.1:%d", ntohs(at.sin_port));
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(open_with(address, 0, KEY, &store) == TUTTI_ERR_INVALID &&
				      strstr(tt_thread_error(), "has another key")
			      ? 0
			      : 1);
	const int fd = accept(listening, NULL, NULL);
	raw_send(fd, t.answer, sizeof(t.answer));
	assert_int_equal(recv(fd, heard, sizeof(heard), MSG_WAITALL),
			 TT_HELLO_BYTES + TT_PROOF_BYTES);
	assert_memory_equal(heard + TT_HELLO_BYTES, zeros, sizeof(zeros));
	close(fd);
	close(listening);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---------------------------------------------------------------- strangers */

/* As many as descriptors allow, and a thousand at most; every third says a hello that is good. */
static int oversubscription(tutti_store_t host, int *fds, int most)
{
	uint8_t hello[TT_HELLO_BYTES];
	int n = 0;

	raw_put_hello(true, hello);
	for (; n < most; n++) {
		fds[n] = raw_connect(port_of(host));
		if (n % 3 == 0)
			raw_send(fds[n], hello, sizeof(hello));
		if (n % 3 == 1)
			raw_send(fds[n], hello, 7);
	}
	return n;
}

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST_WITH(a_crowd_of_strangers_keeps_nobody_out, open_host, close_host)
{
	static int fds[1000];
	struct rlimit limit;
	tutti_store_t early;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < 2200)
		skip();
	const int before = open_descriptors();
	assert_int_equal(open_with(tutti_store_address(*state), 0, KEY, &early), TUTTI_OK);
	const int n = oversubscription(*state, fds, 1000);
	for (int i = 0; i < 20; i++)
		check_serves(*state);
	assert_int_equal(tutti_store_set(early, "k", "v", 1), TUTTI_OK);
	/* the host keeps a bounded number of them */
	assert_true(open_descriptors() <= before + 2 + n + 512 + 2);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	tutti_store_close(early);
	const uint64_t deadline = tt_now() + 20000000000u;
	while (open_descriptors() > before)
		assert_true(tt_now() < deadline);
	assert_true(atomic_load(&warnings) <= 2);
}
