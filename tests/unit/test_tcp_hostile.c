/* SPDX-License-Identifier: BSD-3-Clause */
/* The port is open to anybody: what does not belong to the job is dropped, and the job goes on. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "endpoint.h"
#include "test_raw.h"
#include "test_shortage.h"

static int knock(void)
{
	return raw_connect(fabric_port(&fabric, 1));
}

/* The job goes on. */
static int goes_on(void **state)
{
	fabric_goes_on(&fabric);
	return no_ranks(state);
}

TEST_WITH(garbage_is_dropped_at_once, two_ranks, goes_on)
{
	const int fd = knock();

	raw_send(fd, "GET / HTTP/1.0\r\n", 16);
	caller_is_dropped(&fabric, fd);
}

static void expect_verdict(const uint8_t *hello, enum tt_verdict verdict)
{
	struct caller c = { .fd = knock() };

	raw_send(c.fd, hello, TT_HELLO_BYTES);
	fabric_until(&fabric, caller_heard, &c);
	assert_int_equal(c.length, TT_ANSWER_BYTES);
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, hello, c.heard), verdict);
	close(c.fd);
}

TEST_WITH(hellos_that_are_not_welcome_are_told_why, two_ranks, goes_on)
{
	enum { VERSION = 8, PURPOSE = 10, FLAGS = 12 };
	static const struct {
		struct tt_hello hello;
		enum tt_verdict verdict;
		uint8_t at, change; /* what is changed of its bytes */
	} all[] = {
		{ { TCP_FOR_DATA, 0, 1, 0, 1, true }, TT_VERDICT_OTHER_JOB },
		{ { TCP_FOR_DATA, 0, 0, 0, 2, true }, TT_VERDICT_OTHER_RANK },
		{ { TCP_FOR_DATA, 0, 0, 1, 1, true },
		  TT_VERDICT_OTHER_RANK }, /* the lower rank dials */
		{ { TCP_FOR_DATA, 0, 0, -1, 1, true }, TT_VERDICT_OTHER_RANK },
		{ { TCP_FOR_DATA, 0, 0, 99, 1, true }, TT_VERDICT_OTHER_RANK },
		{ { TCP_FOR_DATA, TT_CHANNELS, 0, 0, 1, true }, TT_VERDICT_NOT_UNDERSTOOD },
		{ { TCP_FOR_CONTROL, 0, 0, 0, 1, true }, TT_VERDICT_DUPLICATE },
		/* it is the listener that has one */
		{ { TCP_FOR_DATA, 0, 0, 0, 1, false }, TT_VERDICT_KEYED },
		{ { TCP_FOR_DATA, 0, 0, 0, 1, true }, TT_VERDICT_OTHER_VERSION, VERSION, 1 },
		{ { TCP_FOR_DATA, 0, 0, 0, 1, true }, TT_VERDICT_NOT_UNDERSTOOD, PURPOSE, 2 },
		{ { TCP_FOR_DATA, 0, 0, 0, 1, true }, TT_VERDICT_NOT_UNDERSTOOD, FLAGS, 2 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct tt_hello hello = all[i].hello;
		uint8_t bytes[TT_HELLO_BYTES];

		hello.comm_id += fabric.comm_id;
		fabric_hello(&hello, bytes);
		bytes[all[i].at] ^= all[i].change;
		expect_verdict(bytes, all[i].verdict);
	}
}

static void answer_write(const uint8_t *asked, int rank, uint8_t answer[TT_ANSWER_BYTES])
{
	static const uint8_t nonce[TT_NONCE_BYTES] = { 4, 5, 6 };

	tt_answer_write(&tt_tcp_protocol, &fabric_key, asked, rank, TT_VERDICT_ACCEPTED, nonce,
			answer);
}

static void expect_reading(const uint8_t *asked, const uint8_t *answer, enum tt_verdict verdict)
{
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, asked, answer), verdict);
}

