/* SPDX-License-Identifier: BSD-3-Clause */
/* Only who has the job's key gets a connection, and only the one that it asked for: handshakes
 * that were recorded, reflected or led elsewhere are refused. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "endpoint.h"
#include "test_raw.h"
#include "test_warnings.h"
#include "wire.h"

static const struct tt_transport *const tcp = &tt_transport_tcp;
static const struct tt_key other_key = { true, { 'o', 't', 'h', 'e', 'r' } };

/* Where things are in a hello, see handshake.h … */
enum { AT_PURPOSE = 10, AT_CHANNEL = 11, AT_COMM = 16, AT_TO = 28 };
/* … and in an answer. */
enum { AT_VERDICT = 10, AT_RANK = 12, AT_ANSWER_COMM = 16, AT_ANSWER_NONCE = 24, AT_PROOF = 56 };

/* ---------------------------------------------------------------- the log */

static int listen_to_log(void **state)
{
	listen_for_warnings();
	return 0;
}

static int leave_log(void **state)
{
	leave_warnings();
	return 0;
}

/* ---------------------------------------------------------------- sockets */

struct hearing {
	int fd;
	uint8_t *in;
	size_t length, got;
};

static bool heard_all(void *arg)
{
	struct hearing *h = arg;
	const ssize_t n = recv(h->fd, h->in + h->got, h->length - h->got, MSG_DONTWAIT);

	h->got += n > 0 ? (size_t)n : 0;
	return h->got == h->length || n == 0 || (n < 0 && errno != EAGAIN);
}

static void hear(struct fabric *f, int fd, uint8_t *in, size_t length)
{
	struct hearing h = { fd, in, length, 0 };

	fabric_until(f, heard_all, &h);
	assert_int_equal(h.got, length);
}

static void hangs_up(struct fabric *f, int fd)
{
	struct caller c = { .fd = fd };

	fabric_until(f, caller_hung_up, &c);
	assert_int_equal(c.length, 0);
	close(fd);
}

/* ---------------------------------------------------------------- one who sits between two
 * ranks */

/* What it changes on the way. */
struct edit {
	size_t at, length;
	const void *with;
};

struct proxy {
	int listener, port, target;
	int near, far; /* to the dialer, to the listener; -1 */
	uint8_t up[TT_HELLO_BYTES + TT_CONFIRM_BYTES], down[TT_ANSWER_BYTES];
	size_t ups, downs;
	struct edit edit_up, edit_down;
};

static void proxy_open(struct proxy *p, int target)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(name);

	*p = (struct proxy){ .near = -1, .far = -1, .target = target };
	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(p->listener, 8), 0);
	assert_int_equal(getsockname(p->listener, (struct sockaddr *)&name, &length), 0);
	p->port = ntohs(name.sin_port);
}

static void proxy_hang_up(struct proxy *p)
{
	if (p->near >= 0)
		close(p->near);
	if (p->far >= 0)
		close(p->far);
	p->near = p->far = -1;
}

static void proxy_close(struct proxy *p)
{
	proxy_hang_up(p);
	close(p->listener);
}

/* True while the connection lasts. */
static bool pass_on(int from, int to, uint8_t *log, size_t capacity, size_t *logged,
		    const struct edit *edit)
{
	uint8_t bytes[512];
	const ssize_t n = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0)
		return false;
	for (ssize_t i = 0; i < n; i++, ++*logged) {
		if (*logged < capacity)
			log[*logged] = bytes[i];
		if (*logged - edit->at < edit->length)
			bytes[i] = ((const uint8_t *)edit->with)[*logged - edit->at];
	}
	return send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

/* A turn of its work. */
static void proxy_step(struct proxy *p)
{
	if (p->listener < 0)
		return;
	if (p->near < 0) {
		p->near = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
		if (p->near < 0)
			return;
		p->far = raw_connect(p->target);
		p->ups = p->downs = 0;
	}
	if (!pass_on(p->near, p->far, p->up, sizeof(p->up), &p->ups, &p->edit_up) ||
	    !pass_on(p->far, p->near, p->down, sizeof(p->down), &p->downs, &p->edit_down))
		proxy_hang_up(p);
}

