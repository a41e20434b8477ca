/* SPDX-License-Identifier: BSD-3-Clause */
/* Only who has the job's key gets a connection: what was recorded or reflected is no proof. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "endpoint.h"
#include "test_raw.h"
#include "test_warnings.h"

static const struct tt_key other_key = { true, { 'o', 't', 'h', 'e', 'r' } };

static int listen_to_log(void **state)
{
	listen_for_warnings();
	return 0;
}

static int leave_log(void **state)
{
	leave_warnings();
	return no_ranks(state);
}

/* ---- other keys, and none */

static bool trouble(void *arg)
{
	assert_false(tcp->ready(fabric.ends[0]));
	return *tt_tcp_dial_trouble(tcp_endpoint_of(fabric.endpoint[0]), 1);
}

/* Rank 0 asks rank 1 for a link in vain. */
static void expect_trouble(const char *says)
{
	fabric_ask(&fabric, 0);
	fabric_until(&fabric, trouble, NULL);
	assert_says(tt_tcp_dial_trouble(tcp_endpoint_of(fabric.endpoint[0]), 1), says);
	fabric_close(&fabric, 0);
}

/* Nobody is between two words of a handshake. */
static bool none_waits(void *arg)
{
	for (int i = 0; i < 2; i++)
		if (tcp_endpoint_of(fabric.endpoint[i])->pending_count > 0)
			return false;
	return true;
}

static void start_with(const struct tt_key *key)
{
	const struct tt_key *keys[2] = { key, key };

	fabric_open_with(&fabric, 2, 0, keys);
	fabric_meet(&fabric);
}

/* Rank 0 comes as one that was opened with `mine`. */
static void cannot_come_in(const struct tt_key *mine, const struct tt_key *theirs, const char *says,
			   const char *logs)
{
	start_with(theirs);
	fabric_open_rank(&fabric, 2, mine);
	struct tcp_endpoint *const e = tcp_endpoint_of(fabric.endpoint[0]);
	const struct tt_handshake_terms had = e->admission.terms;

	e->admission.terms = tcp_endpoint_of(fabric.endpoint[2])->admission.terms;
	for (int i = 0; i < 3; i++)
		expect_trouble(says);
	/* the other side says it once, and takes no harm */
	fabric_until(&fabric, none_waits, NULL);
	assert_int_equal(atomic_load(&warnings), 1);
	assert_says(last_warning, logs);
	e->admission.terms = had;
	fabric_leave(&fabric, 2);
	fabric_goes_on(&fabric);
}

TEST_OF_WITH(a_rank_with_another_key_is_refused_and_told_so, listen_to_log, leave_log,
	     cannot_come_in(&other_key, &fabric_key, "has another key", "has another key"))
TEST_OF_WITH(a_rank_without_the_key_is_refused_and_told_so, listen_to_log, leave_log,
	     cannot_come_in(NULL, &fabric_key, "has a key, and this end has none",
			    "has no key, and this end has one"))
TEST_OF_WITH(a_rank_with_a_key_keeps_away_from_one_without, listen_to_log, leave_log,
	     cannot_come_in(&fabric_key, NULL, "has no key, and this end has one",
			    "has a key, and this end has none"))

static const struct tt_key encrypts = { true, { 'k' }, .encrypt = true }, plain = { true, { 'k' } };

TEST_OF_WITH(a_rank_that_does_not_encrypt_is_told, listen_to_log, leave_log,
	     cannot_come_in(&plain, &encrypts, "encrypts, and this end does not",
			    "does not encrypt, and this end does"))
TEST_OF_WITH(a_rank_that_encrypts_keeps_away_from_one_that_does_not, listen_to_log, leave_log,
	     cannot_come_in(&encrypts, &plain, "TUTTI_ENCRYPT", "encrypts, and this end does not"))

static bool one_waits(void *arg)
{
	return tcp_endpoint_of(fabric.endpoint[1])->pending_count == 1;
}

TEST_WITH(who_goes_in_the_middle_of_tls_is_not_said_to_have_another_key, listen_to_log, leave_log)
{
	start_with(&encrypts);
	const int fd = raw_connect(fabric_port(&fabric, 1));

	raw_send(fd, (uint8_t[]){ TT_TLS_FIRST_BYTE, 3, 1 }, 3);
	fabric_until(&fabric, one_waits, NULL);
	close(fd);
	fabric_until(&fabric, none_waits, NULL);
	assert_int_equal(atomic_load(&warnings), 0);
}

