/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes a message of one rank to another: header, then payload, on the channel of sends and
 * receives. */
#include <stdlib.h>

#include "log.h"
#include "mismatch.h"
#include "op.h"

tutti_result_t tt_message_begin(struct tt_op *op, int peer, bool sending)
{
	if (op->cursors_capacity < 1) {
		op->cursors = malloc(sizeof(*op->cursors));
		if (!op->cursors)
			return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "no memory for a message");
		op->cursors_capacity = 1;
	}
	struct tt_cursor *cursor = &op->cursors[0];
	*cursor = (struct tt_cursor){ .op = op, .sending = sending };
	const tutti_result_t result =
		tt_comm_connection(op->comm, peer, TT_CHANNEL_P2P, &cursor->connection);
	if (result)
		return result;
	tt_cursor_queue(cursor);
	op->ncursors = 1;
	return TUTTI_OK;
}

static tutti_result_t check(struct tt_cursor *cursor, const struct tt_op_header *theirs)
{
	struct tt_op *op = cursor->op;

	if (tt_op_header_equal(&op->header, theirs))
		return TUTTI_OK;
	const struct tt_fault fault = tt_mismatch(op->comm, &op->header, theirs);
	tt_comm_revoke(op->comm, &fault);
	return TUTTI_ERR_MISMATCH;
}

static ssize_t receive_header(struct tt_cursor *cursor)
{
	struct tt_op_header theirs;
	const ssize_t there = tt_cursor_peek_header(cursor, 0, &theirs);

	if (there <= 0)
		return there;
	tt_cursor_take_header(cursor);
	const tutti_result_t result = check(cursor, &theirs);
	return result ? result : 1;
}

static ssize_t receive(struct tt_cursor *cursor)
{
	const struct tt_op *op = cursor->op;
	struct tt_link *link = cursor->connection->link;

	if (!tt_cursor_has_header(cursor))
		return receive_header(cursor);
	const struct iovec rest = { op->recv + cursor->at, op->length - cursor->at };
	const ssize_t moved = link->ops->read(link, &rest, 1);
	if (moved > 0)
		cursor->at += (size_t)moved;
	return moved;
}

static ssize_t send_rest(struct tt_cursor *cursor)
{
	const struct tt_op *op = cursor->op;
	const bool more = cursor->at < op->length;
	struct iovec iov[2];
	size_t payload;

	if (more)
		iov[1] =
			(struct iovec){ (uint8_t *)op->send + cursor->at, op->length - cursor->at };
	const ssize_t moved = tt_cursor_write(cursor, &op->header, iov, more, &payload);
	if (moved > 0)
		cursor->at += payload;
	return moved;
}

tutti_result_t tt_message_advance(struct tt_op *op, bool *moved)
{
	struct tt_cursor *cursor = &op->cursors[0];

	if (cursor->connection->head[cursor->sending] != cursor)
		return TUTTI_IN_PROGRESS;
	while (!tt_cursor_has_header(cursor) || cursor->at < op->length) {
		const ssize_t bytes = cursor->sending ? send_rest(cursor) : receive(cursor);

		if (bytes < 0) {
			op->comm->routes.failed_peer = cursor->connection->link->peer;
			return (tutti_result_t)bytes;
		}
		if (bytes == 0)
			return TUTTI_IN_PROGRESS;
		*moved = true;
	}
	return TUTTI_OK;
}
