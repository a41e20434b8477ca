/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes a message of one rank to another: header, then payload, on the channel of sends and
 * receives. */
#include <stdlib.h>

#include "inbox.h"
#include "log.h"

/* A receive from any peer looks at all of them: they are connected from its beginning on. */
static tutti_result_t connect_all(struct tutti_comm *comm)
{
	tutti_result_t result = TUTTI_OK;

	for (int peer = 0; peer < comm->size && !result; peer++) {
		struct tt_connection *connection;

		if (peer != comm->rank)
			result = tt_comm_connection(comm, peer, TT_CHANNEL_P2P, &connection);
	}
	return result;
}

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
	op->from_any = peer == TUTTI_ANY_PEER;
	const tutti_result_t result =
		op->from_any
			? connect_all(op->comm)
			: tt_comm_connection(op->comm, peer, TT_CHANNEL_P2P, &cursor->connection);
	if (result)
		return result;
	if (!op->from_any)
		tt_cursor_queue(cursor);
	op->ncursors = 1;
	return TUTTI_OK;
}

static ssize_t receive(struct tt_cursor *cursor, bool *moved)
{
	const struct tt_op *op = cursor->op;

	if (!tt_cursor_has_header(cursor))
		return tt_inbox_find(cursor, moved);
	struct tt_link *link = cursor->connection->link;
	const struct iovec rest = { op->recv + cursor->at, op->length - cursor->at };
	const ssize_t bytes = link->ops->read(link, &rest, 1);
	if (bytes > 0)
		cursor->at += (size_t)bytes;
	return bytes;
}

static ssize_t send_rest(struct tt_cursor *cursor)
{
	const struct tt_op *op = cursor->op;
	const bool more = cursor->at < op->length;
	struct iovec iov[2];
	size_t payload;

	if (cursor->connection->head[1] != cursor)
		return 0;
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

	while (!tt_cursor_has_header(cursor) || cursor->at < op->length) {
		const ssize_t bytes = cursor->sending ? send_rest(cursor) : receive(cursor, moved);

		if (bytes < 0) {
			if (cursor->connection)
				op->comm->routes.failed_peer = cursor->connection->link->peer;
			return (tutti_result_t)bytes;
		}
		if (bytes == 0)
			return TUTTI_IN_PROGRESS;
		*moved = true;
	}
	return TUTTI_OK;
}
