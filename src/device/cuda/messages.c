/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts messages on a stream: chunks go through the sender's room for that peer. Of several
 * messages the chunks take turns, first all sends' and then all receives', one chunk with each
 * peer: it waits for the peer to have taken the one before, which the peer does before it sends
 * its next. So none waits for another peer's message, as long as the peers' turns are made
 * alike: one whose calls are in no group may stand between two chunks of a long message until a
 * third rank comes, and with it all that is behind on this rank's stream. */
#include <stddef.h>

#include "bound.h"

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
	const int rank = op->cuda->comm->rank, peer = message->peer;
	const size_t bytes = chunk_of(message);
	const cuda_address buffer = message->buffer + message->done;
	const size_t flag = (message->sending ? offsetof(struct tt_cuda_control, taken)
					      : offsetof(struct tt_cuda_control, sent)) +
			    (size_t)peer * sizeof(uint64_t);
	const uint64_t waiting = (message->sending ? TT_CUDA_AWAITS_TAKEN : TT_CUDA_AWAITS_SENT) |
				 (uint64_t)peer << 8;
	const struct tt_cuda_sync sync = { .kind = message->sending ? TT_CUDA_SEND : TT_CUDA_RECV,
					   .clear = -1,
					   .post = -1,
					   .peer = (uint32_t)peer,
					   .check = !message->sending,
					   .introduces = message->sending };

	op->header = tt_op_header_of_call(op->cuda->comm, message->call);
	op->header.count = message->bytes / tutti_dtype_size(message->call->dtype);
	if (message->call->collective == TT_SEND_RECV) /* there it is the peer */
		op->header.root = -1;
	op->signature = tt_op_header_signature(&op->header) + message->chunks;
	cuda_result error = tt_cuda_await_flag(op, flag, waiting);
	if (!error && message->sending)
		error = tt_cuda_copy(op, tt_cuda_room_of(op->cuda, rank, peer), buffer, bytes);
	else if (!error)
		error = tt_cuda_copy_from(op, peer, buffer, tt_cuda_room_of(op->cuda, peer, rank),
					  bytes);
	if (!error)
		error = tt_cuda_signal(op, sync);
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
	cuda_result error = 0;

	for (bool more = n > 0; more && !error;) {
		more = false;
		error = put_turn(op, messages, n, true, &more);
		if (!error)
			error = put_turn(op, messages, n, false, &more);
	}
	return error;
}
