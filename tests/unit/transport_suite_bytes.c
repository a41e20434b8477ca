/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims on what goes through links: bytes come out in the order they went in, none more and none
 * less. */
#include "log.h"
#include "transport_suite.h"

#define LONGEST	 (4u << 20)
#define MEBIBYTE (1u << 20)

static size_t longest(const struct suite_rank *rank)
{
	return rank->options->longest > 0 ? rank->options->longest : LONGEST;
}

/* Sizes around what implementations round to, then any. Both ranks compute the same. */
static size_t nth_size(const struct suite_rank *rank, unsigned n)
{
	static const size_t edges[] = { 1, 2, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537 };
	const unsigned known = sizeof(edges) / sizeof(edges[0]);
	size_t size;

	if (n < known)
		size = edges[n];
	else if (n % 4 == 3)
		size = longest(rank);
	else
		size = 1 + (size_t)((n * 2654435761u) % MEBIBYTE);
	return size < longest(rank) ? size : longest(rank);
}

SUITE_CLAIM(bytes_come_out_in_order_and_whole, 2, SUITE_NOTHING)
{
	const int peer = 1 - rank->rank;

	suite_connect_all(rank);
	for (unsigned n = 0; n < 16; n++) {
		const size_t here = nth_size(rank, n), there = nth_size(rank, (n * 5 + 3) % 16);
		const size_t out = rank->rank == 0 ? here : there;
		const size_t in = rank->rank == 0 ? there : here;
		struct suite_stream streams[TT_CHANNELS] = {
			suite_stream(rank, peer, TT_CHANNEL_COLLECTIVE, out, in),
			suite_stream(rank, peer, TT_CHANNEL_P2P, in, out),
			suite_stream(rank, peer, TT_CHANNEL_CONTROL, out / 2, in / 2),
		};

		/* the second channel's sizes are the other way round on the other rank, too */
		suite_pump(rank, streams, TT_CHANNELS, "all lanes in both directions");
	}
	suite_barrier(rank);
}

SUITE_CLAIM(wanted_bytes_come_in_one_piece, 2, SUITE_NOTHING)
{
	const size_t bytes = longest(rank) / 4;

	suite_connect(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE);
	struct suite_stream stream =
		suite_stream(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE,
			     rank->rank == 0 ? bytes : 0, rank->rank == 0 ? 0 : bytes);

	stream.peek_only = true;
	suite_pump(rank, &stream, 1, "peeking at all bytes");
	suite_barrier(rank);
}

SUITE_CLAIM(full_lane_does_not_stop_the_other, 2, SUITE_NOTHING)
{
	const int peer = 1 - rank->rank;

	suite_connect(rank, peer, TT_CHANNEL_COLLECTIVE);
	suite_connect_up(rank, TT_CHANNEL_P2P);
	struct suite_stream full = suite_stream(rank, peer, TT_CHANNEL_P2P, 0, 0);
	struct suite_stream free_channel =
		suite_stream(rank, peer, TT_CHANNEL_COLLECTIVE, MEBIBYTE, MEBIBYTE);

	suite_stream_fill(rank, &full);
	suite_set(rank, SUITE_FIRST_FREE + rank->rank, full.out_total);
	suite_barrier(rank);
	suite_pump(rank, &free_channel, 1, "a channel beside a full one");
	suite_barrier(rank);
	full.in_total = (size_t)suite_value(rank, SUITE_FIRST_FREE + peer);
	suite_pump(rank, &full, 1, "draining the full channel");
	suite_barrier(rank);
}

/* ---- many bytes at once, which a transport may move straight from one caller's memory into the
 * other's */

void suite_exchange_long(struct suite_rank *rank, size_t bytes,
			 void (*midway)(struct suite_rank *rank))
{
	struct suite_stream stream =
		suite_stream(rank, 1 - rank->rank, TT_CHANNEL_P2P, bytes, bytes);

	stream.whole = true;
	while (midway && stream.in_done < bytes / 2) {
		suite_at(rank, "a message of %zu bytes: read %zu", bytes, stream.in_done);
		rank->ops->progress(rank->endpoint, true); /* the peer may be midway already */
		suite_stream_pass(rank, &stream);
	}
	if (midway)
		midway(rank);
	suite_pump(rank, &stream, 1, "a long message");
}

SUITE_CLAIM(long_messages_arrive_whole, 2, SUITE_NOTHING)
{
	const size_t most = longest(rank);

	suite_connect(rank, 1 - rank->rank, TT_CHANNEL_P2P);
	for (size_t bytes = 65536; bytes <= most; bytes += bytes + 4099)
		for (int again = 0; again < 3; again++)
			suite_exchange_long(rank, bytes, NULL);
	suite_barrier(rank);
}
