/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host of a store makes of those who attend something and are lost: the others are
 * told, and of nobody else. */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>

#include "tutti_asserts.h"
#include "test_folder.h"
#include "test_store_scene.h"

#define PATIENCE_NS 20000000000u

/* ---------------------------------------------------------------- the fixture */

static int be_encrypted(void **state)
{
	job_key = KEY;
	job_encrypts = true;
	return 0;
}

/* With its next call, which this is. */
static void attend(tutti_store_t store, const char *prefix, const char *error_text)
{
	store->ops->attend(store, &(struct tt_attendance){ prefix, -1, "one", TUTTI_ERR_PEER_LOST,
							   error_text });
	assert_ok(tutti_store_set(store, "something", NULL, 0));
}

static void await_news(tutti_store_t store, const char *error_text)
{
	const uint64_t enough = tt_now() + PATIENCE_NS;
	tutti_result_t result;

	while ((result = store->ops->poll(store)) == TUTTI_OK && tt_now() < enough)
		sched_yield();
	assert_int_equal(result, TUTTI_ERR_PEER_LOST);
	assert_string_equal(tt_thread_error(), error_text);
}

/* ---------------------------------------------------------------- who is lost */

TEST_WITH(all_are_told_of_who_is_lost, open_host, close_host)
{
	struct waiter waiter = { .key = "m/1/x" };
	tutti_store_t host = *state, lost = new_client(host), other = new_client(host), late;

	waiter.store = new_client(host);
	attend(lost, "m/1", "rank 2 is lost");
	attend(other, "m/1", "rank 3 is lost");
	assert_ok(other->ops->poll(other));
	waiter_begin(&waiter);
	tutti_store_close(lost);
	waiter_end(&waiter);
	assert_int_equal(waiter.result, TUTTI_ERR_PEER_LOST);
	assert_string_equal(waiter.error, "rank 2 is lost");
	await_news(other, "rank 2 is lost");
	await_news(other, "rank 2 is lost"); /* it stays */
	/* who comes later is told with the answer to its first call */
	late = new_client(host);
	attend(late, "m/1", "rank 4 is lost");
	await_news(late, "rank 2 is lost");
	/* what is not below it goes on */
	late->ops->leave(late);
	attend(late, "m/10", "rank 4 is lost");
	assert_ok(tutti_store_set(late, "m/10/x", NULL, 0));
	assert_ok(late->ops->poll(late));
	tutti_store_close(late);
	tutti_store_close(other);
	tutti_store_close(waiter.store);
}

TEST_WITH(who_has_left_is_not_missed, open_host, close_host)
{
	tutti_store_t host = *state, gone = new_client(host), other = new_client(host);
	size_t none = 0;

	attend(other, "m/1", "rank 3 is lost");
	attend(gone, "m/1", "rank 2 is lost");
	gone->ops->leave(gone);
	tutti_store_close(gone);
	gone = new_client(host); /* leaves another of which the host has not been told */
	attend(gone, "m/1", "rank 2 is lost");
	gone->ops->attend(gone, &(struct tt_attendance){ "m/3", -1, "one", TUTTI_ERR_PEER_LOST,
							 "rank 2 is lost" });
	gone->ops->leave(gone);
	tutti_store_close(gone);
	gone = new_client(host); /* attends another in its place */
	attend(gone, "m/1", "rank 2 is lost");
	attend(gone, "m/2", "rank 2 is lost");
	tutti_store_close(gone);
	assert_int_equal(tutti_store_get(host, "m/2/x", NULL, &none, PATIENCE_S),
			 TUTTI_ERR_PEER_LOST);
	assert_int_equal(tutti_store_get(host, "m/1/x", NULL, &none, 0.001), TUTTI_ERR_TIMEOUT);
	assert_ok(other->ops->poll(other));
	tutti_store_close(other);
}