TEST_WITH(without_a_key_a_rank_is_reached_over_loopback_only, NULL, no_ranks)
{
	static const uint8_t loopback[] = { 127, 0, 0, 1 };
	struct sockaddr_storage name = { 0 };
	const struct sockaddr_in *const bound = (const struct sockaddr_in *)&name;
	socklen_t length = sizeof(name);
	struct tcp_card card;

	start_with(NULL);
	const struct tt_peer *const peers = fabric.peers[0];
	assert_int_equal(getsockname(tcp_endpoint_of(fabric.endpoint[1])->listener.connection.fd,
				     (struct sockaddr *)&name, &length),
			 0);
	assert_int_equal(name.ss_family, AF_INET);
	assert_int_equal(bound->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_true(tt_tcp_card_read(peers[1].address, peers[1].address_length, &card));
	assert_int_equal(card.count, 1);
	assert_int_equal(card.at[0].family, 4);
	assert_memory_equal(card.at[0].bytes, loopback, sizeof(loopback));
	assert_int_equal(card.port, ntohs(bound->sin_port));
	assert_true(tcp->reach(&peers[0], &peers[1]));
	fabric_goes_on(&fabric);
	/* another machine, or another network namespace of this one */
	card.network++;
	tt_tcp_card_write(&card, fabric.addresses[0][1]);
	assert_false(tcp->reach(&peers[0], &peers[1]));
}

/* ---- recorded, reflected */

/* Rank 1 is asked for a link with rank 0. */
static uint8_t hello[TT_HELLO_BYTES];

static int two_ranks_and_log(void **state)
{
	listen_for_warnings();
	two_ranks(state);
	fabric_hello(&(const struct tt_hello){ TCP_FOR_DATA, TT_CHANNEL_P2P, fabric.comm_id, 0, 1,
					       true },
		     hello);
	return 0;
}

static int go_on(void **state)
{
	fabric_goes_on(&fabric);
	return leave_log(state);
}

/* The connection, and what rank 1 answers. */
static int say_hello(uint8_t answer[TT_ANSWER_BYTES])
{
	struct caller c = { .fd = raw_connect(fabric_port(&fabric, 1)), .enough = TT_ANSWER_BYTES };

	raw_send(c.fd, hello, TT_HELLO_BYTES);
	fabric_until(&fabric, caller_heard, &c);
	assert_int_equal(c.length, TT_ANSWER_BYTES);
	memcpy(answer, c.heard, TT_ANSWER_BYTES);
	return c.fd;
}

static struct tcp_kept **kept(void)
{
	return tt_tcp_find_kept(tcp_endpoint_of(fabric.endpoint[1]), 0, TT_CHANNEL_P2P);
}

static bool keeps_the_link(void *arg)
{
	return *kept() != NULL;
}

static void prove(int fd, const uint8_t answer[TT_ANSWER_BYTES], uint8_t confirm[TT_CONFIRM_BYTES])
{
	tt_confirm_write(&tt_tcp_protocol, &fabric_key, hello, answer, confirm);
	raw_send(fd, confirm, TT_CONFIRM_BYTES);
}

static void is_turned_away(int fd)
{
	caller_is_dropped(&fabric, fd);
	assert_null(*kept());
}

TEST_WITH(a_handshake_that_was_recorded_opens_nothing, two_ranks_and_log, go_on)
{
	enum { NONCE = 24, PROOF = 56 }; /* in an answer */
	uint8_t first[TT_ANSWER_BYTES], answer[TT_ANSWER_BYTES], confirm[TT_CONFIRM_BYTES];
	const int recorded = say_hello(first);
	struct tt_link *link;

	prove(recorded, first, confirm);
	fabric_until(&fabric, keeps_the_link, NULL);
	assert_ok(tcp->connect(fabric.endpoint[1], 0, TT_CHANNEL_P2P, &link));
	tcp->close(link);
	close(recorded);
	const int fd = say_hello(answer);
	/* of the same hello, but with a nonce and a proof of its own */
	assert_memory_equal(answer, first, NONCE);
	assert_memory_not_equal(answer + NONCE, first + NONCE, TT_NONCE_BYTES);
	assert_memory_not_equal(answer + PROOF, first + PROOF, TT_PROOF_BYTES);
	raw_send(fd, confirm, TT_CONFIRM_BYTES);
	is_turned_away(fd);
	assert_says(last_warning, "has another key");
}

TEST_WITH(the_proof_of_one_side_is_none_of_the_other, two_ranks_and_log, go_on)
{
	uint8_t answer[TT_ANSWER_BYTES];
	const int fd = say_hello(answer);

	raw_send(fd, answer + TT_ANSWER_BYTES - TT_PROOF_BYTES, TT_PROOF_BYTES);
	is_turned_away(fd);
}

TEST_WITH(the_proof_of_one_connection_is_none_of_another, two_ranks_and_log, go_on)
{
	uint8_t answer[TT_ANSWER_BYTES], confirm[TT_CONFIRM_BYTES];
	const int fds[2] = { say_hello(answer), say_hello(answer) };

	prove(fds[0], answer, confirm); /* good for the second */
	is_turned_away(fds[0]);
	close(fds[1]);
}

/* Who says a good hello but proves nothing is not driven out by those who say nothing, and has a
 * deadline. */
TEST_WITH(who_said_hello_is_not_driven_out_by_the_silent, two_ranks_and_log, go_on)
{
	uint8_t answer[TT_ANSWER_BYTES], confirm[TT_CONFIRM_BYTES];
	struct tcp_endpoint *const e = tcp_endpoint_of(fabric.endpoint[1]);
	int silent[2 * TCP_PENDING_MAX];
	const int fd = say_hello(answer);

	e->pending[0]->handshake.deadline =
		tt_now() + 4 * SECOND; /* before that of all who come later */
	for (int i = 0; i < 2 * TCP_PENDING_MAX; i++)
		silent[i] = raw_connect(fabric_port(&fabric, 1));
	caller_is_dropped(&fabric, silent[TCP_PENDING_MAX]);
	assert_int_equal(e->pending_count, TCP_PENDING_MAX);
	prove(fd, answer, confirm);
	fabric_until(&fabric, keeps_the_link, NULL);
	for (int i = 0; i < 2 * TCP_PENDING_MAX; i++)
		if (i != TCP_PENDING_MAX)
			close(silent[i]);
	close(fd);
}

TEST_WITH(who_said_hello_and_no_more_is_dropped_in_time, two_ranks_and_log, go_on)
{
	uint8_t answer[TT_ANSWER_BYTES];
	struct tcp_endpoint *const e = tcp_endpoint_of(fabric.endpoint[1]);
	const int fd = say_hello(answer);

	raw_send(fd, hello, TT_CONFIRM_BYTES - 1);
	assert_int_equal(e->pending_count, 1);
	tt_tcp_pending_expire(e, tt_now() + 11 * SECOND);
	caller_is_dropped(&fabric, fd);
	assert_int_equal(e->pending_count, 0);
}
