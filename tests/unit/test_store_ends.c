/* SPDX-License-Identifier: BSD-3-Clause */
/* How stores end, and whom they trust: hosts that close, hosts that are none, processes of another
 * user; and what a host's keys may cost. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "log.h"
#include "store.h"
#include "store_keys.h"
#include "store_wire.h"
#include "test_store_raw.h"
#include "test_store_waiter.h"
#include "transport.h"

#define PATIENCE_S 20.0

/* ---------------------------------------------------------------- closing */

static void *close_thread(void *argument)
{
	tutti_store_close(argument);
	return NULL;
}

/* The host is closing while a client still asks; the client gets all its answers. */
TEST(the_host_waits_for_its_clients)
{
	tutti_store_t host, client;
	char address[64], value[2];
	size_t length = sizeof(value);
	pthread_t thread;

	(void)state;
	assert_int_equal(tutti_store_open("tcp://127.0.0.1:0", 1, PATIENCE_S, &host), TUTTI_OK);
	snprintf(address, sizeof(address), "%s", tutti_store_address(host));
	assert_int_equal(tutti_store_open(address, 0, PATIENCE_S, &client), TUTTI_OK);
	assert_int_equal(tutti_store_set(host, "k", "v", 2), TUTTI_OK);
	assert_int_equal(pthread_create(&thread, NULL, close_thread, host), 0);
	/* closing is under way once newcomers are refused */
	for (tutti_result_t result = TUTTI_OK; result == TUTTI_OK;) {
		tutti_store_t late;

		result = tutti_store_open(address, 0, 0.005, &late);
		tutti_store_close(late);
	}
	assert_int_equal(tutti_store_get(client, "k", value, &length, PATIENCE_S), TUTTI_OK);
	assert_string_equal(value, "v");
	tutti_store_close(client);
	pthread_join(thread, NULL);
}

struct hopeful {
	tutti_store_t store;
	tutti_result_t result;
};

static void *hopeful_thread(void *argument)
{
	struct hopeful *h = argument;
	size_t none = 0;

	h->result = tutti_store_get(h->store, "never", NULL, &none, PATIENCE_S);
	tutti_store_close(h->store);
	return NULL;
}

/* Where all who are left wait for keys, nobody can set them: ending their wait beats waiting for
 * it. */
TEST(the_host_does_not_wait_for_those_who_wait_in_vain)
{
	struct hopeful hopefuls[3];
	pthread_t threads[3];
	const uint64_t start = tt_now();
	tutti_store_t host;

	(void)state;
	assert_int_equal(tutti_store_open("tcp://127.0.0.1:0", 1, PATIENCE_S, &host), TUTTI_OK);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tutti_store_open(tutti_store_address(host), 0, PATIENCE_S,
						  &hopefuls[i].store),
				 TUTTI_OK);
		assert_int_equal(pthread_create(&threads[i], NULL, hopeful_thread, &hopefuls[i]),
				 0);
	}
	tutti_store_close(host);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(hopefuls[i].result, TUTTI_ERR_PEER_LOST);
	}
	assert_true(tt_now() - start < 8000000000u);
}

/* ---------------------------------------------------------------- waits that are ended */