TEST_WITH(the_first_word_is_what_all_are_told, open_host, close_host)
{
	tutti_store_t host = *state, first = new_client(host), second = new_client(host);

	attend(first, "m/1", "rank 1 is lost");
	attend(second, "m/1", "rank 2 is lost");
	first->ops->end(first, "m/1", TUTTI_ERR_PEER_LOST, "rank 1 has had enough");
	second->ops->end(second, "m/1", TUTTI_ERR_TIMEOUT, "rank 2 is late");
	/* without waiting for it */
	assert_int_equal(second->ops->poll(second), TUTTI_ERR_PEER_LOST);
	assert_string_equal(tt_thread_error(), "rank 1 has had enough");
	assert_int_equal(first->ops->poll(first), TUTTI_ERR_PEER_LOST);
	assert_string_equal(tt_thread_error(), "rank 1 has had enough");
	tutti_store_close(second);
	tutti_store_close(first);
}

/* In a directory, where anybody may have written it. */
TEST_WITH(a_word_that_names_no_error_is_not_passed_on, make_folder, remove_folder)
{
	static const struct {
		int result;
		tutti_result_t told;
	} words[] = { { 7, TUTTI_OK },
		      { -9999, TUTTI_ERR_UNSUPPORTED },
		      { TUTTI_ERR_TIMEOUT, TUTTI_ERR_TIMEOUT } };
	char address[200];
	uint8_t word[TT_WIRE_WORD_MAX];

	snprintf(address, sizeof(address), "file:%s", path_of("store"));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const uint32_t length =
			tt_wire_put_word((tutti_result_t)words[i].result, "x", word);
		tutti_store_t store;

		assert_ok(tutti_store_open(address, 0, PATIENCE_S, &store));
		attend(store, "m/1", "lost");
		assert_ok(tutti_store_set(store, "m/1/ended", word, length));
		assert_int_equal(store->ops->poll(store), words[i].told);
		tutti_store_close(store);
	}
}

/* ---------------------------------------------------------------- threads */

struct attender {
	tutti_store_t store;
	const char *prefix;
	atomic_int *stage;
	tutti_result_t told;
};

static void await_stage(atomic_int *stage, int n)
{
	while (atomic_load(stage) < n)
		sched_yield();
}

static void *attend_until_ended(void *argument)
{
	struct attender *a = argument;
	size_t none = 0;

	a->store->ops->attend(a->store, &(struct tt_attendance){ a->prefix, -1, "one",
								 TUTTI_ERR_PEER_LOST, "lost" });
	tutti_store_set(a->store, a->prefix, NULL, 0);
	atomic_fetch_add(a->stage, 1);
	await_stage(a->stage, 3);
	/* news come before its answer */
	tutti_store_get(a->store, "there", NULL, &none, PATIENCE_S);
	a->told = a->store->ops->poll(a->store);
	a->store->ops->leave(a->store);
	return NULL;
}

TEST_WITH(threads_that_share_a_handle_attend_for_themselves, open_host, close_host)
{
	tutti_store_t host = *state, shared = new_client(host);
	atomic_int stage = 0;
	pthread_t threads[2];
	struct attender attenders[2] = { { shared, "m/1", &stage, 1 },
					 { shared, "m/2", &stage, 1 } };

	assert_ok(tutti_store_set(host, "there", NULL, 0));
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, attend_until_ended, &attenders[i]), 0);
	await_stage(&stage, 2);
	host->ops->end(host, "m/1", TUTTI_ERR_TIMEOUT, "late");
	atomic_fetch_add(&stage, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(attenders[0].told, TUTTI_ERR_TIMEOUT);
	assert_int_equal(attenders[1].told, TUTTI_OK);
	tutti_store_close(shared);
}

/* ---------------------------------------------------------------- the host's end */

