/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts messages on a stream. Where ranks meet inside kernels, one kernel has the next message of every
 * channel that has one, and brings all of them to their end at once. As channels keep the order of
 * their messages, the one that is in a rank's first, second, … kernel is in its peer's, too: no
 * message waits for one of a later kernel.
 *
 * Where processes share a GPU, a kernel has one chunk, and streams wait before it. Chunks take turns,
 * first all sends' and then all receives', one with each peer: it waits for the peer to have taken the
 * one before, which the peer does before it sends its next. So none waits for another peer's
 * message, as long as the peers' turns are made alike: one whose calls are in no group may stand
 * between two chunks of a long message until a third rank comes, and with it all that is behind on
 * this rank's stream. */
#include <stddef.h>
#include <string.h>

#include "bound.h"
#include "module.h"
#include "words.h"

static_assert(offsetof(struct tt_op_header, count) == TT_CUDA_HEADER_COUNT &&
		      sizeof(struct tt_op_header) == TT_CUDA_HEADER,
	      "kernels know headers");

/* What both ends of a message have to call alike. */
static struct tt_op_header header_of(const struct tt_cuda_op *op,
				     const struct tt_cuda_message *message)
{
	struct tt_op_header header = tt_op_header_of_call(op->cuda->comm, message->call);

	header.count = message->bytes / tutti_dtype_size(message->call->dtype);
	if (message->call->collective == TT_SEND_RECV) /* there it is the peer */
		header.root = -1;
	return header;
}

/* The number of the header among the post's; of too many different ones the last stands for others,
 * in error messages alone. */
static uint8_t add_header(struct tt_cuda_post *post, struct tt_op_header header)
{
	uint32_t i = 0;

	header.count = 0;
	while (i < post->headers && memcmp(post->header[i], &header, sizeof(header)) != 0)
		i++;
	if (i == TT_CUDA_HEADERS)
		return TT_CUDA_HEADERS - 1;
	if (i == post->headers)
		memcpy(post->header[post->headers++], &header, sizeof(header));
	return (uint8_t)i;
}

/* `bytes` of the message from what has been done on. */
static void add_letter(const struct tt_cuda_op *op, struct tt_cuda_post *post,
		       const struct tt_cuda_message *message, size_t bytes)
{
	struct tt_op_header header = header_of(op, message);
	const uint64_t signature = tt_op_header_signature(&header);

	header.seq = op->cuda->calls;
	post->letter[post->letters++] = (struct tt_cuda_letter){
		.buffer = cuda_pointer(message->buffer + message->done),
		.bytes = bytes,
		.signature = signature + message->chunks,
		.count = header.count,
		.peer = (uint16_t)message->peer,
		.sending = message->sending,
		.header = add_header(post, header),
	};
}

/* ---- inside kernels */

/* The first message of each channel that is still to come. */
static bool put_next(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n,
		     cuda_result *error)
{
	bool had[2][TT_CUDA_RANKS] = { { false } };
	struct tt_cuda_post post = { .letters = 0 };

	for (size_t i = 0; i < n; i++) {
		struct tt_cuda_message *message = &messages[i];
		bool *channel = &had[message->sending][message->peer];

		if (message->chunks > 0 || *channel)
			continue;
		add_letter(op, &post, message, message->bytes);
		*channel = true;
		message->chunks = 1;
	}
	if (post.letters > 0)
		*error = tt_cuda_launch_post(op, &post);
	return post.letters > 0;
}

/* ---- between kernels */

static size_t chunk_of(const struct tt_cuda_message *message)
{
	const size_t left = message->bytes - message->done;

	return left < TT_CUDA_ROOM_BYTES ? left : TT_CUDA_ROOM_BYTES;
}

/* One without bytes has a chunk, too, so that ranks whose counts differ find out. */
static bool ended(const struct tt_cuda_message *message)
{
	return message->chunks > 0 && message->done == message->bytes;
}

static cuda_result put_chunk(struct tt_cuda_op *op, struct tt_cuda_message *message)
{
	const size_t bytes = chunk_of(message);
	struct tt_cuda_post post = { .letters = 0 };

	add_letter(op, &post, message, bytes);
	cuda_result error = tt_cuda_words_await_chunk(op, message->peer, message->sending);
	if (!error)
		error = tt_cuda_launch_post(op, &post);
	if (!error)
		error = tt_cuda_words_post_chunk(op, message->peer, message->sending);
	message->done += bytes;
	message->chunks++;
	return error;
}

/* With each peer one chunk at most: that of the first message which is not ended. */
static cuda_result put_turn(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n,
			    bool sending, bool *more)
{
	bool had[TT_CUDA_RANKS] = { false };
	cuda_result error = 0;

	for (size_t i = 0; i < n && !error; i++) {
		if (messages[i].sending != sending || ended(&messages[i]))
			continue;
		if (!had[messages[i].peer])
			error = put_chunk(op, &messages[i]);
		had[messages[i].peer] = true;
		*more |= !ended(&messages[i]);
	}
	return error;
}

cuda_result tt_cuda_messages(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n)
{
	cuda_result error = tt_cuda_flush(op); /* what the rank hands to itself */

	if (op->cuda->meets) {
		while (!error && put_next(op, messages, n, &error))
			;
		return error;
	}
	for (bool more = n > 0; more && !error;) {
		more = false;
		error = put_turn(op, messages, n, true, &more);
		if (!error)
			error = put_turn(op, messages, n, false, &more);
	}
	return error;
}