/* All who wait below the prefix are told, and only they; who asks later is told at once. */
TEST(an_end_reaches_those_below_it)
{
	static const char *const keys[] = { "meeting/1/a/b", "meeting/1/c", "meeting/10",
					    "meeting/1", "meeting" };
	struct waiter waiters[5];
	pthread_t threads[5];
	const uint64_t start = tt_now();
	tutti_store_t host;
	size_t none = 0;

	(void)state;
	assert_int_equal(tutti_store_open("tcp://127.0.0.1:0", 1, PATIENCE_S, &host), TUTTI_OK);
	for (int i = 0; i < 5; i++) {
		waiters[i] = (struct waiter){ .key = keys[i] };
		assert_int_equal(tutti_store_open(tutti_store_address(host), 0, PATIENCE_S,
						  &waiters[i].store),
				 TUTTI_OK);
		assert_int_equal(pthread_create(&threads[i], NULL, waiter_thread, &waiters[i]), 0);
	}
	host->ops->end(host, "meeting/1", TUTTI_ERR_TIMEOUT, "rank 7 is late");
	host->ops->end(host, "meeting/1", TUTTI_ERR_ABORTED, "the first word counts");
	for (int i = 2; i < 5; i++) /* nobody ended these */
		assert_int_equal(tutti_store_set(host, keys[i], NULL, 0), TUTTI_OK);
	for (int i = 0; i < 5; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(waiters[i].result, i < 2 ? TUTTI_ERR_TIMEOUT : TUTTI_OK);
		if (i < 2)
			assert_string_equal(waiters[i].error, "rank 7 is late");
		tutti_store_close(waiters[i].store);
	}
	assert_int_equal(tutti_store_get(host, "meeting/1/late", NULL, &none, PATIENCE_S),
			 TUTTI_ERR_TIMEOUT);
	assert_string_equal(tt_thread_error(), "rank 7 is late");
	/* what is there is there */
	assert_int_equal(tutti_store_set(host, "meeting/1/late", NULL, 0), TUTTI_OK);
	assert_int_equal(tutti_store_get(host, "meeting/1/late", NULL, &none, PATIENCE_S),
			 TUTTI_OK);
	tutti_store_close(host);
	assert_true(tt_now() - start < 16000000000u);
}

/* ---------------------------------------------------------------- bad hosts */

struct impostor {
	int listening;
	const void *says;
	size_t length;
	int answers; /* connections to serve, each closed after the last word */
};

static void *impostor_thread(void *argument)
{
	struct impostor *m = argument;

	for (int i = 0; i < m->answers; i++) {
		const int fd = accept(m->listening, NULL, NULL);
		char scratch[64];

		send(fd, m->says, m->length, MSG_NOSIGNAL);
		recv(fd, scratch, sizeof(scratch), 0);
		shutdown(fd, SHUT_WR);
		while (recv(fd, scratch, sizeof(scratch), 0) > 0)
			continue;
		close(fd);
	}
	return NULL;
}

/* What a host without a key says to every hello. */
static void put_answer(uint8_t answer[TT_ANSWER_BYTES])
{
	static const uint8_t nonce[TT_NONCE_BYTES];
	uint8_t hello[TT_HELLO_BYTES];

	raw_put_hello(false, hello);
	tt_answer_write(&tt_store_protocol, NULL, hello, 0, TT_VERDICT_ACCEPTED, nonce, answer);
}

static void impostor_start(struct impostor *m, pthread_t *thread, char *address, size_t size)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t length = sizeof(at);

	inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
	m->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(m->listening, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(m->listening, 8), 0);
	getsockname(m->listening, (struct sockaddr *)&at, &length);
	snprintf(address, size, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
	assert_int_equal(pthread_create(thread, NULL, impostor_thread, m), 0);
}

TEST(a_client_names_a_host_that_is_none)
{
	struct impostor m = { .says = "HTTP/1.1 400 Bad Request\r\n", .length = 26, .answers = 1 };
	char address[64];
	tutti_store_t store;
	pthread_t thread;

	(void)state;
	impostor_start(&m, &thread, address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 0, PATIENCE_S, &store), TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "does not speak tutti's protocol"));
	pthread_join(thread, NULL);
	close(m.listening);
}

TEST(a_client_does_not_wait_for_ever_for_a_silent_host)
{
	struct impostor m = { .answers = 0 };
	char address[64];
	tutti_store_t store;
	pthread_t thread;

	(void)state;
	impostor_start(&m, &thread, address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 0, 0.05, &store), TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(tt_thread_error(), "said nothing"));
	pthread_join(thread, NULL);
	close(m.listening);
}