TEST(every_answer_but_the_right_one_is_a_refusal)
{
	enum { VERSION = 8, VERDICT = 10, NONCE = 24 /* and proof */ };
	const struct tt_hello hello = { TCP_FOR_DATA, 0, 7, 0, 1, true },
			      other = { TCP_FOR_DATA, 0, 8, 0, 1, true };
	uint8_t asked[TT_HELLO_BYTES], changed[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];

	fabric_hello(&hello, asked);
	fabric_hello(&other, changed);
	answer_write(asked, 1, answer);
	expect_reading(asked, answer, TT_VERDICT_ACCEPTED);
	expect_reading(changed, answer, TT_VERDICT_OTHER_JOB);
	for (size_t i = NONCE; i < sizeof(answer); i++) {
		answer[i] ^= 0x80;
		expect_reading(asked, answer, TT_VERDICT_OTHER_KEY);
		answer[i] ^= 0x80;
	}
	answer_write(asked, 2, answer);
	expect_reading(asked, answer, TT_VERDICT_OTHER_RANK);
	answer_write(asked, 1, answer);
	answer[VERDICT] = 99;
	expect_reading(asked, answer, TT_VERDICT_NOT_UNDERSTOOD);
	answer[VERSION] = 9;
	expect_reading(asked, answer, TT_VERDICT_OTHER_VERSION);
	assert_int_equal(tt_answer_begins(&tt_tcp_protocol, answer, 9), TT_VERDICT_ACCEPTED);
	assert_int_equal(tt_answer_begins(&tt_tcp_protocol, answer, 10), TT_VERDICT_OTHER_VERSION);
	memset(answer, 'a', sizeof(answer));
	expect_reading(asked, answer, TT_VERDICT_NO_HELLO);
	assert_int_equal(tt_answer_begins(&tt_tcp_protocol, answer, 1), TT_VERDICT_NO_HELLO);
}

/* One who sits between two ranks makes another hello of one, and gives the answer to it the numbers
 * that the dialer expects: neither takes the other for the rank that it talks to. */
TEST(nobody_is_led_elsewhere)
{
	enum { NUMBERS = 24 /* of an answer, before nonce and proof */ };
	const struct tt_hello hello = { TCP_FOR_DATA, 0, 7, 0, 1, true };
	uint8_t asked[TT_HELLO_BYTES], heard[TT_HELLO_BYTES], expected[TT_ANSWER_BYTES],
		said[TT_ANSWER_BYTES], answer[TT_ANSWER_BYTES], confirm[TT_CONFIRM_BYTES];

	fabric_hello(&hello, asked);
	answer_write(asked, 1, expected);
	for (size_t i = 0; i <= sizeof(asked); i++) { /* the last time nothing is changed */
		const bool led = i < sizeof(asked);
		const enum tt_verdict verdict = led ? TT_VERDICT_OTHER_KEY : TT_VERDICT_ACCEPTED;

		memcpy(heard, asked, sizeof(asked));
		if (led)
			heard[i] ^= 1;
		answer_write(heard, 1, said);
		memcpy(answer, said, sizeof(said));
		memcpy(answer, expected, NUMBERS);
		expect_reading(asked, answer, verdict);
		tt_confirm_write(&tt_tcp_protocol, &fabric_key, asked, answer, confirm);
		assert_int_equal(
			tt_confirm_read(&tt_tcp_protocol, &fabric_key, heard, said, confirm),
			verdict);
	}
}

static bool has_pending(void *number)
{
	return tcp_endpoint_of(fabric.endpoint[1])->pending_count == *(int *)number;
}

static void wait_for_pending(int number)
{
	fabric_until(&fabric, has_pending, &number);
}

TEST_WITH(a_slow_caller_is_dropped_at_its_deadline, two_ranks, goes_on)
{
	struct tcp_endpoint *const e = tcp_endpoint_of(fabric.endpoint[1]);
	const int fd = knock();

	raw_send(fd, "tutt", 4);
	wait_for_pending(1);
	tt_tcp_pending_expire(e, tt_now() + SECOND);
	assert_int_equal(e->pending_count, 1);
	tt_tcp_pending_expire(e, tt_now() + 6 * SECOND);
	assert_int_equal(e->pending_count, 0);
	caller_is_dropped(&fabric, fd);
}

TEST_WITH(a_crowd_of_silent_callers_keeps_nobody_out, two_ranks, no_ranks)
{
	int callers[TCP_PENDING_MAX + 20];
	const int count = (int)(sizeof(callers) / sizeof(callers[0]));

	for (int i = 0; i < count; i++)
		callers[i] = knock();
	/* those that came first had to make room */
	caller_is_dropped(&fabric, callers[0]);
	caller_is_dropped(&fabric, callers[19]);
	assert_int_equal(tcp_endpoint_of(fabric.endpoint[1])->pending_count, TCP_PENDING_MAX);
	fabric_goes_on(&fabric);
	for (int i = 1; i < count; i++)
		if (i != 19)
			close(callers[i]);
}

/* Nothing tells of what is left after that. */
TEST_WITH(one_look_takes_in_all_that_has_come, two_ranks, goes_on)
{
	int callers[TCP_PENDING_MAX];

	for (int i = 0; i < TCP_PENDING_MAX; i++)
		callers[i] = knock();
	wait_for_pending(TCP_PENDING_MAX);
	for (int i = 0; i < TCP_PENDING_MAX; i++)
		close(callers[i]);
	tcp->progress(fabric.endpoint[1], true);
	assert_int_equal(tcp_endpoint_of(fabric.endpoint[1])->pending_count, 0);
}

