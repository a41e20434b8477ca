/* SPDX-License-Identifier: BSD-3-Clause */
/* A store of a job with a key serves those who have it, and without a key only processes of this
 * machine. */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "held.h"
#include "tutti_asserts.h"
#include "test_store_scene.h"
#include "key_read.h"
#include "store_peer.h"
#include "test_warnings.h"

#define OTHER "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static int open_keyed(void **state)
{
	job_key = KEY;
	listen_for_warnings();
	return open_host(state);
}

static int close_keyed(void **state)
{
	close_host(state);
	leave_warnings();
	return 0;
}

TEST_WITH(who_has_the_key_is_served, open_keyed, close_keyed)
{
	check_serves(*state);
	assert_int_equal(atomic_load(&warnings), 0);
}

/* However often it comes, who waits before the host reads one warning. */
TEST(different_keys_are_told_to_both_ends)
{
	static const struct {
		const char *host, *client, *client_reads, *host_reads;
	} cases[] = {
		{ KEY, OTHER, "has another key", "has another key" },
		{ KEY, NULL, "has a key, and this end has none",
		  "has no key, and this end has one" },
		{ NULL, KEY, "has no key, and this end has one",
		  "has a key, and this end has none" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tutti_store_t host, store;

		listen_for_warnings();
		job_key = cases[i].host;
		host = new_host();
		for (int time = 0; time < 3; time++) {
			assert_int_equal(
				open_with(tutti_store_address(host), 0, cases[i].client, &store),
				TUTTI_ERR_INVALID);
			assert_null(store);
			assert_says(tt_thread_error(), cases[i].client_reads);
			assert_says(tt_thread_error(), "TUTTI_KEY");
		}
		expect_warning(cases[i].host_reads);
		check_serves(host);
		tutti_store_close(host);
		leave_warnings();
		assert_int_equal(atomic_load(&warnings), 1);
	}
}

/* Both kinds of client, where a host listens on all addresses. */
TEST(a_process_of_the_same_user_is_known_by_ipv4_and_ipv6)
{
	struct sockaddr_in6 all = { .sin6_family = AF_INET6 };
	socklen_t length = sizeof(all);
	const int listening = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (listening < 0 || bind(listening, (struct sockaddr *)&all, sizeof(all)) < 0)
		skip(); /* no IPv6 here */
	assert_int_equal(listen(listening, 2), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&all, &length), 0);
	for (int six = 0; six < 2; six++) {
		struct sockaddr_in in = { .sin_family = AF_INET,
					  .sin_port = all.sin6_port,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		struct sockaddr_in6 mapped = { .sin6_family = AF_INET6,
					       .sin6_port = all.sin6_port };
		const int client = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
		assert_int_equal(six ? connect(client, (struct sockaddr *)&mapped, sizeof(mapped))
				     : connect(client, (struct sockaddr *)&in, sizeof(in)),
				 0);
		const int accepted = accept(listening, NULL, NULL);
		assert_true(tt_store_peer_is_own(accepted));
		close(accepted);
		close(client);
	}
	close(listening);
}

TEST(without_a_key_only_loopback_is_served_and_asked)
{
	static const char *const outside[] = { "tcp://0.0.0.0:0", "tcp://[::]:0",
					       "tcp://192.0.2.77:1",
					       "tcp://[::ffff:192.0.2.77]:1" };
	static const char *const inside[] = { "tcp://127.0.0.1:0", "tcp://127.3.2.1:0",
					      "tcp://[::ffff:127.0.0.1]:0" };
	tutti_store_t store;

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		assert_fails(open_with(outside[i], 1, NULL, &store), TUTTI_ERR_INVALID,
			     "TUTTI_KEY or TUTTI_KEY_FILE");
	}
	assert_fails(open_with("tcp://192.0.2.77:1", 0, NULL, &store), TUTTI_ERR_INVALID,
		     "not on the loopback interface, and there is no key");
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		assert_ok(open_with(inside[i], 1, NULL, &store));
		tutti_store_close(store);
	}
}

