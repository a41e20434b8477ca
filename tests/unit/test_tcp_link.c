/* SPDX-License-Identifier: BSD-3-Clause */
/* One link at a time: when it comes up, what peek and read give, what closing leaves. */
#include "test_tcp_fabric.h"

static const struct tt_transport *const tcp = &tt_transport_tcp;

static ssize_t put(struct tt_link *link, const void *bytes, size_t length)
{
	const struct iovec iov = { (void *)bytes, length };

	return tcp->write(link, &iov, 1);
}

struct peeking {
	struct tt_link *link;
	size_t want, limit;
	const uint8_t *data;
	ssize_t n;
};

static bool peeked(void *arg)
{
	struct peeking *p = arg;
	const void *data = NULL;

	p->n = tcp->peek(p->link, p->want, p->limit, &data);
	p->data = data;
	return p->n < 0 || (size_t)p->n >= p->want;
}

static void peek(struct fabric *f, struct peeking *p, size_t want, size_t limit)
{
	p->want = want;
	p->limit = limit;
	fabric_until(f, peeked, p);
	assert_true(p->n > 0);
}

struct taking {
	struct tt_link *link;
	uint8_t *to;
	size_t left;
};

static bool taken(void *arg)
{
	struct taking *t = arg;
	const struct iovec iov = { t->to, t->left };
	const ssize_t n = tcp->read(t->link, &iov, 1);

	assert_true(n >= 0);
	t->to += n;
	t->left -= (size_t)n;
	return t->left == 0;
}

static void take(struct fabric *f, struct tt_link *link, void *to, size_t bytes)
{
	struct taking t = { link, to, bytes };

	fabric_until(f, taken, &t);
}

TEST(a_peek_is_seen_again_until_released)
{
	struct peeking p = { 0 };
	struct tt_link *a, *b;
	struct fabric f;
	char rest[4];

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &a, &b);
	assert_int_equal(put(a, "abcdefgh", 8), 8);
	p.link = b;
	peek(&f, &p, 8, 100);
	assert_int_equal(p.n, 8);
	assert_memory_equal(p.data, "abcdefgh", 8);
	tcp->release(b, 3);
	peek(&f, &p, 1, 4);
	assert_int_equal(p.n, 4);
	assert_memory_equal(p.data, "defg", 4);
	tcp->release(b, 1);
	take(&f, b, rest, 4);
	assert_memory_equal(rest, "efgh", 4);
	tcp->close(a);
	tcp->close(b);
	fabric_stop(&f);
}

TEST(a_peek_looks_no_further_than_its_limit)
{
	struct peeking p = { 0 };
	struct tt_link *a, *b;
	struct fabric f;
	char card[64], rest[36];

	memset(card, 'c', sizeof(card));
	memset(card + 64 - 36, 'r', 36);
	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &a, &b);
	assert_int_equal(put(a, card, 64), 64);
	p.link = b;
	peek(&f, &p, 28, 28);
	assert_int_equal(p.n, 28);
	tcp->release(b, 28);
	/* nothing was taken in beyond the limit: the next bytes are received where they are wanted
	 */
	take(&f, b, rest, 36);
	assert_memory_equal(rest, card + 28, 36);
	tcp->close(a);
	tcp->close(b);
	fabric_stop(&f);
}

/* Elements of 12 bytes that never line up with what arrives at a time, across the end of scratch
 * many times. */
TEST(wanted_bytes_are_contiguous)
{
	const size_t total = (size_t)12 << 16;
	struct peeking p = { 0 };
	struct tt_link *a, *b;
	struct fabric f;
	uint32_t *out = malloc(total);
	size_t sent = 0, got = 0;

	assert_non_null(out);
	for (size_t i = 0; i < total / 4; i++)
		out[i] = (uint32_t)i * 2654435761u;
	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &a, &b);
	p.link = b;
	while (got < total) {
		const size_t left = total - sent, n = left < 10007 ? left : 10007;
		const ssize_t moved = left ? put(a, (uint8_t *)out + sent, n) : 0;

		assert_true(moved >= 0);
		sent += (size_t)moved;
		if (sent < got + 12)
			continue;
		peek(&f, &p, 12, total - got);
		const size_t whole = (size_t)p.n / 12 * 12;
		assert_memory_equal(p.data, (uint8_t *)out + got, whole);
		tcp->release(b, whole);
		got += whole;
	}
	free(out);
	tcp->close(a);
	tcp->close(b);
	fabric_stop(&f);
}

