/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims on what goes through links: bytes come out in the order they went in, none more and none
 * less. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "transport_suite_rank.h"

#define LONGEST	   (4u << 20)
#define MEBIBYTE   (1u << 20)
#define FULL_LIMIT (1u << 28) /* a link that takes more has no bound */
#define FULL_TRIES 2000	      /* refusals in a row before it counts as full */

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

static void bytes_come_out_in_order_and_whole(struct suite_rank *rank)
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

static void wanted_bytes_come_in_one_piece(struct suite_rank *rank)
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

/* Peek again and again while bytes come; then wait for all in one piece, and only then release. */
static void peek_shows_the_same_bytes_or_more(struct suite_rank *rank)
{
	struct tt_link *link = suite_connect(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE);
	struct suite_stream stream = suite_stream(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE,
						  rank->rank == 0 ? SUITE_WANT_MAX : 0,
						  rank->rank == 0 ? 0 : SUITE_WANT_MAX);
	ssize_t shown = 0;
	const void *data;

	if (rank->rank == 0) {
		suite_pump(rank, &stream, 1, "writing what is peeked at");
		suite_post(rank, SUITE_EVENT);
		suite_barrier(rank);
		return;
	}
	while (suite_value(rank, SUITE_EVENT) == 0) {
		const ssize_t before = shown;

		shown = rank->ops->peek(link, 1, SUITE_WANT_MAX, &data);
		suite_at(rank, "peeking: %zd bytes seen", before);
		suite_require(rank, shown >= before, "peek() showed %zd bytes after %zd: %s", shown,
			      before, tt_thread_error());
		rank->ops->progress(rank->endpoint, false);
	}
	do {
		suite_at(rank, "peeking at all bytes: %zd seen", shown);
		rank->ops->progress(rank->endpoint, true);
		shown = rank->ops->peek(link, SUITE_WANT_MAX, SUITE_WANT_MAX, &data);
	} while (shown >= 0 && shown < (ssize_t)SUITE_WANT_MAX);
	stream.peek_only = true; /* the bytes are all still there, and right */
	suite_pump(rank, &stream, 1, "releasing what was peeked at");
	suite_barrier(rank);
}

/* Write bytes (of the stream's seed) until the link takes no more; how many. */
static size_t fill(struct suite_rank *rank, struct suite_stream *stream)
{
	stream->out_total = FULL_LIMIT;
	for (int refused = 0; refused < FULL_TRIES; refused++) {
		rank->ops->progress(rank->endpoint, false);
		if (suite_stream_pass(rank, stream))
			refused = 0;
		suite_require(rank, stream->out_done < FULL_LIMIT / 2,
			      "the link took %zu bytes that nobody reads", stream->out_done);
		if (refused == 0)
			suite_at(rank, "filling a link: %zu bytes", stream->out_done);
	}
	suite_stream_end_writing(stream);
	return stream->out_total;
}

static void wait_until_ready(struct suite_rank *rank, struct tt_link *link)
{
	while (!rank->ops->ready(link)) {
		suite_at(rank, "waiting for the link with rank %d to be ready", link->peer);
		rank->ops->progress(rank->endpoint, true);
	}
	suite_barrier(rank);
}

static void full_link_takes_nothing_and_resumes(struct suite_rank *rank)
{
	struct tt_link *link = suite_connect(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE);
	struct suite_stream stream =
		suite_stream(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, 0, 0);

	wait_until_ready(rank, link);
	if (rank->rank == 0) {
		suite_set(rank, SUITE_FIRST_FREE, fill(rank, &stream) + MEBIBYTE);
		suite_require(rank, stream.out_done > 0, "a link that is ready takes no bytes");
		stream.out_total += MEBIBYTE;
		suite_set(rank, SUITE_EVENT, 1);
	} else {
		suite_await(rank, SUITE_EVENT, 1);
		stream.in_total = (size_t)suite_value(rank, SUITE_FIRST_FREE);
	}
	suite_pump(rank, &stream, 1, "resuming a link that was full");
	suite_barrier(rank);
}

static void full_channel_does_not_stop_the_other(struct suite_rank *rank)
{
	const int peer = 1 - rank->rank;
	size_t filled = 0;

	suite_connect_all(rank);
	wait_until_ready(rank, rank->links[peer][TT_CHANNEL_P2P]);
	struct suite_stream full = suite_stream(rank, peer, TT_CHANNEL_P2P, 0, 0);
	struct suite_stream free_channel =
		suite_stream(rank, peer, TT_CHANNEL_COLLECTIVE, MEBIBYTE, MEBIBYTE);

	filled = fill(rank, &full);
	suite_set(rank, SUITE_FIRST_FREE + rank->rank, filled);
	suite_barrier(rank);
	suite_pump(rank, &free_channel, 1, "a channel beside a full one");
	suite_barrier(rank);
	full.in_total = (size_t)suite_value(rank, SUITE_FIRST_FREE + peer);
	suite_pump(rank, &full, 1, "draining the full channel");
	suite_barrier(rank);
}