TEST(a_config_that_is_none_is_refused)
{
	tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;
	tutti_store_t store;

	assert_int_equal(tutti_store_open_with("tcp://127.0.0.1:0", NULL, &store),
			 TUTTI_ERR_INVALID);
	config.size = 3;
	assert_fails(tutti_store_open_with("tcp://127.0.0.1:0", &config, &store), TUTTI_ERR_INVALID,
		     "TUTTI_STORE_CONFIG_INIT");
	assert_fails(open_with("tcp://127.0.0.1:0", 1, "short", &store), TUTTI_ERR_INVALID,
		     "the key of the config has 5 characters");
}

/* ---------------------------------------------------------------- raw connections */

struct talk {
	int fd;
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];
};

static struct tt_key key_of(const char *text)
{
	struct tt_key key;

	assert_ok(tt_key_read(text, 0, &key));
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

TEST_WITH(a_proof_may_come_byte_by_byte_and_with_the_request, open_keyed, close_keyed)
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
	expect_answer(t.fd, TT_WIRE_MISSING);
	close(t.fd);
}

static void expect_refused(struct talk t, const uint8_t proof[TT_PROOF_BYTES])
{
	raw_send(t.fd, proof, TT_PROOF_BYTES);
	assert_int_equal(expect_closed(t.fd), 0);
}

/* All say the same hello: what differs is the host's. */
TEST_WITH(nothing_but_its_own_proof_lets_a_connection_in, open_keyed, close_keyed)
{
	uint8_t proof[TT_PROOF_BYTES], zeros[TT_PROOF_BYTES] = { 0 },
				       request[TT_PROOF_BYTES] = { TT_WIRE_GET, 4 };
	struct talk other = begin(*state), repeats = begin(*state);

	memcpy(request + TT_WIRE_HEADER, "good", 4);
	assert_ok(tutti_store_set(*state, "good", "yes", 3));
	expect_refused(begin(*state), request);
	expect_refused(begin(*state), zeros); /* "yours is no proof to me" */
	expect_warning("has another key");
	expect_refused(repeats, hosts_proof(&repeats));
	prove(&other, proof);
	expect_refused(begin(*state), proof); /* of one that waits */
	raw_send(other.fd, proof, sizeof(proof));
	raw_get(other.fd, "k", 0);
	expect_answer(other.fd, TT_WIRE_MISSING);
	expect_refused(begin(*state), proof); /* it was good once */
	close(other.fd);
}

/* A host that has not the key: a client says so, and asks it for nothing. */
TEST_WITH(a_host_that_only_repeats_is_found_out, open_keyed, close_keyed)
{
	struct talk t = begin(*state);
	struct impostor m = { .says = t.answer, .length = sizeof(t.answer) };
	uint8_t zeros[TT_PROOF_BYTES] = { 0 };
	tutti_store_t store;

	close(t.fd);
	impostor_begin(&m);
	assert_fails(open_with(m.address, 0, KEY, &store), TUTTI_ERR_INVALID, "has another key");
	impostor_end(&m);
	assert_int_equal(m.heard_bytes, TT_HELLO_BYTES + TT_PROOF_BYTES);
	assert_memory_equal(m.heard + TT_HELLO_BYTES, zeros, sizeof(zeros));
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

TEST_WITH(a_crowd_of_strangers_keeps_nobody_out, open_keyed, close_keyed)
{
	static int fds[1000];
	struct rlimit limit;
	tutti_store_t early;

	need_descriptors(2200);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	const int before = count_entries("/proc/self/fd");
	assert_ok(open_with(tutti_store_address(*state), 0, KEY, &early));
	const int n = oversubscription(*state, fds, 1000);
	for (int i = 0; i < 20; i++)
		check_serves(*state);
	assert_ok(tutti_store_set(early, "k", "v", 1));
	/* the host keeps a bounded number of them */
	assert_true(count_entries("/proc/self/fd") <= before + 2 + n + 512 + 2);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	tutti_store_close(early);
	const uint64_t deadline = tt_now() + 20000000000u;
	while (count_entries("/proc/self/fd") > before)
		assert_true(tt_now() < deadline);
	assert_true(atomic_load(&warnings) <= 2);
}
