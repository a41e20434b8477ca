/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes schedules over links: owns how segments walk through rounds and how messages share
 * the links.
 *
 * A plan cuts blocks into segments, and each segment walks the whole schedule by itself.
 * Messages on one direction of a link come in wavefront order: segment s in round r at time s +
 * r, at equal times the lower segment first. Both ends derive the same order from the same plan,
 * so messages need no tags; and since whatever a message depends on comes earlier in that order,
 * no cycle of waiting ranks can arise. Operations share a direction in the order of the calls
 * (cursor.c). */
#include <stdlib.h>
#include <string.h>

#include "mismatch.h"
#include "names.h"
#include "notes.h"
#include "op.h"

#define MAX_CHUNKS   16
#define AHEAD_NS     500000000
#define REDUCE_BYTES (32u * 1024) /* release arrived bytes in chunks, so that the sender goes on */

/* ---- the order of messages */

static const struct tt_route_entry *entry_of(const struct tt_cursor *cursor)
{
	return &cursor->op->plan->entries[cursor->route->first + cursor->entry];
}

/* The first of a route's messages of a round, or behind the last. */
static uint32_t first_of_round(const struct tt_cursor *cursor, uint32_t round)
{
	const struct tt_route_entry *entries = &cursor->op->plan->entries[cursor->route->first];
	uint32_t low = 0, high = cursor->route->n;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (entries[middle].round < round)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Find the next message at or behind (time, segment) of the wavefront; false: there is none. */
static bool settle(struct tt_cursor *cursor)
{
	const struct tt_plan *plan = cursor->op->plan;
	const uint32_t segments = plan->segments, rounds = plan->sched.nrounds;

	for (; cursor->time < segments + rounds; cursor->time++) {
		for (; cursor->segment < segments && cursor->segment <= cursor->time;
		     cursor->segment++) {
			const uint32_t round = cursor->time - cursor->segment;

			cursor->entry = first_of_round(cursor, round);
			if (cursor->entry < cursor->route->n && entry_of(cursor)->round == round)
				return true;
		}
		/* at the next time the segment that is in the last round comes first */
		cursor->segment = cursor->time + 2 > rounds ? cursor->time + 2 - rounds : 0;
	}
	return false;
}

static bool next_message(struct tt_cursor *cursor)
{
	const uint32_t round = entry_of(cursor)->round;

	cursor->block = 0;
	cursor->at = 0;
	cursor->entry++;
	if (cursor->entry < cursor->route->n && entry_of(cursor)->round == round)
		return true;
	if (cursor->op->plan->segments == 1) { /* the wavefront is the schedule itself */
		if (cursor->entry == cursor->route->n)
			return false;
		cursor->time = entry_of(cursor)->round;
		return true;
	}
	cursor->segment++;
	return settle(cursor);
}

/* ---- headers */

/* With the count of this pair, where its two ranks alone know it. */
static struct tt_op_header header_for(const struct tt_cursor *cursor)
{
	struct tt_op_header header = cursor->op->header;
	const struct tt_plan *plan = cursor->op->plan;

	if (tt_collective_knows_own_counts(plan->call.collective)) {
		const struct tt_step *step = &plan->sched.steps[entry_of(cursor)->step];
		const struct tt_layout *lengths = tt_plan_lengths(plan, step->a.buffer);

		header.count = lengths->counts ? lengths->counts[step->a.block] : lengths->count;
	}
	return header;
}

static tutti_result_t check_header(const struct tt_cursor *cursor,
				   const struct tt_op_header *theirs)
{
	struct tutti_comm *comm = cursor->op->comm;
	const struct tt_op_header mine = header_for(cursor);

	if (tt_op_header_equal(&mine, theirs)) {
		tt_notes_heard(comm, theirs->rank, theirs->seq);
		return TUTTI_OK;
	}
	const struct tt_fault fault =
		tt_mismatch(comm, tt_notes_counterpart(comm, &mine, theirs), theirs);
	tt_comm_revoke(comm, &fault);
	return TUTTI_ERR_MISMATCH;
}

/* The peer has gone on from an operation that this rank still waits in: the ranks differed
 * before. The peer ahead kept its header of this operation and can name both calls once it
 * receives ours (notes.c); leave it the time. */
static bool peer_is_ahead(const struct tt_cursor *cursor, const struct tt_op_header *theirs)
{
	const struct tt_op *op = cursor->op;

	return theirs->magic == TT_OP_HEADER_MAGIC && theirs->seq > op->header.seq &&
	       (!op->started || tt_now() - op->started < AHEAD_NS);
}

static ssize_t receive_header(struct tt_cursor *cursor)
{
	struct tt_op_header theirs;
	const void *data;
	const ssize_t there =
		tt_link_peek_header(cursor->connection->link, REDUCE_BYTES, &theirs, &data);

	if (there <= 0)
		return there;
	if (peer_is_ahead(cursor, &theirs))
		return 0;
	tt_cursor_take_header(cursor);
	const tutti_result_t result = check_header(cursor, &theirs);
	return result ? result : 1;
}

/* ---- moving bytes */

/* Chunks of the current message from where the cursor stands; the step's own blocks in order. */
static int chunks(const struct tt_cursor *cursor, struct iovec *iov, int capacity)
{
	const struct tt_op *op = cursor->op;
	const struct tt_step *step = &op->plan->sched.steps[entry_of(cursor)->step];
	size_t skip = cursor->at;
	int n = 0;

	for (uint32_t k = cursor->block; k < step->n && n < capacity; k++) {
		size_t length;
		uint8_t *place = tt_op_place(op, &step->a, k, cursor->segment, &length);

		place += skip;
		length -= skip;
		skip = 0;
		if (length == 0)
			continue;
		if (n > 0 && (uint8_t *)iov[n - 1].iov_base + iov[n - 1].iov_len == place)
			iov[n - 1].iov_len += length;
		else
			iov[n++] = (struct iovec){ place, length };
	}
	return n;
}

static void step_forward(struct tt_cursor *cursor, size_t bytes)
{
	const struct tt_op *op = cursor->op;
	const struct tt_step *step = &op->plan->sched.steps[entry_of(cursor)->step];

	while (cursor->block < step->n) {
		size_t length;

		tt_op_place(op, &step->a, cursor->block, cursor->segment, &length);
		if (cursor->at + bytes < length) {
			cursor->at += bytes;
			return;
		}
		bytes -= length - cursor->at;
		cursor->at = 0;
		cursor->block++;
	}
}

/* An empty message behind the first between two ranks needs no bytes. */
static ssize_t skip_empty(struct tt_cursor *cursor)
{
	cursor->block = cursor->op->plan->sched.steps[entry_of(cursor)->step].n;
	return 1;
}

/* Sends the header and the rest of the message as one write. 0: the link is full. */
static ssize_t move_out(struct tt_cursor *cursor)
{
	const struct tt_op_header header = header_for(cursor);
	struct iovec iov[1 + MAX_CHUNKS];
	const int n = chunks(cursor, iov + 1, MAX_CHUNKS);
	size_t payload;

	if (n == 0 && tt_cursor_has_header(cursor))
		return skip_empty(cursor);
	const ssize_t moved = tt_cursor_write(cursor, &header, iov, n, &payload);
	if (moved > 0)
		step_forward(cursor, payload);
	return moved;
}

static ssize_t move_in(struct tt_cursor *cursor)
{
	const struct tt_transport *ops = cursor->connection->link->ops;
	struct iovec iov[MAX_CHUNKS];
	const int n = chunks(cursor, iov, MAX_CHUNKS);

	if (n == 0)
		return skip_empty(cursor);
	const ssize_t moved = ops->read(cursor->connection->link, iov, n);
	if (moved > 0)
		step_forward(cursor, (size_t)moved);
	return moved;
}

/* Combines whole elements where they arrived. */
static ssize_t move_in_reduce(struct tt_cursor *cursor)
{
	struct tt_op *op = cursor->op;
	struct tt_link *link = cursor->connection->link;
	const struct tt_step *step = &op->plan->sched.steps[entry_of(cursor)->step];
	size_t length, length_b;
	uint8_t *dst = tt_op_place(op, &step->a, cursor->block, cursor->segment, &length);
	const uint8_t *with = tt_op_place(op, &step->b, cursor->block, cursor->segment, &length_b);
	size_t left = length - cursor->at;
	const void *data;

	if (left == 0) {
		cursor->block++;
		cursor->at = 0;
		return 1;
	}
	if (left > REDUCE_BYTES)
		left = REDUCE_BYTES;
	ssize_t there = link->ops->peek(link, op->element, left, &data);
	if (there <= 0)
		return there;
	const size_t elements = (size_t)there / op->element, bytes = elements * op->element;
	const void *src[2] = { with + cursor->at, data };
	if (step->left) {
		src[0] = data;
		src[1] = with + cursor->at;
	}
	tt_combine(op->plan, op->comm->size, step, dst + cursor->at, src, 2, elements);
	link->ops->release(link, bytes);
	step_forward(cursor, bytes);
	return (ssize_t)bytes;
}

static bool message_done(const struct tt_cursor *cursor)
{
	return tt_cursor_has_header(cursor) &&
	       cursor->block == cursor->op->plan->sched.steps[entry_of(cursor)->step].n;
}

static ssize_t move(struct tt_cursor *cursor)
{
	if (cursor->sending)
		return move_out(cursor);
	if (!tt_cursor_has_header(cursor))
		return receive_header(cursor);
	if (cursor->op->plan->sched.steps[entry_of(cursor)->step].kind == TT_STEP_RECV_REDUCE)
		return move_in_reduce(cursor);
	return move_in(cursor);
}

/* ---- rounds */

static void run_local(struct tt_op *op, const struct tt_step *step, uint32_t segment)
{
	const void **src = op->sources;

	for (uint32_t k = 0; k < step->n; k++) {
		size_t length;
		uint8_t *dst = tt_op_place(op, &step->a, k, segment, &length);

		for (uint32_t i = 0; i < step->sources; i++) {
			size_t unused;

			src[i] = tt_op_place(op, &step[1 + i].a, k, segment, &unused);
		}
		if (length == 0)
			continue;
		if (step->sources > 1 || (step->final && op->plan->call.op == TUTTI_AVG))
			tt_combine(op->plan, op->comm->size, step, dst, src, step->sources,
				   length / op->element);
		else if (src[0] != dst)
			memmove(dst, src[0], length);
	}
}

/* Enter the segment's next rounds until one has messages, or the schedule ends. */
static void enter_rounds(struct tt_op *op, uint32_t segment)
{
	const struct tt_sched *sched = &op->plan->sched;

	while (op->seg_left[segment] == 0 && op->seg_round[segment] < sched->nrounds) {
		const uint32_t round = op->seg_round[segment];
		uint32_t messages = 0;

		for (uint32_t i = sched->round[round]; i < sched->round[round + 1]; i++) {
			const struct tt_step *step = &sched->steps[i];

			if (step->kind == TT_STEP_REDUCE)
				run_local(op, step, segment);
			else if (step->kind != TT_STEP_SOURCE)
				messages++;
		}
		op->seg_left[segment] = messages;
		if (messages == 0)
			op->seg_round[segment]++;
	}
}

static void start_segments(struct tt_op *op)
{
	const struct tt_plan *plan = op->plan;

	for (;;) {
		while (op->seg_first < op->seg_next &&
		       op->seg_round[op->seg_first] == plan->sched.nrounds)
			op->seg_first++;
		if (op->seg_next == plan->segments || op->seg_next >= op->seg_first + plan->window)
			return;
		op->seg_round[op->seg_next] = op->seg_left[op->seg_next] = 0;
		enter_rounds(op, op->seg_next++);
	}
}

static void message_ended(struct tt_op *op, uint32_t segment)
{
	if (--op->seg_left[segment] > 0)
		return;
	op->seg_round[segment]++;
	enter_rounds(op, segment);
	start_segments(op);
}

/* Move one cursor as far as it goes. */
static tutti_result_t advance_cursor(struct tt_cursor *cursor, bool *moved)
{
	struct tt_op *op = cursor->op;

	while (cursor->connection && cursor->connection->head[cursor->sending] == cursor) {
		const uint32_t segment = cursor->segment;

		if (segment >= op->seg_next || op->seg_round[segment] != entry_of(cursor)->round)
			return TUTTI_OK;
		while (!message_done(cursor)) {
			const ssize_t bytes = move(cursor);

			if (bytes < 0) {
				op->comm->routes.failed_peer = cursor->connection->link->peer;
				return (tutti_result_t)bytes;
			}
			if (bytes == 0)
				return TUTTI_OK;
			*moved = true;
		}
		*moved = true;
		if (!next_message(cursor))
			tt_cursor_dequeue(cursor);
		message_ended(op, segment);
	}
	return TUTTI_OK;
}

/* ---- an operation */

tutti_result_t tt_links_begin(struct tt_op *op)
{
	const struct tt_plan *plan = op->plan;
	tutti_result_t result = tt_op_reserve(op);

	for (uint32_t i = 0; !result && i < plan->nroutes; i++) {
		struct tt_cursor *cursor = &op->cursors[i];

		*cursor = (struct tt_cursor){ .op = op,
					      .route = &plan->routes[i],
					      .sending = plan->routes[i].sending };
		result = tt_comm_connection(op->comm, plan->routes[i].peer, TT_CHANNEL_COLLECTIVE,
					    &cursor->connection);
		if (result)
			break;
		settle(cursor); /* a route has at least one message */
		tt_cursor_queue(cursor);
		op->ncursors = i + 1;
	}
	op->seg_first = op->seg_next = 0;
	if (!result)
		start_segments(op);
	return result;
}

tutti_result_t tt_links_advance(struct tt_op *op, bool *moved)
{
	bool again = true;

	while (again) {
		again = false;
		for (uint32_t i = 0; i < op->ncursors; i++) {
			const tutti_result_t result = advance_cursor(&op->cursors[i], &again);

			if (result)
				return result;
		}
		*moved |= again;
	}
	return op->seg_first == op->plan->segments ? TUTTI_OK : TUTTI_IN_PROGRESS;
}