TEST_WITH(who_is_in_the_middle_of_its_proof_stays_and_the_next_one_waits, two_ranks, goes_on)
{
	const struct tt_hello hello = { TCP_FOR_DATA, 0, fabric.comm_id, 0, 1, true };
	struct caller callers[TCP_PENDING_MAX + 1], *const last = &callers[TCP_PENDING_MAX];
	uint8_t bytes[TT_HELLO_BYTES], byte;

	fabric_hello(&hello, bytes);
	for (struct caller *c = callers; c <= last; c++) {
		*c = (struct caller){ .fd = knock(), .enough = TT_ANSWER_BYTES };
		raw_send(c->fd, bytes, sizeof(bytes));
	}
	for (struct caller *c = callers; c < last; c++)
		fabric_until(&fabric, caller_heard, c);
	tcp->progress(fabric.endpoint[1], true); /* looks at the last one */
	assert_int_equal(recv(callers[0].fd, &byte, 1, MSG_DONTWAIT), -1);
	close(callers[0].fd);
	fabric_until(&fabric, caller_heard, last);
	assert_int_equal(last->length, TT_ANSWER_BYTES);
	for (struct caller *c = callers + 1; c <= last; c++)
		close(c->fd);
}

/* A silent caller who has been let in, and has been there for long. */
static int idler(void)
{
	const int fd = knock();

	wait_for_pending(1);
	tcp_endpoint_of(fabric.endpoint[1])->pending[0]->handshake.deadline = tt_now() + SECOND;
	return fd;
}

static bool accepting(const struct tcp_endpoint *e)
{
	return !e->short_since && !e->listen_again_at;
}

/* With `fd`, until it is in the listener's queue; the rank then looks there, and has so many callers. */
static int call_with(int fd)
{
	struct tcp_endpoint *const e = tcp_endpoint_of(fabric.endpoint[1]);
	struct pollfd listener = { e->listener.connection.fd, POLLIN, 0 };

	raw_call(fd, fabric_port(&fabric, 1));
	assert_int_equal(poll(&listener, 1, 20000), 1);
	tt_tcp_accept(e);
	return e->pending_count;
}

/* An idler's place, but not that of one who has just come; then none until one is free. */
TEST_WITH(room_is_made_for_who_waits_as_long_as_there_is_some, two_ranks, goes_on)
{
	struct tcp_endpoint *const e = tcp_endpoint_of(fabric.endpoint[1]);
	const int idle = idler(), next = raw_socket(), last = raw_socket();
	struct shortage shortage;
	struct caller dropped = { .fd = idle };

	shortage_begin(&shortage);
	assert_int_equal(call_with(next), 1);
	assert_true(accepting(e));
	e->pending[0]->handshake.deadline = tt_now() + 60 * SECOND;
	fabric_until(&fabric, caller_heard, &dropped);
	assert_int_equal(call_with(last), 1);
	assert_true(e->short_since && e->listen_again_at);
	shortage_end(&shortage);
	wait_for_pending(2);
	assert_true(accepting(e));
	close(last);
	close(next);
	close(idle);
}

/* Callers have a quarter of the descriptors that are left, wherever there are few. */
TEST_WITH(strangers_leave_the_rank_descriptors, two_ranks, goes_on)
{
	struct shortage shortage;
	int callers[SHORTAGE_FEW / 2];
	const int count = SHORTAGE_FEW / 2;

	for (int i = 0; i < count; i++)
		callers[i] = raw_socket();
	shortage_begin_with_few(&shortage);
	for (int i = 0; i < count; i++)
		assert_in_range(call_with(callers[i]), 1, SHORTAGE_FEW / 4);
	shortage_end(&shortage);
	for (int i = 0; i < count; i++)
		close(callers[i]);
}

/* Accepts, says something else than an answer, and goes. */
static bool pretended(void *listener)
{
	const int fd = accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC);
	char byte;

	if (fd >= 0) {
		raw_send(fd, "SSH-2.0-OpenSSH_9.2p1 Debian", 28);
		tt_tcp_close_orderly((struct tt_connection){ fd, NULL });
	}
	const ssize_t n = fabric_get(&fabric, 0, &byte, 1);

	assert_true(n == 0 || n == TUTTI_ERR_PEER_LOST);
	return n < 0;
}

TEST_WITH(a_port_of_somebody_else_is_not_taken_for_the_rank, NULL, no_ranks)
{
	int port = 0, listener = raw_listen(&port, 8);

	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	fabric_start(&fabric, 2, 4);
	fabric_lead(&fabric, 0, 1, port);
	fabric_ask(&fabric, 0);
	fabric_until(&fabric, pretended, &listener);
	assert_says(tt_thread_error(), "rank 1 cannot be reached from rank 0");
	assert_says(tt_thread_error(), "does not speak tutti's protocol");
	close(listener);
}
