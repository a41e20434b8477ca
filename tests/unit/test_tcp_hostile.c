/* SPDX-License-Identifier: BSD-3-Clause */
/* The port is open to anybody: what does not belong to the job is dropped, and the job goes on. */
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "endpoint.h"
#include "test_raw.h"
#include "test_shortage.h"

static const struct tt_transport *const tcp = &tt_transport_tcp;

static int knock(const struct fabric *f, int rank)
{
	return raw_connect(fabric_port(f, rank));
}

TEST(garbage_is_dropped_at_once)
{
	struct fabric f;
	struct caller c = { 0 };

	fabric_start(&f, 2, 0);
	c.fd = knock(&f, 1);
	assert_int_equal(send(c.fd, "GET / HTTP/1.0\r\n", 16, MSG_NOSIGNAL), 16);
	fabric_until(&f, caller_hung_up, &c);
	assert_int_equal(c.length, 0);
	close(c.fd);
	fabric_goes_on(&f);
	fabric_stop(&f);
}

/* A hello whose nonce does not matter. */
static void hello_write(const struct tt_hello *hello, uint8_t out[TT_HELLO_BYTES])
{
	static const uint8_t nonce[TT_NONCE_BYTES] = { 1, 2, 3 };

	tt_hello_write(&tt_tcp_protocol, hello, nonce, out);
}

static void refused_with(struct fabric *f, const uint8_t *hello, enum tt_verdict verdict)
{
	struct caller c = { 0 };

	c.fd = knock(f, 1);
	assert_int_equal(send(c.fd, hello, TT_HELLO_BYTES, MSG_NOSIGNAL), TT_HELLO_BYTES);
	fabric_until(f, caller_hung_up, &c);
	assert_int_equal(c.length, TT_ANSWER_BYTES);
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, hello, c.heard), verdict);
	close(c.fd);
}

TEST(hellos_that_are_not_welcome_are_told_why)
{
	static const struct {
		struct tt_hello hello;
		enum tt_verdict verdict;
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
	};
	struct fabric f;

	fabric_start(&f, 2, 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct tt_hello hello = all[i].hello;
		uint8_t bytes[TT_HELLO_BYTES];

		hello.comm_id += f.comm_id;
		hello_write(&hello, bytes);
		refused_with(&f, bytes, all[i].verdict);
	}
	fabric_goes_on(&f);
	fabric_stop(&f);
}

TEST(other_versions_and_unknown_wishes_are_refused)
{
	struct tt_hello hello = { TCP_FOR_DATA, 0, 0, 0, 1, true };
	uint8_t bytes[TT_HELLO_BYTES];
	struct fabric f;

	fabric_start(&f, 2, 0);
	hello.comm_id = f.comm_id;
	hello_write(&hello, bytes);
	bytes[8] ^= 1;
	refused_with(&f, bytes, TT_VERDICT_OTHER_VERSION);
	bytes[8] ^= 1;
	bytes[10] = 2; /* purpose */
	refused_with(&f, bytes, TT_VERDICT_NOT_UNDERSTOOD);
	bytes[10] = 0;
	bytes[12] = 3; /* flags */
	refused_with(&f, bytes, TT_VERDICT_NOT_UNDERSTOOD);
	fabric_goes_on(&f);
	fabric_stop(&f);
}