/* Rank `who` of `f` finds the port in place of rank `of`'s. */
static void lead(struct fabric *f, int who, int of, int port)
{
	struct tt_peer *peer = &f->peers[who][of];
	struct tcp_card card;

	assert_true(tt_tcp_card_read(peer->address, peer->address_length, &card));
	card.port = (uint16_t)port;
	peer->address_length = (uint16_t)tt_tcp_card_write(&card, f->addresses[who][of]);
}

struct scene {
	struct fabric *f, *also; /* another, to be looked after, or NULL */
	struct proxy *proxy;
	struct tt_link *links[2];
};

static bool both_up(void *arg)
{
	struct scene *s = arg;

	proxy_step(s->proxy);
	return tcp->ready(s->links[0]) && tcp->ready(s->links[1]);
}

static bool trouble(void *arg)
{
	struct scene *s = arg;

	proxy_step(s->proxy);
	for (int i = 0; s->also && i < s->also->size; i++)
		tcp->progress(s->also->endpoint[i], true);
	assert_false(tcp->ready(s->links[0]));
	return *tt_tcp_dial_trouble(tcp_endpoint_of(s->f->endpoint[0]), 1);
}

/* ---------------------------------------------------------------- other keys, and none */

/* Nobody is between two words of a handshake. */
static bool none_waits(void *arg)
{
	const struct fabric *f = arg;

	for (int i = 0; i < f->size; i++)
		if (tcp_endpoint_of(f->endpoint[i])->pending_count > 0)
			return false;
	return true;
}

/* Rank 0 has `mine`, the others what they had. */
static void cannot_come_in(const struct tt_key *mine, const struct tt_key *theirs, const char *says,
			   const char *logs)
{
	struct fabric f;
	struct tcp_endpoint *e;
	struct tt_link *link;
	const struct tt_key *keys[2] = { theirs, theirs };
	struct proxy none = { .listener = -1, .near = -1, .far = -1 };
	struct scene s = { &f, NULL, &none, { NULL } };

	fabric_open_with(&f, 2, 0, keys);
	fabric_join(&f, tt_now() + 20 * SECOND);
	assert_int_equal(f.joined[0], TUTTI_OK);
	assert_int_equal(f.joined[1], TUTTI_OK);
	e = tcp_endpoint_of(f.endpoint[0]);
	e->admission.terms.key = mine;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tcp->connect(f.endpoint[0], 1, TT_CHANNEL_COLLECTIVE, &link),
				 TUTTI_OK);
		s.links[0] = link;
		fabric_until(&f, trouble, &s);
		assert_non_null(strstr(tt_tcp_dial_trouble(e, 1), says));
		tcp->close(link);
	}
	/* the other side says it once, and takes no harm */
	fabric_until(&f, none_waits, &f);
	assert_int_equal(atomic_load(&warnings), 1);
	assert_non_null(strstr(last_warning, logs));
	e->admission.terms.key = theirs;
	fabric_goes_on(&f);
	fabric_stop(&f);
}

TEST_WITH(a_rank_with_another_key_is_refused_and_told_so, listen_to_log, leave_log)
{
	cannot_come_in(&other_key, &fabric_key, "has another key", "has another key");
}

TEST_WITH(a_rank_without_the_key_is_refused_and_told_so, listen_to_log, leave_log)
{
	cannot_come_in(NULL, &fabric_key, "has a key, and this end has none",
		       "has no key, and this end has one");
}

TEST_WITH(a_rank_with_a_key_keeps_away_from_one_without, listen_to_log, leave_log)
{
	cannot_come_in(&fabric_key, NULL, "has no key, and this end has one",
		       "has a key, and this end has none");
}

static bool is_loopback(const struct tcp_address *a)
{
	static const uint8_t six[16] = { [15] = 1 };

	return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, six, 16) == 0;
}

