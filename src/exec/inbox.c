/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which receive takes which message.
 *
 * Messages of a pair come one behind the other on one link, whatever their tags. The first receive
 * of that peer with the tag of the message on the link takes it, in the order of the calls; then
 * the first from any peer. A message that no receive waits for stays on the link, which holds its
 * sender up. But where a receive waits for what may be behind it, it is put aside: read into memory
 * of its own, for a later receive. So that memory is bounded by what was sent before the message
 * that is waited for. */
#include "inbox.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "mismatch.h"
#include "op_record.h"

/* So much of a message is looked at with its header: over TCP that saves a system call, which takes
 * longer than to copy it. */
#define SHORT_BYTES (16u * 1024)
#define UNUSUAL	    2

/* A message that no receive has taken yet. */
struct tt_aside {
	struct tt_aside *next;
	struct tt_op_header header;
	size_t length, at; /* bytes, and how many of them have come */
	uint8_t bytes[];
};

/* ---- what a receive takes */

static bool same_tag(const struct tt_cursor *cursor, const struct tt_op_header *header)
{
	return cursor->op->header.detail == header->detail;
}

/* From any peer, and it has no message yet. */
static bool takes_any(const struct tt_op *op)
{
	return op->kind == TT_OP_MESSAGE && op->from_any && !op->cursors[0].connection;
}

/* Whose is the message that is next on the link? NULL: nobody's who waits. */
static struct tt_cursor *taker(const struct tt_connection *connection, struct tt_cursor *asks,
			       const struct tt_op_header *header)
{
	if (!tt_op_header_is_message(header)) /* an error, for whoever asks */
		return asks;
	for (struct tt_cursor *c = connection->head[0]; c; c = c->next)
		if (same_tag(c, header))
			return c;
	for (struct tt_op *op = asks->op->comm->first; op; op = op->next)
		if (takes_any(op) && same_tag(&op->cursors[0], header))
			return &op->cursors[0];
	return NULL;
}

static tutti_result_t check(struct tt_op *op, const struct tt_op_header *theirs)
{
	struct tt_op_header mine = op->header;

	mine.seq = theirs->seq; /* tags may have changed the order */
	if (op->message && theirs->count < mine.count)
		mine.count = theirs->count;
	if (tt_op_header_equal(&mine, theirs))
		return TUTTI_OK;
	mine.count = op->header.count;
	const struct tt_fault fault = tt_mismatch(op->comm, &mine, theirs);
	tt_comm_revoke(op->comm, &fault);
	return TUTTI_ERR_MISMATCH;
}

/* The message is this receive's. */
static tutti_result_t accept(struct tt_cursor *cursor, struct tt_connection *connection,
			     const struct tt_op_header *theirs)
{
	struct tt_op *op = cursor->op;
	const tutti_result_t result = check(op, theirs);

	if (result)
		return result;
	op->length = theirs->count * op->element;
	if (!cursor->connection) {
		cursor->connection = connection;
		tt_cursor_queue(cursor);
	}
	if (op->message) {
		op->message->peer = theirs->rank;
		op->message->count = theirs->count;
	}
	if (op->message || op->from_any)
		tt_recorder_message(op, theirs);
	return TUTTI_OK;
}

/* Looks for a header, and for what this receive expects behind it, if that is short; see
 * tt_link_peek_header(). */
static ssize_t look(const struct tt_cursor *cursor, struct tt_link *link,
		    struct tt_op_header *theirs, const void **data)
{
	const size_t length = cursor->op->length;

	return tt_link_peek_header(link, length <= SHORT_BYTES ? length : 0, theirs, data);
}

/* This receive's header lies at `data`, and maybe all of its message. */
static void take(struct tt_cursor *cursor, struct tt_connection *connection, const void *data,
		 size_t there)
{
	const struct tt_op *op = cursor->op;
	const size_t header = sizeof(struct tt_op_header);
	const bool whole = there >= header + op->length;

	if (whole && op->length > 0)
		memcpy(op->recv, (const uint8_t *)data + header, op->length);
	connection->link->ops->release(connection->link, header + (whole ? op->length : 0));
	cursor->header_at = (uint32_t)header;
	cursor->at = whole ? op->length : 0;
	if (!whole)
		connection->reading = cursor;
}

/* ---- putting aside */

static tutti_result_t put_aside(struct tt_connection *connection, const struct tt_op_header *header)
{
	const size_t element = tutti_dtype_size((tutti_dtype_t)header->dtype);
	struct tt_aside **last = &connection->aside;
	struct tt_aside *aside = NULL;
	size_t bytes;

	if (!__builtin_mul_overflow(header->count, element, &bytes) &&
	    bytes <= PTRDIFF_MAX - sizeof(*aside))
		aside = malloc(sizeof(*aside) + bytes);
	if (!aside)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
			       "no memory to put aside a message of %llu elements of %s with tag "
			       "%llu from rank %d, which no receive waits for",
			       (unsigned long long)header->count,
			       element ? tutti_dtype_name((tutti_dtype_t)header->dtype) : "no type",
			       (unsigned long long)header->detail, header->rank);
	*aside = (struct tt_aside){ .header = *header, .length = bytes };
	while (*last)
		last = &(*last)->next;
	*last = aside;
	return TUTTI_OK;
}

/* The one that is still being read: always the last. */
static struct tt_aside *coming_aside(const struct tt_connection *connection)
{
	struct tt_aside *last = connection->aside;