TEST(every_answer_but_the_right_one_is_a_refusal)
{
	static const uint8_t nonce[TT_NONCE_BYTES] = { 4, 5, 6 };
	const struct tt_hello hello = { TCP_FOR_DATA, 0, 7, 0, 1, true },
			      other = { TCP_FOR_DATA, 0, 8, 0, 1, true };
	uint8_t asked[TT_HELLO_BYTES], changed[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];

	hello_write(&hello, asked);
	hello_write(&other, changed);
	tt_answer_write(&tt_tcp_protocol, &fabric_key, asked, 1, TT_VERDICT_ACCEPTED, nonce,
			answer);
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, asked, answer),
			 TT_VERDICT_ACCEPTED);
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, changed, answer),
			 TT_VERDICT_OTHER_JOB);
	for (size_t i = 24; i < sizeof(answer); i++) { /* nonce and proof */
		answer[i] ^= 0x80;
		assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, asked, answer),
				 TT_VERDICT_OTHER_KEY);
		answer[i] ^= 0x80;
	}
	tt_answer_write(&tt_tcp_protocol, &fabric_key, asked, 2, TT_VERDICT_ACCEPTED, nonce,
			answer);
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, asked, answer),
			 TT_VERDICT_OTHER_RANK);
	tt_answer_write(&tt_tcp_protocol, &fabric_key, asked, 1, TT_VERDICT_ACCEPTED, nonce,
			answer);
	answer[10] = 99; /* verdict */
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, asked, answer),
			 TT_VERDICT_NOT_UNDERSTOOD);
	answer[8] = 9; /* version */
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, asked, answer),
			 TT_VERDICT_OTHER_VERSION);
	assert_int_equal(tt_answer_begins(&tt_tcp_protocol, answer, 9), TT_VERDICT_ACCEPTED);
	assert_int_equal(tt_answer_begins(&tt_tcp_protocol, answer, 10), TT_VERDICT_OTHER_VERSION);
	memset(answer, 'a', sizeof(answer));
	assert_int_equal(tt_answer_read(&tt_tcp_protocol, &fabric_key, asked, answer),
			 TT_VERDICT_NO_HELLO);
	assert_int_equal(tt_answer_begins(&tt_tcp_protocol, answer, 1), TT_VERDICT_NO_HELLO);
}

static bool has_pending(void *arg)
{
	return tcp_endpoint_of(((struct fabric *)arg)->endpoint[1])->pending_count > 0;
}

TEST(a_slow_caller_is_dropped_at_its_deadline)
{
	struct tcp_endpoint *e;
	struct fabric f;
	struct caller c = { 0 };

	fabric_start(&f, 2, 0);
	e = tcp_endpoint_of(f.endpoint[1]);
	c.fd = knock(&f, 1);
	assert_int_equal(send(c.fd, "tutt", 4, MSG_NOSIGNAL), 4);
	fabric_until(&f, has_pending, &f);
	tt_tcp_pending_expire(e, tt_now() + SECOND);
	assert_int_equal(e->pending_count, 1);
	tt_tcp_pending_expire(e, tt_now() + 6 * SECOND);
	assert_int_equal(e->pending_count, 0);
	fabric_until(&f, caller_hung_up, &c);
	close(c.fd);
	fabric_goes_on(&f);
	fabric_stop(&f);
}

TEST(a_crowd_of_silent_callers_keeps_nobody_out)
{
	struct caller callers[TCP_PENDING_MAX + 20] = { 0 };
	const int count = (int)(sizeof(callers) / sizeof(callers[0]));
	struct fabric f;

	fabric_start(&f, 2, 0);
	for (int i = 0; i < count; i++)
		callers[i].fd = knock(&f, 1);
	/* those that came first had to make room */
	fabric_until(&f, caller_hung_up, &callers[0]);
	fabric_until(&f, caller_hung_up, &callers[19]);
	assert_int_equal(tcp_endpoint_of(f.endpoint[1])->pending_count, TCP_PENDING_MAX);
	fabric_goes_on(&f);
	for (int i = 0; i < count; i++)
		close(callers[i].fd);
	fabric_stop(&f);
}

/* A silent caller who has been let in, and has been there for long. */
static int idler(struct fabric *f)
{
	const int fd = knock(f, 1);

	fabric_until(f, has_pending, f);
	tcp_endpoint_of(f->endpoint[1])->pending[0]->handshake.deadline = tt_now() + SECOND;
	return fd;
}

static bool accepting(const struct tcp_endpoint *e)
{
	return !e->short_since && !e->listen_again_at;
}