TEST(a_host_that_closes_is_not_taken_for_a_lost_one)
{
	tutti_store_t host = new_host(), client = new_client(host);
	size_t none = 0;

	attend(client, "m/1", "lost");
	host->close_by = tt_now();
	tutti_store_close(host);
	assert_ok(client->ops->poll(client));
	assert_false(client->closed);
	assert_int_equal(tutti_store_get(client, "k", NULL, &none, 0), TUTTI_ERR_PEER_LOST);
	assert_true(client->closed);
	assert_ok(client->ops->poll(client));
	tutti_store_close(client);
}

static pid_t fork_host(char address[64])
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		const tutti_store_t host = new_host();

		if (write(ends[1], host->address, 64) != 64)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ends[0], address, 64), 64);
	close(ends[0]);
	close(ends[1]);
	return pid;
}

/* Within the time of the call, not that of the store. */
TEST(a_host_that_does_not_answer_is_not_taken_for_a_lost_one)
{
	tutti_store_t client;
	char address[64];
	const pid_t pid = fork_host(address);

	assert_ok(open_with(address, 0, job_key, &client));
	attend(client, "m/1", "lost");
	stop_child(pid);
	assert_int_equal(client->ops->set(client, "k", "", 0, 10000000), TUTTI_ERR_TIMEOUT);
	assert_fails(client->ops->poll(client), TUTTI_ERR_TIMEOUT,
		     "does not answer; it is stopped");
	end_child(pid);
	tutti_store_close(client);
}

TEST(a_host_that_dies_is_seen)
{
	tutti_store_t client;
	char address[64];
	const pid_t pid = fork_host(address);

	assert_ok(open_with(address, 0, job_key, &client));
	attend(client, "m/1", "lost");
	assert_ok(client->ops->poll(client));
	end_child(pid);
	for (int i = 0; i < 2; i++) { /* it stays so */
		assert_fails(client->ops->poll(client), TUTTI_ERR_PEER_LOST,
			     "has closed the connection or ended");
	}
	assert_false(client->closed);
	const int listener = listen_as_host(atoi(strrchr(address, ':') + 1), 8, address);
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	client->ops->end(client, "m/1", TUTTI_ERR_TIMEOUT,
			 "late"); /* nobody is called who is known to be gone */
	assert_int_equal(accept(listener, NULL, NULL), -1);
	close(listener);
	tutti_store_close(client);
}

/* ---------------------------------------------------------------- bytes */

/* The messages without an answer come in any number in front of a request, byte by byte as well. */
TEST_WITH(what_has_no_answer_may_come_in_any_pieces, open_host, close_host)
{
	tutti_store_t host = *state, other;
	uint8_t bytes[2048], word[TT_WIRE_WORD_MAX];
	const uint32_t length = tt_wire_put_word(TUTTI_ERR_PEER_LOST, "a raw one is lost", word);
	char value;
	size_t n = 0, one = 1;

	if (job_encrypts)
		skip();
	other = new_client(host);
	attend(other, "m/1", "lost");
	for (int i = 0; i < 9; i++) {
		n += put_message(bytes + n, TT_WIRE_LEAVE, "", "", 0);
		n += put_message(bytes + n, TT_WIRE_ATTEND, "m/1", word, length);
	}
	n += put_message(bytes + n, TT_WIRE_SET, "k", "v", 1);
	const int fd = raw_client(host);

	for (int piece = (int)n; piece > 0; piece -= (int)n - 1) { /* in one, then in many */
		for (size_t at = 0; at < n; at += (size_t)piece)
			raw_send(fd, bytes + at, (size_t)piece);
		expect_answer(fd, TT_WIRE_DONE);
	}
	assert_ok(tutti_store_get(host, "k", &value, &one, 0));
	assert_int_equal(value, 'v');
	assert_ok(other->ops->poll(other));
	close(fd);
	await_news(other, "a raw one is lost");
	tutti_store_close(other);
}

int main(void)
{
	return run_claims(NULL, NULL) + run_claims(be_encrypted, NULL);
}
