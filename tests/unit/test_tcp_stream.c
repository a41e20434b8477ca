/* SPDX-License-Identifier: BSD-3-Clause */
/* Byte streams between ranks that are threads, each with its own endpoint, sleeping when nothing
 * moves: a lost wake-up sleeps past the test's time limit. */
#include <pthread.h>

#include "test_tcp_fabric.h"

#define STREAM_BYTES ((size_t)(3 << 20) + 12345)

static const struct tt_transport *const tcp = &tt_transport_tcp;

static uint8_t byte_at(int from, int to, size_t i)
{
	return (uint8_t)(((uint32_t)i * 2654435761u) >> 13 ^ (uint32_t)(from * 7 + to * 31));
}

/* One rank's part of the stream with one peer. */
struct side {
	struct tt_link *link;
	uint8_t *out, *in;
	size_t sent, got;
	uint32_t seed;
};

struct rank {
	struct fabric *fabric;
	int rank;
	pthread_t thread;
	struct side side[RANKS_MAX];
	size_t slept;
	bool failed;
};

static size_t odd_size(struct side *s, size_t most, size_t left)
{
	s->seed = s->seed * 1664525u + 1013904223u;
	const size_t n = 1 + (s->seed >> 8) % most;

	return n < left ? n : left;
}

static ssize_t send_some(struct side *s)
{
	const size_t left = STREAM_BYTES - s->sent;
	const size_t a = odd_size(s, 300000, left), b = odd_size(s, 77, left - a);
	const struct iovec iov[2] = { { s->out + s->sent, a }, { s->out + s->sent + a, b } };
	const ssize_t n = left ? tcp->write(s->link, iov, b ? 2 : 1) : 0;

	s->sent += n > 0 ? (size_t)n : 0;
	return n;
}

static ssize_t read_some(struct side *s)
{
	const size_t left = STREAM_BYTES - s->got;
	const size_t a = odd_size(s, 50000, left), b = odd_size(s, 200000, left - a);
	const struct iovec iov[2] = { { s->in + s->got, a }, { s->in + s->got + a, b } };
	const ssize_t n = left ? tcp->read(s->link, iov, b ? 2 : 1) : 0;

	s->got += n > 0 ? (size_t)n : 0;
	return n;
}

static ssize_t peek_some(struct side *s)
{
	const size_t left = STREAM_BYTES - s->got;
	const size_t want = odd_size(s, 4096, left), limit = want + odd_size(s, 100000, left);
	const void *data;
	ssize_t n = left ? tcp->peek(s->link, want, limit < left ? limit : left, &data) : 0;

	if (n <= 0 || (size_t)n < want)
		return n < 0 ? n : 0;
	n = (ssize_t)odd_size(s, (size_t)n, left);
	memcpy(s->in + s->got, data, (size_t)n);
	tcp->release(s->link, (size_t)n);
	s->got += (size_t)n;
	return n;
}

/* Bytes moved, or -1 if the rank has all it wants, or failed. */
static ssize_t pass(struct rank *r)
{
	ssize_t moved = 0;
	bool done = true;

	for (int peer = 0; peer < r->fabric->size; peer++) {
		struct side *s = &r->side[peer];

		if (!s->link)
			continue;
		const ssize_t out = send_some(s),
			      in = s->seed & 0x400 ? read_some(s) : peek_some(s);

		if (out < 0 || in < 0) {
			r->failed = true;
			return -1;
		}
		moved += out + in;
		done &= s->sent == STREAM_BYTES && s->got == STREAM_BYTES;
	}
	return done ? -1 : moved;
}

static void *exchange(void *arg)
{
	struct rank *r = arg;
	struct tt_endpoint *e = r->fabric->endpoint[r->rank];
	ssize_t moved;

	for (;;) {
		tcp->progress(e, false);
		moved = pass(r);
		if (moved < 0)
			return NULL;
		if (moved > 0)
			continue;
		tcp->progress(e, true);
		tcp->doorbell->arm(e);
		moved = pass(r);
		if (moved == 0) {
			tcp->doorbell->sleep(e, -1);
			r->slept++;
		}
		tcp->doorbell->disarm(e);
		if (moved < 0)
			return NULL;
	}
}

static void open_side(struct rank *r, int peer)
{
	struct side *s = &r->side[peer];

	assert_int_equal(
		tcp->connect(r->fabric->endpoint[r->rank], peer, TT_CHANNEL_COLLECTIVE, &s->link),
		TUTTI_OK);
	s->seed = (uint32_t)(r->rank * 100 + peer);
	s->out = malloc(STREAM_BYTES);
	s->in = malloc(STREAM_BYTES);
	assert_non_null(s->out);
	assert_non_null(s->in);
	for (size_t i = 0; i < STREAM_BYTES; i++)
		s->out[i] = byte_at(r->rank, peer, i);
}

static void check_side(struct rank *r, int peer)
{
	struct side *s = &r->side[peer];
	size_t wrong = 0;

	for (size_t i = 0; i < STREAM_BYTES; i++)
		wrong += s->in[i] != byte_at(peer, r->rank, i);
	assert_int_equal(wrong, 0);
	tcp->close(s->link);
	free(s->out);
	free(s->in);
}

static void all_exchange(int size, int family)
{
	struct fabric f;
	struct rank ranks[RANKS_MAX] = { 0 };

	fabric_start(&f, size, family);
	for (int i = 0; i < size; i++) {
		ranks[i].fabric = &f;
		ranks[i].rank = i;
		for (int peer = 0; peer < size; peer++)
			if (peer != i)
				open_side(&ranks[i], peer);
	}
	for (int i = 0; i < size; i++)
		assert_int_equal(pthread_create(&ranks[i].thread, NULL, exchange, &ranks[i]), 0);
	for (int i = 0; i < size; i++)
		pthread_join(ranks[i].thread, NULL);
	for (int i = 0; i < size; i++) {
		assert_false(ranks[i].failed);
		for (int peer = 0; peer < size; peer++)
			if (peer != i)
				check_side(&ranks[i], peer);
	}
	fabric_stop(&f);
}

TEST(two_ranks_exchange_over_ipv4)
{
	all_exchange(2, 4);
}

TEST(two_ranks_exchange_over_ipv6)
{
	all_exchange(2, 6);
}

TEST(four_ranks_exchange_all_to_all)
{
	all_exchange(4, 0);
}