/* Without a free descriptor accept4() finds a shortage where nobody waits. */
TEST(nobody_makes_room_where_nobody_waits)
{
	struct shortage shortage;
	struct tcp_endpoint *e;
	struct fabric f;

	fabric_start(&f, 2, 0);
	e = tcp_endpoint_of(f.endpoint[1]);
	shortage_begin(&shortage);
	tt_tcp_accept(e);
	assert_true(accepting(e));
	shortage_end(&shortage);
	const int fd = idler(&f);
	shortage_begin(&shortage);
	tt_tcp_accept(e);
	assert_int_equal(e->pending_count, 1);
	assert_true(accepting(e));
	shortage_end(&shortage);
	close(fd);
	fabric_goes_on(&f);
	fabric_stop(&f);
}

/* With `fd`, until it is in the listener's queue. */
static void queue_up(int fd, const struct fabric *f)
{
	struct pollfd listener = { tcp_endpoint_of(f->endpoint[1])->listener.connection.fd, POLLIN,
				   0 };

	raw_call(fd, fabric_port(f, 1));
	assert_int_equal(poll(&listener, 1, 20000), 1);
}

static bool two_pending(void *arg)
{
	return tcp_endpoint_of(((struct fabric *)arg)->endpoint[1])->pending_count == 2;
}

/* An idler's place, but not that of one who has just come; then none until one is free. */
TEST(room_is_made_for_who_waits_as_long_as_there_is_some)
{
	struct shortage shortage;
	struct tcp_endpoint *e;
	struct fabric f;
	struct caller idle = { 0 };

	fabric_start(&f, 2, 0);
	e = tcp_endpoint_of(f.endpoint[1]);
	idle.fd = idler(&f);
	const int next = raw_socket(), last = raw_socket();
	shortage_begin(&shortage);
	queue_up(next, &f);
	tt_tcp_accept(e);
	assert_int_equal(e->pending_count, 1);
	assert_true(accepting(e));
	e->pending[0]->handshake.deadline = tt_now() + 60 * SECOND;
	fabric_until(&f, caller_hung_up, &idle);
	queue_up(last, &f);
	tt_tcp_accept(e);
	assert_int_equal(e->pending_count, 1);
	assert_true(e->short_since && e->listen_again_at);
	shortage_end(&shortage);
	fabric_until(&f, two_pending, &f);
	assert_true(accepting(e));
	close(last);
	close(next);
	close(idle.fd);
	fabric_goes_on(&f);
	fabric_stop(&f);
}

struct pretender {
	struct tt_link *link;
	int listener;
	ssize_t n;
};

/* Accepts, says something else than an answer, and goes. */
static bool pretended(void *arg)
{
	struct pretender *p = arg;
	const int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
	char byte;
	const struct iovec iov = { &byte, 1 };

	if (fd >= 0) {
		assert_int_equal(send(fd, "SSH-2.0-OpenSSH_9.2p1 Debian", 28, MSG_NOSIGNAL), 28);
		tt_tcp_close_orderly((struct tt_connection){ fd, NULL });
	}
	p->n = tcp->read(p->link, &iov, 1);
	return p->n < 0;
}

TEST(a_port_of_somebody_else_is_not_taken_for_the_rank)
{
	const struct sockaddr_in any = { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in name;
	socklen_t length = sizeof(name);
	struct pretender p = { 0 };
	struct tcp_card card;
	struct fabric f;

	fabric_start(&f, 2, 4);
	p.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p.listener, (const struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(p.listener, 8), 0);
	assert_int_equal(getsockname(p.listener, (struct sockaddr *)&name, &length), 0);
	assert_true(tt_tcp_card_read(f.peers[0][1].address, f.peers[0][1].address_length, &card));
	card.port = ntohs(name.sin_port);
	tt_tcp_card_write(&card, f.addresses[0][1]);
	assert_int_equal(tcp->connect(f.endpoint[0], 1, TT_CHANNEL_COLLECTIVE, &p.link), TUTTI_OK);
	fabric_until(&f, pretended, &p);
	assert_int_equal(p.n, TUTTI_ERR_PEER_LOST);
	assert_non_null(strstr(tt_thread_error(), "rank 1 cannot be reached from rank 0"));
	assert_non_null(strstr(tt_thread_error(), "does not speak tutti's protocol"));
	close(p.listener);
	tcp->close(p.link);
	fabric_stop(&f);
}