TEST_WITH(without_a_key_a_rank_is_reached_over_loopback_only, listen_to_log, leave_log)
{
	const struct tt_key *keys[2] = { NULL, NULL };
	struct sockaddr_storage name = { 0 };
	socklen_t length = sizeof(name);
	struct tcp_card card;
	struct fabric f;

	fabric_open_with(&f, 2, 0, keys);
	assert_int_equal(getsockname(tcp_endpoint_of(f.endpoint[1])->listener.connection.fd,
				     (struct sockaddr *)&name, &length),
			 0);
	assert_int_equal(name.ss_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)&name)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_true(tt_tcp_card_read(f.peers[0][1].address, f.peers[0][1].address_length, &card));
	assert_int_equal(card.count, 1);
	assert_true(is_loopback(&card.at[0]));
	assert_int_equal(card.port, ntohs(((struct sockaddr_in *)&name)->sin_port));
	assert_true(tcp->reach(&f.peers[0][0], &f.peers[0][1]));
	/* another machine, or another network namespace of this one */
	card.network++;
	tt_tcp_card_write(&card, f.addresses[0][1]);
	assert_false(tcp->reach(&f.peers[0][0], &f.peers[0][1]));
	card.network--;
	tt_tcp_card_write(&card, f.addresses[0][1]);
	fabric_join(&f, tt_now() + 20 * SECOND);
	assert_int_equal(f.joined[0], TUTTI_OK);
	fabric_goes_on(&f);
	fabric_stop(&f);
}

/* ---------------------------------------------------------------- recorded, reflected, led
 * elsewhere */

/* Rank 0 connects with rank 1 through the proxy, which keeps what both say; both ends are closed
 * again. */
static void record(struct fabric *f, struct proxy *p)
{
	struct scene s = { f, NULL, p, { NULL } };
	const int port = fabric_port(f, 1);

	lead(f, 0, 1, p->port);
	assert_int_equal(tcp->connect(f->endpoint[0], 1, TT_CHANNEL_P2P, &s.links[0]), TUTTI_OK);
	assert_int_equal(tcp->connect(f->endpoint[1], 0, TT_CHANNEL_P2P, &s.links[1]), TUTTI_OK);
	fabric_until(f, both_up, &s);
	assert_int_equal(p->ups, sizeof(p->up));
	assert_int_equal(p->downs, sizeof(p->down));
	tcp->close(s.links[0]);
	tcp->close(s.links[1]);
	lead(f, 0, 1, port);
}

static void start_recorded(struct fabric *f, struct proxy *p)
{
	fabric_start(f, 2, 4);
	proxy_open(p, fabric_port(f, 1));
	record(f, p);
}

static void end_recorded(struct fabric *f, struct proxy *p)
{
	proxy_close(p);
	fabric_goes_on(f);
	fabric_stop(f);
}

/* The recorded hello once more; the connection, and what rank 1 answers. */
static int repeat_hello(struct fabric *f, const struct proxy *p, uint8_t answer[TT_ANSWER_BYTES])
{
	const int fd = raw_connect(fabric_port(f, 1));

	raw_send(fd, p->up, TT_HELLO_BYTES);
	hear(f, fd, answer, TT_ANSWER_BYTES);
	return fd;
}

static void is_turned_away(struct fabric *f, int fd)
{
	hangs_up(f, fd);
	assert_null(*tt_tcp_find_kept(tcp_endpoint_of(f->endpoint[1]), 0, TT_CHANNEL_P2P));
}