TEST(a_connection_is_kept_until_its_link_is_asked_for)
{
	struct tt_link *a, *b, *links[2];
	struct fabric f;
	char bytes[5];

	fabric_start(&f, 2, 0);
	assert_int_equal(tcp->connect(f.endpoint[0], 1, TT_CHANNEL_P2P, &a), TUTTI_OK);
	assert_int_equal(put(a, "early", 5), 0);
	assert_false(tcp->ready(a));
	while (!tcp->ready(a)) {
		tcp->progress(f.endpoint[0], false);
		tcp->progress(f.endpoint[1], true);
	}
	assert_int_equal(put(a, "early", 5), 5);
	tcp->close(a);
	assert_int_equal(tcp->connect(f.endpoint[1], 0, TT_CHANNEL_P2P, &b), TUTTI_OK);
	assert_true(tcp->ready(b));
	take(&f, b, bytes, 5);
	assert_memory_equal(bytes, "early", 5);
	tcp->close(b);
	/* and one that is never asked for is closed in the end */
	assert_int_equal(tcp->connect(f.endpoint[0], 1, TT_CHANNEL_P2P, &links[0]), TUTTI_OK);
	while (!tcp->ready(links[0])) {
		tcp->progress(f.endpoint[0], false);
		tcp->progress(f.endpoint[1], true);
	}
	tcp->close(links[0]);
	fabric_stop(&f);
}

TEST(channels_are_apart)
{
	struct tt_link *a[TT_CHANNELS], *b[TT_CHANNELS];
	struct fabric f;
	char bytes[3];

	fabric_start(&f, 2, 0);
	for (int channel = 0; channel < TT_CHANNELS; channel++) {
		assert_int_equal(tcp->connect(f.endpoint[1], 0, channel, &b[channel]), TUTTI_OK);
		assert_int_equal(tcp->connect(f.endpoint[0], 1, channel, &a[channel]), TUTTI_OK);
	}
	while (!tcp->ready(a[0]) || !tcp->ready(a[1]) || !tcp->ready(b[0]) || !tcp->ready(b[1])) {
		tcp->progress(f.endpoint[0], false);
		tcp->progress(f.endpoint[1], false);
	}
	assert_int_equal(put(a[TT_CHANNEL_P2P], "p2p", 3), 3);
	assert_int_equal(put(b[TT_CHANNEL_COLLECTIVE], "all", 3), 3);
	take(&f, b[TT_CHANNEL_P2P], bytes, 3);
	assert_memory_equal(bytes, "p2p", 3);
	take(&f, a[TT_CHANNEL_COLLECTIVE], bytes, 3);
	assert_memory_equal(bytes, "all", 3);
	for (int channel = 0; channel < TT_CHANNELS; channel++) {
		tcp->close(a[channel]);
		tcp->close(b[channel]);
	}
	fabric_stop(&f);
}

/* The kernel would reset the connection, and drop what was written, if the unread bytes were left.
 */
TEST(written_bytes_arrive_although_unread_ones_were_there)
{
	const size_t total = 60000;
	struct tt_link *a, *b;
	struct fabric f;
	uint8_t *bytes = calloc(1, total);

	assert_non_null(bytes);
	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &a, &b);
	assert_int_equal(put(b, "unread", 6), 6);
	assert_int_equal(put(a, bytes, total), total);
	tcp->close(a);
	tcp->destroy(f.endpoint[0]);
	f.endpoint[0] = NULL;
	memset(bytes, 1, total);
	take(&f, b, bytes, total);
	for (size_t i = 0; i < total; i++)
		assert_int_equal(bytes[i], 0);
	free(bytes);
	tcp->close(b);
	fabric_stop(&f);
}

TEST(a_link_may_be_closed_before_it_is_up)
{
	struct tt_link *low, *high;
	struct fabric f;

	fabric_start(&f, 2, 0);
	assert_int_equal(tcp->connect(f.endpoint[0], 1, TT_CHANNEL_COLLECTIVE, &low), TUTTI_OK);
	assert_int_equal(tcp->connect(f.endpoint[1], 0, TT_CHANNEL_COLLECTIVE, &high), TUTTI_OK);
	tcp->close(low);
	tcp->close(high);
	tcp->close(NULL);
	fabric_stop(&f);
}