/* ---- many bytes at once, which a transport may move straight from one caller's memory into the
 * other's */

#define HEAD_BYTES 64 /* of a message, peeked at before the rest is read */

struct long_message {
	struct tt_link *link;
	uint8_t *out, *in;
	size_t bytes, written, read; /* of each; the first two with the head */
};

static uint8_t byte_at(int from, size_t bytes, size_t i)
{
	return (uint8_t)(i * 7 + i / 251 + bytes + (size_t)from);
}

static bool write_long(struct suite_rank *rank, struct long_message *message)
{
	const size_t head = message->written < HEAD_BYTES ? HEAD_BYTES - message->written : 0;
	const struct iovec iov[] = { { message->out + message->written, head },
				     { message->out + message->written + head,
				       message->bytes - message->written - head } };

	if (message->written == message->bytes)
		return false;
	const ssize_t moved = head ? rank->ops->write(message->link, iov, 2)
				   : rank->ops->write(message->link, iov + 1, 1);
	suite_require(rank, moved >= 0, "write: %s", tt_thread_error());
	message->written += (size_t)moved;
	return moved > 0;
}

static bool read_long(struct suite_rank *rank, struct long_message *message)
{
	const struct iovec rest = { message->in + message->read, message->bytes - message->read };
	const void *head;
	ssize_t moved;

	if (message->read == message->bytes)
		return false;
	if (message->read > 0) {
		moved = rank->ops->read(message->link, &rest, 1);
	} else {
		moved = rank->ops->peek(message->link, HEAD_BYTES, HEAD_BYTES, &head);
		if (moved >= 0 && moved < HEAD_BYTES)
			return false;
		if (moved == HEAD_BYTES) {
			memcpy(message->in, head, HEAD_BYTES);
			rank->ops->release(message->link, HEAD_BYTES);
		}
	}
	suite_require(rank, moved >= 0, "read: %s", tt_thread_error());
	message->read += (size_t)moved;
	return moved > 0;
}

static bool long_pass(struct suite_rank *rank, void *context)
{
	struct long_message *message = context;
	const bool wrote = write_long(rank, message);

	return read_long(rank, message) || wrote;
}

/* The memory is new for each message, and likely to be where the last one was. */
void suite_exchange_long(struct suite_rank *rank, struct tt_link *link, size_t bytes,
			 void (*midway)(struct suite_rank *rank))
{
	struct long_message message = { link, malloc(bytes), calloc(1, bytes), bytes, 0, 0 };
	int idle = 0;

	suite_require(rank, message.out && message.in, "no memory of %zu bytes", bytes);
	for (size_t i = 0; i < bytes; i++)
		message.out[i] = byte_at(rank->rank, bytes, i);
	while (midway || message.written < bytes ||
	       message.read < bytes) { /* all may have come at once */
		suite_at(rank, "a message of %zu bytes: wrote %zu, read %zu", bytes,
			 message.written, message.read);
		rank->ops->progress(rank->endpoint, false);
		if (midway && message.read >= bytes / 2) {
			midway(rank);
			midway = NULL;
		}
		if (long_pass(rank, &message))
			idle = 0;
		else if (++idle > 100)
			suite_sleep(rank, long_pass, &message, bytes % 2, "a long message");
	}
	memset(message.out, 0xff, bytes); /* it is ours again */
	for (size_t i = 0; i < bytes; i++)
		suite_require(rank, message.in[i] == byte_at(1 - rank->rank, bytes, i),
			      "byte %zu of %zu is %d, expected %d", i, bytes, message.in[i],
			      byte_at(1 - rank->rank, bytes, i));
	free(message.out);
	free(message.in);
}

static void long_messages_arrive_whole(struct suite_rank *rank)
{
	const size_t most = longest(rank);
	struct tt_link *link = suite_connect(rank, 1 - rank->rank, TT_CHANNEL_P2P);

	for (size_t bytes = 65536 + HEAD_BYTES; bytes <= most; bytes += bytes + 4099)
		for (int again = 0; again < 3; again++)
			suite_exchange_long(rank, link, bytes, NULL);
	suite_barrier(rank);
}

const struct suite_claim suite_bytes_claims[] = {
	{ "bytes_come_out_in_order_and_whole", 2, SUITE_NOTHING,
	  bytes_come_out_in_order_and_whole },
	{ "wanted_bytes_come_in_one_piece", 2, SUITE_NOTHING, wanted_bytes_come_in_one_piece },
	{ "peek_shows_the_same_bytes_or_more", 2, SUITE_NOTHING,
	  peek_shows_the_same_bytes_or_more },
	{ "long_messages_arrive_whole", 2, SUITE_NOTHING, long_messages_arrive_whole },
	{ "full_link_takes_nothing_and_resumes", 2, SUITE_NOTHING,
	  full_link_takes_nothing_and_resumes },
	{ "full_lane_does_not_stop_the_other", 2, SUITE_NOTHING,
	  full_channel_does_not_stop_the_other },
	{ 0 },
};