TEST_WITH(a_handshake_that_was_recorded_opens_nothing, listen_to_log, leave_log)
{
	uint8_t answer[TT_ANSWER_BYTES];
	struct proxy p;
	struct fabric f;

	start_recorded(&f, &p);
	const int fd = repeat_hello(&f, &p, answer);
	/* of the same hello, but with a nonce and a proof of its own */
	assert_memory_equal(answer, p.down, AT_ANSWER_NONCE);
	assert_memory_not_equal(answer + AT_ANSWER_NONCE, p.down + AT_ANSWER_NONCE, TT_NONCE_BYTES);
	assert_memory_not_equal(answer + AT_PROOF, p.down + AT_PROOF, TT_PROOF_BYTES);
	raw_send(fd, p.up + TT_HELLO_BYTES, TT_CONFIRM_BYTES);
	is_turned_away(&f, fd);
	assert_non_null(strstr(last_warning, "has another key"));
	end_recorded(&f, &p);
}

TEST_WITH(the_proof_of_one_side_is_none_of_the_other, listen_to_log, leave_log)
{
	uint8_t answer[TT_ANSWER_BYTES];
	struct proxy p;
	struct fabric f;

	start_recorded(&f, &p);
	const int fd = repeat_hello(&f, &p, answer);
	raw_send(fd, answer + AT_PROOF, TT_PROOF_BYTES);
	is_turned_away(&f, fd);
	end_recorded(&f, &p);
}

TEST_WITH(the_proof_of_one_connection_is_none_of_another, listen_to_log, leave_log)
{
	uint8_t answer[TT_ANSWER_BYTES], confirm[TT_CONFIRM_BYTES];
	struct proxy p;
	struct fabric f;
	int fds[2];

	start_recorded(&f, &p);
	for (int i = 0; i < 2; i++)
		fds[i] = repeat_hello(&f, &p, answer);
	tt_confirm_write(&tt_tcp_protocol, &fabric_key, p.up, answer,
			 confirm); /* good for the second */
	raw_send(fds[0], confirm, sizeof(confirm));
	is_turned_away(&f, fds[0]);
	close(fds[1]);
	end_recorded(&f, &p);
}

/* Rank 0 asks rank 1 for a link, and who sits between makes something else of it, which rank
 * `to` of `target` grants; it comes up at neither end. */
static void led_elsewhere(struct fabric *f, struct fabric *target, int to, struct edit up,
			  struct edit down)
{
	struct proxy p;
	struct scene s = { f, target, &p, { NULL } };
	const int port = fabric_port(f, 1);

	proxy_open(&p, fabric_port(target, to));
	p.edit_up = up;
	p.edit_down = down;
	lead(f, 0, 1, p.port);
	assert_int_equal(tcp->connect(f->endpoint[0], 1, TT_CHANNEL_P2P, &s.links[0]), TUTTI_OK);
	fabric_until(f, trouble, &s);
	assert_int_equal(p.down[AT_VERDICT],
			 TT_VERDICT_ACCEPTED); /* what it asked for can be had */
	assert_non_null(
		strstr(tt_tcp_dial_trouble(tcp_endpoint_of(f->endpoint[0]), 1), "has another key"));
	tcp->close(s.links[0]);
	proxy_close(&p);
	fabric_until(target, none_waits, target);
	assert_null(tcp_endpoint_of(target->endpoint[to])->kept);
	lead(f, 0, 1, port);
}

TEST_WITH(a_connection_led_to_another_channel_is_refused, listen_to_log, leave_log)
{
	const uint8_t channel = TT_CHANNEL_COLLECTIVE;
	struct fabric f;

	fabric_start(&f, 2, 4);
	led_elsewhere(&f, &f, 1, (struct edit){ AT_CHANNEL, 1, &channel }, (struct edit){ 0 });
	fabric_goes_on(&f);
	fabric_stop(&f);
}

TEST_WITH(a_connection_led_to_another_purpose_is_refused, listen_to_log, leave_log)
{
	const uint8_t control[] = { TCP_FOR_CONTROL, 0 };
	struct tcp_control *had;
	struct tcp_peer *peer;
	struct fabric f;

	fabric_start(&f, 2, 4);
	/* as if rank 1 had no control link with rank 0 yet */
	peer = &tcp_endpoint_of(f.endpoint[1])->peers[0];
	had = peer->control;
	peer->control = NULL;
	led_elsewhere(&f, &f, 1, (struct edit){ AT_PURPOSE, 2, control }, (struct edit){ 0 });
	assert_null(peer->control);
	peer->control = had;
	fabric_goes_on(&f);
	fabric_stop(&f);
}

