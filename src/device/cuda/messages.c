/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts messages on a stream. One kernel has the next message of every channel that has one, and
 * brings all of them to their end at once. As channels keep the order of their messages, the one that
 * is in a rank's first, second, … kernel is in its peer's, too: no message waits for one of a later
 * kernel. */
#include <stddef.h>
#include <string.h>

#include "bound.h"

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

static void add_letter(const struct tt_cuda_op *op, struct tt_cuda_post *post,
		       const struct tt_cuda_message *message)
{
	struct tt_op_header header = header_of(op, message);
	const uint64_t signature = tt_op_header_signature(&header);

	header.seq = op->cuda->calls;
	post->letter[post->letters++] = (struct tt_cuda_letter){
		.buffer = cuda_pointer(message->buffer),
		.bytes = message->bytes,
		.signature = signature,
		.count = header.count,
		.peer = (uint16_t)message->peer,
		.sending = message->sending,
		.header = add_header(post, header),
	};
}

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
		add_letter(op, &post, message);
		*channel = true;
		message->chunks = 1;
	}
	if (post.letters > 0)
		*error = tt_cuda_launch_post(op, &post);
	return post.letters > 0;
}

cuda_result tt_cuda_messages(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n)
{
	cuda_result error = tt_cuda_flush(op); /* what the rank hands to itself */

	while (!error && put_next(op, messages, n, &error))
		;
	return error;
}
