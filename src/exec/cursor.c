/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how operations share one direction of a link: each queues a cursor at the wire, only the
 * first may move, and its header goes before all else. */
#include <string.h>

#include "op.h"

void tt_cursor_queue(struct tt_cursor *cursor)
{
	struct tt_connection *connection = cursor->connection;
	const int way = cursor->sending;

	cursor->next = NULL;
	if (connection->tail[way])
		connection->tail[way]->next = cursor;
	else
		connection->head[way] = cursor;
	connection->tail[way] = cursor;
}

void tt_cursor_dequeue(struct tt_cursor *cursor)
{
	const int way = cursor->sending;
	struct tt_cursor *before = NULL;

	if (!cursor->connection)
		return;
	for (struct tt_cursor *c = cursor->connection->head[way]; c != cursor; c = c->next)
		before = c;
	*(before ? &before->next : &cursor->connection->head[way]) = cursor->next;
	if (cursor->connection->reading == cursor)
		cursor->connection->reading = NULL;
	if (!cursor->next)
		cursor->connection->tail[way] = before;
	cursor->connection = NULL;
}

ssize_t tt_cursor_write(struct tt_cursor *cursor, const struct tt_op_header *header,
			struct iovec *iov, int n, size_t *payload)
{
	struct tt_link *link = cursor->connection->link;
	const size_t left = sizeof(*header) - cursor->header_at;

	iov[0] = (struct iovec){ (uint8_t *)header + cursor->header_at, left };
	const ssize_t moved =
		left ? link->ops->write(link, iov, n + 1) : link->ops->write(link, iov + 1, n);
	if (moved <= 0)
		return moved;
	const size_t of_header = (size_t)moved < left ? (size_t)moved : left;
	cursor->header_at += (uint32_t)of_header;
	*payload = (size_t)moved - of_header;
	return moved;
}

ssize_t tt_link_peek_header(struct tt_link *link, size_t more, struct tt_op_header *theirs,
			    const void **data)
{
	const ssize_t there = link->ops->peek(link, sizeof(*theirs), sizeof(*theirs) + more, data);

	/* the rest of a header that came in two parts is on its way */
	if (there < (ssize_t)sizeof(*theirs))
		return there < 0 ? there : 0;
	memcpy(theirs, *data, sizeof(*theirs));
	if (theirs->rank != link->peer) { /* nobody who runs this code sent it */
		theirs->magic = 0;
		theirs->rank = link->peer;
	}
	return there;
}

void tt_cursor_take_header(struct tt_cursor *cursor)
{
	cursor->connection->link->ops->release(cursor->connection->link,
					       sizeof(struct tt_op_header));
	cursor->header_at = sizeof(struct tt_op_header);
}