TEST_WITH(a_connection_led_to_another_rank_is_refused, listen_to_log, leave_log)
{
	const uint8_t one[] = { 1, 0, 0, 0 }, two[] = { 2, 0, 0, 0 };
	struct fabric f;

	fabric_start(&f, 3, 4);
	led_elsewhere(&f, &f, 2, (struct edit){ AT_TO, 4, two }, (struct edit){ AT_RANK, 4, one });
	fabric_goes_on(&f);
	fabric_stop(&f);
}

TEST_WITH(a_connection_led_to_another_communicator_is_refused, listen_to_log, leave_log)
{
	struct fabric f, g;
	uint8_t ids[2][8];

	fabric_start(&f, 2, 4);
	fabric_start(&g, 2, 4);
	g.comm_id = ~f.comm_id;
	for (int i = 0; i < 2; i++)
		tcp_endpoint_of(g.endpoint[i])->comm_id = g.comm_id;
	wire_put(ids[0], f.comm_id, 8);
	wire_put(ids[1], g.comm_id, 8);
	led_elsewhere(&f, &g, 1, (struct edit){ AT_COMM, 8, ids[1] },
		      (struct edit){ AT_ANSWER_COMM, 8, ids[0] });
	fabric_goes_on(&f);
	fabric_goes_on(&g);
	fabric_stop(&f);
	fabric_stop(&g);
}

static bool keeps_the_link(void *arg)
{
	const struct fabric *f = arg;

	return *tt_tcp_find_kept(tcp_endpoint_of(f->endpoint[1]), 0, TT_CHANNEL_P2P) != NULL;
}

/* Who says a good hello but proves nothing is not driven out by those who say nothing, and has a
 * deadline. */
TEST_WITH(who_said_hello_is_not_driven_out_by_the_silent, listen_to_log, leave_log)
{
	uint8_t answer[TT_ANSWER_BYTES], confirm[TT_CONFIRM_BYTES];
	int silent[2 * TCP_PENDING_MAX];
	struct tcp_endpoint *e;
	struct proxy p;
	struct fabric f;

	start_recorded(&f, &p);
	e = tcp_endpoint_of(f.endpoint[1]);
	const int fd = repeat_hello(&f, &p, answer);
	e->pending[0]->handshake.deadline =
		tt_now() + 4 * SECOND; /* before that of all who come later */
	for (int i = 0; i < 2 * TCP_PENDING_MAX; i++)
		silent[i] = raw_connect(fabric_port(&f, 1));
	hangs_up(&f, silent[TCP_PENDING_MAX]);
	assert_int_equal(e->pending_count, TCP_PENDING_MAX);
	tt_confirm_write(&tt_tcp_protocol, &fabric_key, p.up, answer, confirm);
	raw_send(fd, confirm, sizeof(confirm));
	fabric_until(&f, keeps_the_link, &f);
	for (int i = 0; i < 2 * TCP_PENDING_MAX; i++)
		if (i != TCP_PENDING_MAX)
			close(silent[i]);
	close(fd);
	end_recorded(&f, &p);
}

TEST_WITH(who_said_hello_and_no_more_is_dropped_in_time, listen_to_log, leave_log)
{
	uint8_t answer[TT_ANSWER_BYTES];
	struct tcp_endpoint *e;
	struct proxy p;
	struct fabric f;

	start_recorded(&f, &p);
	e = tcp_endpoint_of(f.endpoint[1]);
	const int fd = repeat_hello(&f, &p, answer);
	raw_send(fd, p.up, TT_CONFIRM_BYTES - 1);
	assert_int_equal(e->pending_count, 1);
	tt_tcp_pending_expire(e, tt_now() + 11 * SECOND);
	hangs_up(&f, fd);
	assert_int_equal(e->pending_count, 0);
	end_recorded(&f, &p);
}
