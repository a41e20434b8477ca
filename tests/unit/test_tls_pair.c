/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the wire between two ends of TLS. */
#include "test_tls_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test_raw.h"

#define PATIENCE_MS 20000

static void open_tcp(int fds[2])
{
	int port = 0;
	const int listener = raw_listen(&port, 1);

	fds[0] = raw_connect(port);
	fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	close(listener);
}

void open_sockets(int domain, int fds[2])
{
	if (domain == AF_UNIX)
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	else
		open_tcp(fds);
}

static void open_end(struct end *end, int domain, const struct tt_key *key, bool dials)
{
	int fds[2];

	open_sockets(domain, fds);
	end->fd = fds[0];
	end->connection = fds[1];
	end->result = TUTTI_IN_PROGRESS;
	if (!key)
		return;
	assert_ok(tt_tls_open(key, "connections", &end->tls));
	assert_ok(tt_tls_stream_open(end->tls, end->fd, dials, -1, &end->stream));
}

void pair_open(struct pair *p, const int domain[2], const struct tt_key *dialer,
	       const struct tt_key *listener)
{
	*p = (struct pair){ .piece = PIECE_MAX };
	open_end(&p->end[0], domain[0], dialer, true);
	open_end(&p->end[1], domain[1], listener, false);
}

void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		tt_tls_stream_close(p->end[i].stream);
		tt_tls_close(p->end[i].tls);
		close(p->end[i].fd);
		close(p->end[i].connection);
	}
	free(p->seen);
}

static void note(struct pair *p, const uint8_t *bytes, size_t n)
{
	if (p->seen_bytes + n > p->seen_capacity) {
		p->seen_capacity = 2 * (p->seen_bytes + n);
		p->seen = realloc(p->seen, p->seen_capacity);
		assert_non_null(p->seen);
	}
	memcpy(p->seen + p->seen_bytes, bytes, n);
	p->seen_bytes += n;
}

bool carry(struct pair *p)
{
	bool any = false;

	for (int from = 0; from < 2; from++) {
		struct hand *hand = &p->hand[from];

		if (hand->begin == hand->end) {
			const ssize_t n = recv(p->end[from].connection, hand->bytes, p->piece, 0);

			if (n <= 0)
				continue;
			hand->begin = 0;
			hand->end = (size_t)n;
			note(p, hand->bytes, (size_t)n);
		}
		const ssize_t sent = send(p->end[!from].connection, hand->bytes + hand->begin,
					  hand->end - hand->begin, MSG_NOSIGNAL);

		if (sent > 0)
			hand->begin += (size_t)sent;
		else if (errno != EAGAIN)
			hand->begin = hand->end; /* closed */
		any = true;
	}
	return any;
}

void step(struct end *end)
{
	if (end->result != TUTTI_IN_PROGRESS || !end->stream)
		return;
	end->result = tt_tls_handshake(end->stream);
	if (end->result < 0) {
		strncpy(end->why, tt_thread_error(), sizeof(end->why) - 1);
		shutdown(end->fd, SHUT_WR);
	}
}

void wait_for_bytes(const struct pair *p)
{
	struct pollfd fds[4];

	for (int i = 0; i < 2; i++) {
		fds[2 * i] = (struct pollfd){ .fd = p->end[i].fd, .events = POLLIN };
		fds[2 * i + 1] = (struct pollfd){ .fd = p->end[i].connection, .events = POLLIN };
	}
	for (int from = 0; from < 2; from++)
		if (p->hand[from].begin < p->hand[from].end)
			fds[2 * !from + 1].events |= POLLOUT;
	assert_true(poll(fds, 4, PATIENCE_MS) > 0);
}

ssize_t write_bytes(struct end *end, const void *bytes, size_t length)
{
	const struct iovec iov = { (void *)(uintptr_t)bytes, length };

	return tt_tls_write(end->stream, &iov, 1);
}

ssize_t read_bytes(struct end *end, void *bytes, size_t length)
{
	const struct iovec iov = { bytes, length };

	return tt_tls_read(end->stream, &iov, 1);
}

bool seen(const struct pair *p, const char *text)
{
	return memmem(p->seen, p->seen_bytes, text, strlen(text)) != NULL;
}

#define LONG (3u << 20)

static uint8_t byte_at(int from, size_t at)
{
	return (uint8_t)(at * 31 + at / 4096 + (size_t)from);
}

struct flow {
	uint8_t *out, *in;
	size_t written, read, turn;
};

/* Cards and payloads: some short pieces, one of several records. */
static void push(struct end *end, struct flow *flow)
{
	const size_t left = LONG - flow->written, first = left < 64 ? left : 64;
	const size_t most = flow->turn++ % 3 ? 70000 : 100,
		     rest = left - first < most ? left - first : most;
	const struct iovec iov[] = { { flow->out + flow->written, first },
				     { NULL, 0 },
				     { flow->out + flow->written + first, rest } };
	const ssize_t n = left ? tt_tls_write(end->stream, iov, 3) : 0;

	assert_true(n >= 0 || errno == EAGAIN);
	flow->written += n > 0 ? (size_t)n : 0;
}

static void pull(struct end *end, struct flow *flow)
{
	const size_t left = LONG - flow->read, some = left < 50000 ? left : 50000;
	const struct iovec iov[] = { { flow->in + flow->read, some / 3 },
				     { flow->in + flow->read + some / 3, some - some / 3 } };
	const ssize_t n = left ? tt_tls_read(end->stream, iov, 2) : 0;

	assert_true(n >= 0 || errno == EAGAIN);
	flow->read += n > 0 ? (size_t)n : 0;
}

void pass_long_streams(struct pair *p)
{
	struct flow flows[2];

	for (int i = 0; i < 2; i++) {
		flows[i] = (struct flow){ malloc(LONG), calloc(1, LONG), 0, 0, 0 };
		assert_true(flows[i].out && flows[i].in);
		for (size_t at = 0; at < LONG; at++)
			flows[i].out[at] = byte_at(i, at);
	}
	p->piece = 9973; /* so that sockets fill, and records come in parts */
	while (flows[0].read < LONG || flows[1].read < LONG) {
		for (int i = 0; i < 2; i++) {
			push(&p->end[i], &flows[i]);
			pull(&p->end[i], &flows[i]);
		}
		if (!carry(p) && (flows[0].read < LONG || flows[1].read < LONG))
			wait_for_bytes(p);
	}
	for (int i = 0; i < 2; i++)
		assert_memory_equal(flows[i].in, flows[!i].out, LONG);
	for (int i = 0; i < 2; i++) {
		free(flows[i].out);
		free(flows[i].in);
	}
}
