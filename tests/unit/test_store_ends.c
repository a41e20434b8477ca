/* SPDX-License-Identifier: BSD-3-Clause */
/* How stores end, and whom they trust: hosts that close, hosts that are none, processes of another
 * user; and what a host's keys may cost. */
#include "tutti_asserts.h"
#include "test_store_scene.h"
#include "store_keys.h"

/* ---------------------------------------------------------------- closing */

static void *close_thread(void *argument)
{
	tutti_store_close(argument);
	return NULL;
}

/* The host is closing while a client still asks; the client gets all its answers. */
TEST(the_host_waits_for_its_clients)
{
	tutti_store_t host = new_host(), client = new_client(host);
	char address[64], value[2];
	size_t length = sizeof(value);
	pthread_t thread;

	snprintf(address, sizeof(address), "%s", tutti_store_address(host));
	assert_ok(tutti_store_set(host, "k", "v", 2));
	assert_int_equal(pthread_create(&thread, NULL, close_thread, host), 0);
	/* closing is under way once newcomers are refused */
	for (tutti_result_t result = TUTTI_OK; result == TUTTI_OK;) {
		tutti_store_t late;

		result = tutti_store_open(address, 0, 0.005, &late);
		tutti_store_close(late);
	}
	assert_ok(tutti_store_get(client, "k", value, &length, PATIENCE_S));
	assert_string_equal(value, "v");
	tutti_store_close(client);
	pthread_join(thread, NULL);
}

/* Where all who are left wait for keys, nobody can set them: ending their wait beats waiting for
 * it. */
TEST(the_host_does_not_wait_for_those_who_wait_in_vain)
{
	struct waiter waiters[3];
	const uint64_t start = tt_now();
	tutti_store_t host = new_host();
	pthread_t closing;

	for (int i = 0; i < 3; i++) {
		waiters[i] = (struct waiter){ .store = new_client(host), .key = "never" };
		waiter_begin(&waiters[i]);
	}
	assert_int_equal(pthread_create(&closing, NULL, close_thread, host), 0);
	for (int i = 0; i < 3; i++) {
		waiter_end(&waiters[i]);
		assert_int_equal(waiters[i].result, TUTTI_ERR_PEER_LOST);
		tutti_store_close(waiters[i].store);
	}
	pthread_join(closing, NULL);
	assert_true(tt_now() - start < 8000000000u);
}

/* ---------------------------------------------------------------- waits that are ended */

/* All who wait below the prefix are told, and only they; who asks later is told at once. */
TEST(an_end_reaches_those_below_it)
{
	static const char *const keys[] = { "meeting/1/a/b", "meeting/1/c", "meeting/10",
					    "meeting/1", "meeting" };
	struct waiter waiters[5];
	const uint64_t start = tt_now();
	tutti_store_t host = new_host();
	size_t none = 0;

	for (int i = 0; i < 5; i++) {
		waiters[i] = (struct waiter){ .store = new_client(host), .key = keys[i] };
		waiter_begin(&waiters[i]);
	}
	host->ops->end(host, "meeting/1", TUTTI_ERR_TIMEOUT, "rank 7 is late");
	host->ops->end(host, "meeting/1", TUTTI_ERR_ABORTED, "the first word counts");
	for (int i = 2; i < 5; i++) /* nobody ended these */
		assert_ok(tutti_store_set(host, keys[i], NULL, 0));
	for (int i = 0; i < 5; i++) {
		waiter_end(&waiters[i]);
		assert_int_equal(waiters[i].result, i < 2 ? TUTTI_ERR_TIMEOUT : TUTTI_OK);
		if (i < 2)
			assert_string_equal(waiters[i].error, "rank 7 is late");
		tutti_store_close(waiters[i].store);
	}
	assert_int_equal(tutti_store_get(host, "meeting/1/late", NULL, &none, PATIENCE_S),
			 TUTTI_ERR_TIMEOUT);
	assert_string_equal(tt_thread_error(), "rank 7 is late");
	/* what is there is there */
	assert_ok(tutti_store_set(host, "meeting/1/late", NULL, 0));
	assert_ok(tutti_store_get(host, "meeting/1/late", NULL, &none, PATIENCE_S));
	tutti_store_close(host);
	assert_true(tt_now() - start < 16000000000u);
}

