/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes a message of one rank to another: card, then payload, on the lane of sends and receives. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "op.h"

tutti_result_t tt_message_begin(struct tt_op *op, int peer, bool sending)
{
	if (op->cursors_room < 1) {
		op->cursors = malloc(sizeof(*op->cursors));
		if (!op->cursors)
			return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "no memory for a message");
		op->cursors_room = 1;
	}
	struct tt_cursor *cursor = &op->cursors[0];
	*cursor = (struct tt_cursor){ .op = op, .sending = sending };
	const tutti_result_t result = tt_comm_wire(op->comm, peer, TT_LANE_P2P, &cursor->wire);
	if (result)
		return result;
	tt_cursor_queue(cursor);
	op->ncursors = 1;
	return TUTTI_OK;
}

/* What is left of card and payload, as the link's iovec. */
static int rest(struct tt_cursor *cursor, struct tt_card *card, struct iovec iov[2])
{
	struct tt_op *op = cursor->op;
	uint8_t *data = cursor->sending ? (uint8_t *)op->send : op->recv;
	int n = 0;

	if (!cursor->carded)
		iov[n++] = (struct iovec){ (uint8_t *)card + cursor->card_at,
					   sizeof(*card) - cursor->card_at };
	if (cursor->at < op->length && (cursor->carded || cursor->sending))
		iov[n++] = (struct iovec){ data + cursor->at, op->length - cursor->at };
	return n;
}

static void account(struct tt_cursor *cursor, size_t bytes)
{
	if (!cursor->carded) {
		const size_t left = sizeof(struct tt_card) - cursor->card_at;
		const size_t of_card = bytes < left ? bytes : left;

		cursor->card_at += (uint32_t)of_card;
		cursor->carded = cursor->card_at == sizeof(struct tt_card);
		bytes -= of_card;
	}
	cursor->at += bytes;
}

static tutti_result_t check(struct tt_cursor *cursor, const struct tt_card *theirs)
{
	struct tt_op *op = cursor->op;

	if (tt_card_equal(&op->card, theirs))
		return TUTTI_OK;
	struct tt_fault fault = tt_card_mismatch(&op->card, theirs);
	tt_comm_revoke(op->comm, &fault);
	return TUTTI_ERR_MISMATCH;
}

static ssize_t receive_card(struct tt_cursor *cursor)
{
	struct tt_link *link = cursor->wire->link;
	struct tt_card theirs;
	const void *data;
	const ssize_t there = link->ops->peek(link, sizeof(theirs), sizeof(theirs), &data);

	if (there <= 0)
		return there;
	memcpy(&theirs, data, sizeof(theirs));
	link->ops->release(link, sizeof(theirs));
	cursor->carded = true;
	const tutti_result_t result = check(cursor, &theirs);
	return result ? result : 1;
}

tutti_result_t tt_message_advance(struct tt_op *op, bool *moved)
{
	struct tt_cursor *cursor = &op->cursors[0];

	if (cursor->wire->head[cursor->sending] != cursor)
		return TUTTI_IN_PROGRESS;
	while (!cursor->carded || cursor->at < op->length) {
		const struct tt_transport *ops = cursor->wire->link->ops;
		struct iovec iov[2];
		ssize_t bytes;

		if (!cursor->sending && !cursor->carded) {
			bytes = receive_card(cursor);
		} else {
			const int n = rest(cursor, &op->card, iov);

			bytes = cursor->sending ? ops->write(cursor->wire->link, iov, n) :
						  ops->read(cursor->wire->link, iov, n);
			if (bytes > 0)
				account(cursor, (size_t)bytes);
		}
		if (bytes < 0)
			return (tutti_result_t)bytes;
		if (bytes == 0)
			return TUTTI_IN_PROGRESS;
		*moved = true;
	}
	return TUTTI_OK;
}