	while (last && last->next)
		last = last->next;
	return last && last->at < last->length ? last : NULL;
}

static ssize_t read_aside(struct tt_link *link, struct tt_aside *aside)
{
	const struct iovec rest = { aside->bytes + aside->at, aside->length - aside->at };
	const ssize_t bytes = link->ops->read(link, &rest, 1);

	if (bytes > 0)
		aside->at += (size_t)bytes;
	return bytes;
}

/* From what was put aside; 0: there is none with its tag. */
static ssize_t take_aside(struct tt_cursor *cursor, struct tt_connection *connection)
{
	struct tt_aside **at = &connection->aside;

	while (*at && !same_tag(cursor, &(*at)->header))
		at = &(*at)->next;
	struct tt_aside *aside = *at;
	if (!aside)
		return 0;
	const tutti_result_t result = accept(cursor, connection, &aside->header);
	if (result)
		return result;
	if (aside->length > 0)
		memcpy(cursor->op->recv, aside->bytes, aside->length);
	cursor->header_at = sizeof(aside->header);
	cursor->at = aside->length;
	*at = aside->next;
	free(aside);
	return 1;
}

/* ---- finding */

/* The header that is next on the link; what no receive waits for is put aside. Like
 * tt_inbox_find(), but 1 also where something else has moved and it is to be tried again. */
static ssize_t take_next(struct tt_cursor *cursor, struct tt_connection *connection)
{
	struct tt_op_header theirs;
	const void *data;
	const ssize_t there = look(cursor, connection->link, &theirs, &data);

	if (there <= 0)
		return there;
	struct tt_cursor *whose = taker(connection, cursor, &theirs);
	if (whose && whose != cursor)
		return 0; /* takes it in its own turn */
	const tutti_result_t result =
		whose ? accept(cursor, connection, &theirs) : put_aside(connection, &theirs);
	if (result)
		return result;
	if (whose)
		take(cursor, connection, data, (size_t)there);
	else
		connection->link->ops->release(connection->link, sizeof(theirs));
	return 1;
}

static ssize_t find_on(struct tt_cursor *cursor, struct tt_connection *connection, bool *moved)
{
	ssize_t found = 1;

	while (found > 0 && !tt_cursor_has_header(cursor)) {
		struct tt_aside *coming;

		if (connection->reading)
			return 0; /* another's message is on its way */
		coming = connection->aside ? coming_aside(connection) : NULL;
		found = coming ? read_aside(connection->link, coming) : 0;
		if (!coming && connection->aside)
			found = take_aside(cursor, connection);
		if (!coming && !found)
			found = take_next(cursor, connection);
		*moved |= found > 0;
	}
	if (found < 0)
		cursor->op->comm->routes.failed_peer = connection->link->peer;
	return found;
}

/* A rank may have sent all it had to and left: nothing is lost as long as another can send. One that
 * died ends the communicator by other means. */
static ssize_t find_on_any(struct tt_cursor *cursor, bool *moved)
{
	struct tutti_comm *comm = cursor->op->comm;
	ssize_t found = 0;
	int left = 0;

	for (int peer = 0; peer < comm->size && found == 0; peer++) {
		struct tt_connection *connection;

		if (peer == comm->rank)
			continue;
		found = tt_comm_connection(comm, peer, TT_CHANNEL_P2P, &connection);
		if (found == 0)
			found = find_on(cursor, connection, moved);
		if (found == TUTTI_ERR_PEER_LOST && ++left < comm->size - 1)
			found = 0;
	}
	return found;
}

bool tt_inbox_is_behind(const struct tt_cursor *cursor)
{
	const struct tt_cursor *c = cursor->connection->head[0];

	while (c != cursor && !same_tag(c, &cursor->op->header))
		c = c->next;
	return c != cursor;
}

/* The usual case at once: nothing is aside, and what is next on the link is as the first receive
 * has it. UNUSUAL: look closer. */
static ssize_t take_usual(struct tt_cursor *cursor)
{
	struct tt_connection *connection = cursor->connection;
	struct tt_op_header theirs;
	const void *data;

	if (connection->head[0] != cursor || connection->reading || connection->aside ||
	    cursor->op->message)
		return UNUSUAL;
	const ssize_t there = look(cursor, connection->link, &theirs, &data);
	if (there == 0)
		return 0;
	if (there < 0 || !tt_op_header_equal(&cursor->op->header, &theirs))
		return UNUSUAL;
	take(cursor, connection, data, (size_t)there);
	return 1;
}

ssize_t tt_inbox_find(struct tt_cursor *cursor, bool *moved)
{
	if (cursor->op->from_any)
		return find_on_any(cursor, moved);
	const ssize_t found = take_usual(cursor);
	if (found != UNUSUAL)
		return found;
	return tt_inbox_is_behind(cursor) ? 0 : find_on(cursor, cursor->connection, moved);
}

void tt_inboxes_free(struct tutti_comm *comm)
{
	for (int peer = 0; comm->routes.connections && peer < comm->size; peer++) {
		struct tt_connection *with = comm->routes.connections[peer];

		while (with && with[TT_CHANNEL_P2P].aside) {
			struct tt_aside *first = with[TT_CHANNEL_P2P].aside;

			with[TT_CHANNEL_P2P].aside = first->next;
			free(first);
		}
	}
}