/* ---------------------------------------------------------------- bad hosts */

TEST(a_client_names_a_host_that_does_not_speak_its_language)
{
	static const struct {
		const char *says;
		double timeout_s;
		tutti_result_t result;
		const char *error;
	} cases[] = {
		{ "HTTP/1.1 400 Bad Request\r\n", PATIENCE_S, TUTTI_ERR_INVALID,
		  "does not speak tutti's protocol" },
		{ "", 0.05, TUTTI_ERR_TIMEOUT, "said nothing" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct impostor m = { .says = cases[i].says, .length = strlen(cases[i].says) };
		tutti_store_t store;

		impostor_begin(&m);
		assert_int_equal(tutti_store_open(m.address, 0, cases[i].timeout_s, &store),
				 cases[i].result);
		assert_says(tt_thread_error(), cases[i].error);
		impostor_end(&m);
	}
}

/* Who is told that a rank cannot come finds out which while the connection is there. */
TEST(who_never_stops_talking_holds_up_no_rank)
{
	struct impostor m = { .says = "ssh? ", .length = 5, .goes_on = true };
	const struct tt_key none = { 0 };
	tutti_store_t store;

	impostor_begin(&m);
	assert_fails(tt_store_open(m.address, &none, 1, false, 2000000000, &store),
		     TUTTI_ERR_INVALID, "does not speak tutti's protocol");
	impostor_end(&m);
}

/* It greets like a host without a key. */
TEST(a_client_says_what_is_wrong_with_an_answer)
{
	static const struct {
		uint8_t bytes[TT_WIRE_HEADER + 5];
		size_t length;
		tutti_result_t result;
		const char *error;
		bool sets; /* it is the answer to a set, otherwise to a get */
	} cases[] = {
		{ { 0 }, 0, TUTTI_ERR_PEER_LOST, "has closed the connection or ended" },
		{ { TT_WIRE_SET }, TT_WIRE_HEADER, TUTTI_ERR_SYSTEM, "Protocol error" },
		{ { TT_WIRE_ANSWER, 0, 200 }, TT_WIRE_HEADER, TUTTI_ERR_SYSTEM, "Protocol error" },
		/* ended, without a word; and with one that names no failure */
		{ { TT_WIRE_ANSWER, 0, TT_WIRE_ENDED },
		  TT_WIRE_HEADER,
		  TUTTI_ERR_SYSTEM,
		  "Protocol error" },
		{ { TT_WIRE_ANSWER, 0, TT_WIRE_ENDED, 0, 5, [TT_WIRE_HEADER + 4] = 'x' },
		  TT_WIRE_HEADER + 5,
		  TUTTI_ERR_SYSTEM,
		  "Protocol error" },
		/* a value, for which nobody asked */
		{ { TT_WIRE_ANSWER, 0, TT_WIRE_DONE, 0, 1, [TT_WIRE_HEADER] = 'x' },
		  TT_WIRE_HEADER + 1,
		  TUTTI_ERR_SYSTEM,
		  "Protocol error",
		  .sets = true },
	};
	static const uint8_t nonce[TT_NONCE_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t hello[TT_HELLO_BYTES], words[TT_ANSWER_BYTES + sizeof(cases[i].bytes)];
		struct impostor m = { .says = words, .length = TT_ANSWER_BYTES + cases[i].length };
		size_t none = 0;
		tutti_store_t store;

		raw_put_hello(false, hello);
		tt_answer_write(&tt_store_protocol, NULL, hello, 0, TT_VERDICT_ACCEPTED, nonce,
				words);
		memcpy(words + TT_ANSWER_BYTES, cases[i].bytes, sizeof(cases[i].bytes));
		impostor_begin(&m);
		assert_ok(tutti_store_open(m.address, 0, PATIENCE_S, &store));
		assert_int_equal(cases[i].sets
					 ? tutti_store_set(store, "k", "v", 1)
					 : tutti_store_get(store, "k", NULL, &none, PATIENCE_S),
				 cases[i].result);
		assert_says(tt_thread_error(), cases[i].error);
		tutti_store_close(store);
		impostor_end(&m);
	}
}

/* ---------------------------------------------------------------- another user */

/* In a process of user 65534: open the store, tell the result, close when told to. */
static void play_stranger(const char *address, int serve, int tell, int told)
{
	tutti_store_t store = NULL;
	tutti_result_t result = TUTTI_ERR_SYSTEM;
	char byte;

	if (setresuid(65534, 65534, 65534) == 0)
		result = tutti_store_open(address, serve, serve ? PATIENCE_S : 0.05, &store);
	if (write(tell, &result, sizeof(result)) != sizeof(result) || read(told, &byte, 1) < 0)
		_exit(1);
	tutti_store_close(store);
	_exit(0);
}

struct stranger {
	pid_t pid;
	int told[2], tell[2];
};

static tutti_result_t stranger_opens(struct stranger *s, const char *address, int serve)
{
	tutti_result_t result;

	assert_int_equal(pipe(s->told), 0);
	assert_int_equal(pipe(s->tell), 0);
	s->pid = fork();
	if (s->pid == 0) {
		close(s->tell[1]);
		play_stranger(address, serve, s->told[1], s->tell[0]);
	}
	assert_int_equal(read(s->told[0], &result, sizeof(result)), sizeof(result));
	return result;
}

static void stranger_leaves(struct stranger *s)
{
	for (int i = 0; i < 2; i++) {
		close(s->tell[1 - i]);
		close(s->told[i]);
	}
	await_exit(s->pid, 0);
}

TEST(unix_sockets_join_only_processes_of_one_user)
{
	struct stranger stranger;
	char address[64], who[96];
	tutti_store_t store;

	if (geteuid() != 0) {
		print_message("needs root, to be two users\n");
		skip();
	}
	snprintf(address, sizeof(address), "unix:tutti-test-users-%ld", (long)getpid());
	/* the host drops a client of another user without an answer */
	assert_ok(tutti_store_open(address, 1, PATIENCE_S, &store));
	assert_int_equal(stranger_opens(&stranger, address, 0), TUTTI_ERR_TIMEOUT);
	stranger_leaves(&stranger);
	tutti_store_close(store);
	/* a client refuses a host of another user, whatever it says */
	assert_ok(stranger_opens(&stranger, address, 1));
	assert_int_equal(tutti_store_open(address, 0, 1, &store), TUTTI_ERR_SYSTEM);
	snprintf(who, sizeof(who),
		 "is served by process %d (test_store_ends) of user 65534: expected user 0",
		 (int)stranger.pid);
	assert_says(tt_thread_error(), who);
	/* nor is the name to be had: the error says who holds it */
	assert_int_equal(tutti_store_open(address, 1, 1, &store), TUTTI_ERR_SYSTEM);
	snprintf(who, sizeof(who), "process %d (test_store_ends) of user 65534 has this address",
		 (int)stranger.pid);
	assert_says(tt_thread_error(), who);
	stranger_leaves(&stranger);
}

/* ---------------------------------------------------------------- its memory */

TEST(the_memory_of_keys_is_bounded_and_counted)
{
	struct tt_store_keys keys = { 0 };
	struct tt_store_entry *entry = tt_store_keys_entry(&keys, "k");
	const size_t empty = keys.bytes;

	assert_ptr_equal(tt_store_keys_entry(&keys, "k"), entry);
	assert_true(tt_store_keys_put(&keys, entry, "abc", 3));
	assert_true(tt_store_keys_put(&keys, entry, "a", 1));
	assert_int_equal(keys.bytes, empty + 1);
	tt_store_keys_trim(&keys, entry); /* has a value: stays */
	assert_ptr_equal(tt_store_keys_entry(&keys, "k"), entry);
	keys.bytes = TT_STORE_TOTAL_MAX;
	assert_false(tt_store_keys_put(&keys, entry, "ab", 2));
	assert_true(tt_store_keys_put(&keys, entry, "b", 1));
	keys.bytes = empty + 1;
	entry = tt_store_keys_entry(&keys, "waited for");
	tt_store_keys_trim(&keys, entry);
	assert_int_equal(keys.bytes, empty + 1);
	tt_store_keys_finish(&keys);
}