TEST(a_client_says_that_its_host_is_gone)
{
	uint8_t answer[TT_ANSWER_BYTES];
	struct impostor m = { .says = answer, .length = sizeof(answer), .answers = 1 };
	char address[64];
	tutti_store_t store;
	pthread_t thread;

	(void)state;
	put_answer(answer);
	impostor_start(&m, &thread, address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 0, PATIENCE_S, &store), TUTTI_OK);
	assert_int_equal(tutti_store_set(store, "k", "v", 1), TUTTI_ERR_PEER_LOST);
	assert_non_null(strstr(tt_thread_error(), "has closed the connection or ended"));
	tutti_store_close(store);
	pthread_join(thread, NULL);
	close(m.listening);
}

static void check_refused(const void *answer, size_t length)
{
	uint8_t words[TT_ANSWER_BYTES + 32];
	struct impostor m = { .says = words, .length = TT_ANSWER_BYTES + length, .answers = 1 };
	char address[64];
	tutti_store_t store;
	size_t none = 0;
	pthread_t thread;

	put_answer(words);
	memcpy(words + TT_ANSWER_BYTES, answer, length);
	impostor_start(&m, &thread, address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 0, PATIENCE_S, &store), TUTTI_OK);
	assert_int_equal(tutti_store_get(store, "k", NULL, &none, PATIENCE_S), TUTTI_ERR_SYSTEM);
	tutti_store_close(store);
	pthread_join(thread, NULL);
	close(m.listening);
}

TEST(a_client_refuses_an_answer_that_is_none)
{
	static const uint8_t request[TT_WIRE_HEADER] = { TT_WIRE_SET },
			     unknown[TT_WIRE_HEADER] = { TT_WIRE_ANSWER, 0, 200 },
			     /* ended, without a word; and with one that names no failure */
		wordless[TT_WIRE_HEADER] = { TT_WIRE_ANSWER, 0, TT_WIRE_ENDED },
			     fine[TT_WIRE_HEADER + 4] = { TT_WIRE_ANSWER, 0, TT_WIRE_ENDED, 0, 4 };

	(void)state;
	check_refused(request, sizeof(request));
	check_refused(unknown, sizeof(unknown));
	check_refused(wordless, sizeof(wordless));
	check_refused(fine, sizeof(fine));
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
	int status;

	for (int i = 0; i < 2; i++) {
		close(s->tell[1 - i]);
		close(s->told[i]);
	}
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_int_equal(status, 0);
}

TEST(unix_sockets_join_only_processes_of_one_user)
{
	struct stranger stranger;
	char address[64], who[96];
	tutti_store_t store;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root, to be two users\n");
		skip();
	}
	snprintf(address, sizeof(address), "unix:tutti-test-users-%ld", (long)getpid());
	/* the host drops a client of another user without an answer */
	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &store), TUTTI_OK);
	assert_int_equal(stranger_opens(&stranger, address, 0), TUTTI_ERR_TIMEOUT);
	stranger_leaves(&stranger);
	tutti_store_close(store);
	/* a client refuses a host of another user, whatever it says */
	assert_int_equal(stranger_opens(&stranger, address, 1), TUTTI_OK);
	assert_int_equal(tutti_store_open(address, 0, 1, &store), TUTTI_ERR_SYSTEM);
	snprintf(who, sizeof(who),
		 "is served by process %d (test_store_ends) of user 65534: expected user 0",
		 (int)stranger.pid);
	assert_non_null(strstr(tt_thread_error(), who));
	/* nor is the name to be had: the error says who holds it */
	assert_int_equal(tutti_store_open(address, 1, 1, &store), TUTTI_ERR_SYSTEM);
	snprintf(who, sizeof(who), "process %d (test_store_ends) of user 65534 has this address",
		 (int)stranger.pid);
	assert_non_null(strstr(tt_thread_error(), who));
	stranger_leaves(&stranger);
}

/* ---------------------------------------------------------------- its memory */

TEST(the_memory_of_keys_is_bounded_and_counted)
{
	struct tt_store_keys keys = { 0 };
	struct tt_store_entry *entry = tt_store_keys_entry(&keys, "k");
	const size_t empty = keys.bytes;

	(void)state;
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
