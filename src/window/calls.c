/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the one-sided calls: what is done at once, where the target's memory is mapped here, and
 * what becomes a frame.
 *
 * A call that can end at once needs no operation: loads and stores, and short puts, whose frames are
 * copied into the outbox. The others are operations in flight like all else, and so have deadlines
 * and requests, and are in the flight recorder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "device_table.h"
#include "fault.h"
#include "group.h"
#include "log.h"
#include "text_append.h"
#include "windows.h"

#define SPIN_NS 4000 /* as of other waits: see progress.c */
#define DOUBT_NS                                                                                   \
	500000000	/* until who has closed a link is taken for one that left in good order */
#define LOOK_NS 1000000 /* between two looks at everything of who only flushes */

/* ---- what arguments must be */

const char *tt_one_sided_name(const struct tt_window_call *call)
{
	switch (call->kind) {
	case TT_PUT:
		if (call->signal == TT_NO_SIGNAL)
			return "tutti_put";
		return call->signals_alone ? "tutti_signal" : "tutti_put_signal";
	case TT_GET: return "tutti_get";
	case TT_FETCH_ADD: return "tutti_fetch_add";
	case TT_FLUSH: return "tutti_flush";
	default: return "tutti_wait_signal";
	}
}

static bool is_gone(const struct tutti_window *window)
{
	return window->exposure &&
	       atomic_load_explicit(&window->exposure->gone, memory_order_relaxed);
}

/* Is there nothing about it that a call would have to look at? A few loads, since what is done by
 * stores takes little more. */
static bool is_usual(const struct tutti_window *window)
{
	return tt_owned_here(&window->owner) && !is_gone(window) && !tt_callback_here() &&
	       !atomic_load_explicit(&window->comm->failed, memory_order_relaxed) &&
	       !atomic_load_explicit(&tt_groups_open, memory_order_relaxed);
}

static tutti_result_t check_unusual(const struct tt_window_call *call)
{
	const char *name = tt_one_sided_name(call);
	const struct tutti_window *window = call->window;

	if (!window)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: window is NULL", name);
	if (!tt_owned_here(&window->owner))
		return tt_fail_inherited(&window->owner, name, "window");
	const tutti_result_t refused = tt_group_refuse(window->comm, name);
	if (refused)
		return refused;
	if (is_gone(window))
		return tt_comm_fail(
			window->comm,
			tt_fail(TUTTI_ERR_SYSTEM, EXEC,
				"%s: the memory of window %" PRIu32
				" is not what the other ranks write to any more: it was freed, or "
				"was the result of an operation that failed on another "
				"communicator; expected it as it was until tutti_window_destroy()",
				name, window->number));
	tt_comm_lock(window->comm);
	const tutti_result_t result = tt_comm_state(window->comm);
	pthread_mutex_unlock(&window->comm->lock);
	return result;
}

/* The call's window is there, and its communicator has not failed. */
static inline tutti_result_t check_window(const struct tt_window_call *call)
{
	return __builtin_expect(call->window && is_usual(call->window), 1) ? TUTTI_OK
									   : check_unusual(call);
}

static tutti_result_t check_signal(const struct tt_window_call *call, int rank)
{
	const uint32_t signals = call->window->part[rank].signals;

	if (call->signal < signals)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, EXEC,
		       "%s: found signal %" PRIu32 ", expected one of the %" PRIu32
		       " that rank %d gave in tutti_window_create()",
		       tt_one_sided_name(call), call->signal, signals, rank);
}

static tutti_result_t check_rank(const struct tt_window_call *call)
{
	const int size = call->window->comm->size;

	if (call->peer >= 0 && call->peer < size)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: found rank %d, expected one from 0 to %d",
		       tt_one_sided_name(call), call->peer, size - 1);
}

/* Is the target there, and all of what the call accesses? */
static tutti_result_t check_target(const struct tt_window_call *call, const void *buffer)
{
	tutti_result_t result = check_window(call);

	if (!result)
		result = check_rank(call);
	if (result)
		return result;
	const size_t there = call->window->part[call->peer].bytes;
	if (call->bytes > there || call->offset > there - call->bytes)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "%s: found %zu bytes at %zu, expected a part of the %zu bytes that "
			       "rank %d gave in tutti_window_create()",
			       tt_one_sided_name(call), call->bytes, call->offset, there,
			       call->peer);
	if (!buffer && call->bytes > 0)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: the buffer is NULL, bytes %zu",
			       tt_one_sided_name(call), call->bytes);
	return TUTTI_OK;
}

/* ---- where the target's memory is mapped here */

static bool is_direct(const struct tt_window_call *call)
{
	return call->window->part[call->peer].direct;
}

/* Whoever sleeps until the signal comes looks at it again. */
static void wake(struct tutti_comm *comm, int rank)
{
	if (rank == comm->rank) {
		tt_comm_lock(comm);
		tt_comm_interrupt(comm);
		pthread_mutex_unlock(&comm->lock);
	} else {
		struct tt_endpoint *endpoint = comm->endpoints[comm->routes.via[rank]];

		endpoint->ops->memory->wake(endpoint); /* needs no lock */
	}
}

/* But for the wake(). */
static void do_direct(const struct tt_window_call *call, const void *send, void *recv)
{
	struct tt_window_part *part = &call->window->part[call->peer];
	uint64_t before;

	switch (call->kind) {
	case TT_PUT:
		if (call->bytes > 0)
			memmove(part->memory + call->offset, send, call->bytes);
		if (call->signal != TT_NO_SIGNAL)
			tt_window_count(part, call->signal, call->value);
		break;
	case TT_GET:
		if (call->bytes > 0)
			memmove(recv, part->memory + call->offset, call->bytes);
		break;
	default:
		before = tt_window_add(part->memory + call->offset, call->value);
		if (recv)
			memcpy(recv, &before, sizeof(before));
	}
}

/* ---- frames */

static bool is_copied(const struct tt_window_call *call)
{
	return call->kind == TT_PUT && call->bytes <= TT_WINDOW_COPIED;
}

static size_t room_for(const struct tt_window_call *call)
{
	return sizeof(struct tt_frame) + (is_copied(call) ? call->bytes : 0);
}

static const uint16_t frame_kinds[] = { [TT_PUT] = TT_FRAME_PUT,
					[TT_GET] = TT_FRAME_GET,
					[TT_FETCH_ADD] = TT_FRAME_ADD,
					[TT_FLUSH] = TT_FRAME_FLUSH };

/* For which there is room. False: no memory. */
static bool put_frame(struct tt_window_peer *peer, struct tt_window_call *call, const void *send,
		      int tag)
{
	const struct tt_frame frame = { .magic = TT_FRAME_MAGIC,
					.kind = frame_kinds[call->kind],
					.tag = (uint16_t)tag,
					.window = call->window->number,
					.signal = call->signal,
					.offset = call->offset,
					.bytes = call->bytes,
					.value = call->value };
	uint8_t *at = tt_outbox_place(&peer->outbox, room_for(call));

	if (!at) {
		tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "%s: no memory for frames",
			tt_one_sided_name(call));
		return false;
	}
	memcpy(at, &frame, sizeof(frame));
	if (is_copied(call) && call->bytes > 0)
		memcpy(at + sizeof(frame), send, call->bytes);
	else if (call->kind == TT_PUT && call->bytes > 0)
		tt_outbox_lend(&peer->outbox, send, call->bytes, frame.window, call);
	peer->sent += call->kind != TT_FLUSH;
	return true;
}

/* The number under which the call is answered; -1: too many are asked. */
static int free_tag(const struct tt_window_peer *peer)
{
	for (int tag = 0; tag < TT_WINDOW_ASKED; tag++)
		if (!peer->asked[tag].op)
			return tag;
	return -1;
}

static tutti_result_t fail_left(const struct tt_window_call *call, int rank)
{
	call->window->comm->routes.failed_peer = rank;
	return tt_fail(TUTTI_ERR_PEER_LOST, EXEC, "%s: rank %d has left the communicator",
		       tt_one_sided_name(call), rank);
}

/* Put the operation's frame into the outbox of `peer`. TUTTI_IN_PROGRESS: it has to wait. */
static tutti_result_t send_frame(struct tt_window_peer *peer, struct tt_op *op)
{
	struct tt_window_call *call = op->window_call;
	const int tag = call->kind == TT_PUT ? 0 : free_tag(peer);

	if (peer->ended_at)
		return fail_left(call, peer->connection->link->peer);
	if (tag < 0 || !tt_outbox_has_room(&peer->outbox, room_for(call)))
		return TUTTI_IN_PROGRESS;
	call->stage = is_copied(call) ? TT_ENDED : TT_SENT;
	if (!put_frame(peer, call, op->send, tag))
		return TUTTI_ERR_NO_MEMORY;
	if (call->kind != TT_PUT)
		peer->asked[tag] = (struct tt_asked){ op, peer->sent };
	return TUTTI_OK;
}

/* ---- operations */

static void queue(struct tt_window_peer *peer, struct tt_op *op)
{
	op->window_call->next = NULL;
	if (peer->last)
		peer->last->window_call->next = op;
	else
		peer->first = op;
	peer->last = op;
}

/* Frames of the calls that wait, as many as there is room for. */
static tutti_result_t send_queued(struct tt_window_peer *peer, bool *moved)
{
	while (peer->first) {
		const tutti_result_t result = send_frame(peer, peer->first);

		if (result)
			return result < 0 ? result : TUTTI_OK;
		peer->first = peer->first->window_call->next;
		if (!peer->first)
			peer->last = NULL;
		*moved = true;
	}
	return TUTTI_OK;
}

/* Of a flush to one rank, whose memory is accessed directly. */
static bool has_left_target(const struct tt_window_call *call)
{
	const struct tutti_comm *comm = call->window->comm;

	return call->peer >= 0 && call->peer != comm->rank && is_direct(call) &&
	       tt_window_left(comm, call->peer);
}

/* Behind the frames of all calls before: while some wait for the outbox, this does, too. One rank
 * is asked in any case, as it may have left. */
static tutti_result_t ask_to_flush(struct tt_op *op, int rank, bool *moved)
{
	struct tt_window_call *call = op->window_call;
	struct tt_window_peer *peer = tt_window_peer_of(call->window, rank);
	const bool asks = call->peer >= 0 && !is_direct(call);

	if (has_left_target(call))
		return fail_left(call, rank);
	if (!peer || (!asks && !peer->first && peer->flushed == peer->sent))
		return TUTTI_OK;
	if (peer->first)
		return TUTTI_IN_PROGRESS;
	const tutti_result_t result = send_frame(peer, op);
	if (result)
		return result;
	call->answers++;
	*moved = true;
	return tt_window_send(op->comm, peer);
}

static tutti_result_t advance_flush(struct tt_op *op, bool *moved)
{
	struct tt_window_call *call = op->window_call;
	const int end = call->peer < 0 ? op->comm->size : call->peer + 1;

	for (; call->next_peer < end; call->next_peer++) {
		const tutti_result_t result = ask_to_flush(op, call->next_peer, moved);

		if (result)
			return result;
	}
	return call->answers > 0 ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

static tutti_result_t advance_wait(const struct tt_op *op)
{
	const struct tt_window_call *call = op->window_call;
	const struct tt_window_part *part = &call->window->part[op->comm->rank];
	/* acquire: pairs with the release in tt_window_count() */
	const uint64_t value =
		atomic_load_explicit(&part->counter[call->signal], memory_order_acquire);

	if (value < call->value)
		return TUTTI_IN_PROGRESS;
	if (op->recv)
		memcpy(op->recv, &value, sizeof(value));
	return TUTTI_OK;
}

static tutti_result_t advance_any(struct tt_op *op, bool *moved)
{
	struct tt_window_call *call = op->window_call;
	tutti_result_t result = TUTTI_OK;

	if (call->kind == TT_FLUSH)
		return advance_flush(op, moved);
	if (call->kind == TT_WAIT_SIGNAL)
		return advance_wait(op);
	if (call->stage == TT_QUEUED) {
		struct tt_window_peer *peer = tt_window_peer_of(call->window, call->peer);

		result = send_queued(peer, moved);
		if (!result && *moved)
			result = tt_window_send(op->comm, peer);
	}
	if (result)
		return result;
	return call->stage == TT_ENDED ? TUTTI_OK : TUTTI_IN_PROGRESS;
}

/* After a failure nothing is served any more, so that who ends is not counted. */
static tutti_result_t advance(struct tt_op *op, bool *moved)
{
	const tutti_result_t result = advance_any(op, moved);

	op->comm->windows->waiting -= result == TUTTI_OK;
	return result;
}

static tutti_result_t begin(struct tt_op *op)
{
	struct tt_window_call *call = op->window_call;
	bool moved = false;

	if (call->kind == TT_FLUSH) { /* in one write with the frames before it */
		call->next_peer = call->peer < 0 ? 0 : call->peer;
		const tutti_result_t result = advance_flush(op, &moved);
		return result < 0 ? result : TUTTI_OK;
	}
	if (call->kind == TT_WAIT_SIGNAL)
		return TUTTI_OK;
	if (is_direct(call)) { /* its buffer is on a GPU, and was copied */
		do_direct(call, op->send, op->recv);
		call->stage = TT_ENDED;
		return TUTTI_OK;
	}
	struct tt_window_peer *peer = tt_window_peer_of(call->window, call->peer);
	queue(peer, op);
	const tutti_result_t result = send_queued(peer, &moved);
	return result ? result : tt_window_send(op->comm, peer);
}

static tutti_result_t start(struct tt_op *op, const struct tt_window_call *call)
{
	if (!op->window_call)
		op->window_call = malloc(sizeof(*op->window_call));
	if (!op->window_call)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "%s: no memory for an operation",
			       tt_one_sided_name(call));
	*op->window_call = *call;
	op->kind = TT_OP_ONE_SIDED;
	op->state = TT_OP_RUNNING;
	op->length = call->bytes;
	op->header = (struct tt_op_header){ .magic = TT_OP_HEADER_MAGIC,
					    .rank = op->comm->rank,
					    .count = call->bytes,
					    .dtype = TUTTI_UINT8 };
	op->comm->windows->waiting++;
	return begin(op);
}

static tutti_result_t submit(const struct tt_window_call *call, const void *send, void *recv,
			     tutti_request_t *request)
{
	const struct tt_call as_call = {
		.collective = TT_SEND_RECV,
		.sending = send != NULL,
		.dtype = TUTTI_UINT8,
		.op = TT_NO_OP,
		.root = call->peer,
		.send = send,
		.recv = recv,
		.count = !send && !recv					? 0
			 : call->kind == TT_PUT || call->kind == TT_GET ? call->bytes
									: sizeof(uint64_t),
		.host_buffers = call->kind != TT_PUT && call->kind != TT_GET,
		.name = tt_one_sided_name(call),
		.one_sided = call,
	};

	return tt_call_submit(call->window->comm, &as_call, request);
}

/* ---- messages of deadlines */

static void describe(struct tt_text *text, const struct tt_op *op)
{
	const struct tt_window_call *call = op->window_call;
	const uint32_t number = call->window->number;

	tt_text_append(text, "rank %d's %s ", op->comm->rank, tt_one_sided_name(call));
	if (call->kind == TT_WAIT_SIGNAL)
		tt_text_append(text, "of signal %" PRIu32 " of window %" PRIu32, call->signal,
			       number);
	else if (call->kind == TT_FLUSH && call->peer < 0)
		tt_text_append(text, "of window %" PRIu32 " to all ranks", number);
	else if (call->kind == TT_FLUSH)
		tt_text_append(text, "of window %" PRIu32 " to rank %d", number, call->peer);
	else
		tt_text_append(text, "of %zu bytes at %zu of window %" PRIu32 " of rank %d",
			       call->bytes, call->offset, number, call->peer);
}

/* Who owes an answer to a flush; -1: it is this rank that has not asked. */
static int who_answers(const struct tt_op *op)
{
	const struct tt_windows *w = op->comm->windows;

	for (int rank = 0; rank < op->comm->size; rank++)
		for (int tag = 0; w->peer[rank] && tag < TT_WINDOW_ASKED; tag++)
			if (w->peer[rank]->asked[tag].op == op)
				return rank;
	return op->window_call->next_peer;
}

static int explain(struct tt_text *text, const struct tt_op *op)
{
	const struct tt_window_call *call = op->window_call;

	if (call->kind == TT_WAIT_SIGNAL) {
		const _Atomic uint64_t *counter =
			&call->window->part[op->comm->rank].counter[call->signal];

		tt_text_append(text,
			       "it is %" PRIu64 ", and not yet %" PRIu64
			       ": has every rank called its tutti_signal()?",
			       atomic_load_explicit(counter, memory_order_relaxed), call->value);
		return -1;
	}
	if (call->stage == TT_QUEUED && call->kind != TT_FLUSH)
		tt_text_append(text, "it waits for calls before it to leave");
	else if (call->kind == TT_PUT)
		tt_text_append(text, "its bytes have not left");
	else
		tt_text_append(text, "the answer has not come");
	return call->kind == TT_FLUSH ? who_answers(op) : call->peer;
}

/* Another rank, with all that it has sent being here. Who closes links may have died, and what tells of
 * that takes a moment. Links that no window needs any more are not looked at. */
static bool has_gone(const struct tutti_comm *comm, int rank, uint64_t now)
{
	const struct tt_window_peer *peer = comm->serves ? comm->windows->peer[rank] : NULL;

	if (peer)
		return peer->ended_at && now - peer->ended_at > DOUBT_NS;
	return tt_window_left(comm, rank);
}

/* Is no other rank left that could send the signal? */
static bool nobody_signals(const struct tt_op *op)
{
	const struct tutti_comm *comm = op->comm;
	const uint64_t now = tt_now();

	for (int rank = 0; rank < comm->size; rank++)
		if (rank != comm->rank && !has_gone(comm, rank, now))
			return false;
	return comm->size > 1 && advance_wait(op) == TUTTI_IN_PROGRESS;
}

static void look(struct tt_op *op)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = -1 };
	struct tt_text text = { fault.text, sizeof(fault.text) };

	if (op->window_call->kind != TT_WAIT_SIGNAL || !nobody_signals(op))
		return;
	describe(&text, op);
	tt_text_append(&text, ": all other ranks have left the communicator; ");
	explain(&text, op);
	tt_comm_revoke(op->comm, &fault);
}

const struct tt_one_sided tt_windows_one_sided = {
	.serve = tt_windows_serve,
	.start = start,
	.advance = advance,
	.look = look,
	.describe = describe,
	.explain = explain,
};

/* ---- calls that end at once */

/* What the thread said of its next call is for this one; or its buffer may be on a GPU. */
static bool becomes_operation(const struct tt_window_call *call)
{
	const bool buffer = (call->kind == TT_PUT || call->kind == TT_GET) && call->bytes > 0;

	return atomic_load_explicit(&call->window->comm->said, memory_order_relaxed) ||
	       (buffer && tt_device_may_have_buffers());
}

/* The frame of a short put goes into the outbox, and on if it has a signal. TUTTI_IN_PROGRESS: it
 * must wait, and *become* an operation. */
static tutti_result_t put_now(struct tt_window_call *call, const void *send)
{
	struct tutti_comm *comm = call->window->comm;
	struct tt_window_peer *peer = tt_window_peer_of(call->window, call->peer);
	tutti_result_t result = TUTTI_IN_PROGRESS;

	if (!is_copied(call) || becomes_operation(call))
		return TUTTI_IN_PROGRESS;
	tt_comm_lock(comm);
	if (!peer->first && !peer->ended_at && !comm->fault.result &&
	    tt_outbox_has_room(&peer->outbox, room_for(call))) {
		result = put_frame(peer, call, send, 0) ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
		if (!result && call->signal != TT_NO_SIGNAL)
			result = tt_window_send(comm, peer);
		if (result)
			result = tt_comm_give_up(comm, result);
	}
	pthread_mutex_unlock(&comm->lock);
	return result;
}

static tutti_result_t put(struct tt_window_call *call, const void *from, bool signals,
			  tutti_request_t *request)
{
	tutti_result_t result = check_target(call, from);

	if (request)
		*request = NULL;
	if (!result && signals)
		result = check_signal(call, call->peer);
	if (result)
		return result;
	if (!is_direct(call))
		result = put_now(call, from);
	else if (becomes_operation(call))
		result = TUTTI_IN_PROGRESS;
	else
		do_direct(call, from, NULL);
	if (result == TUTTI_IN_PROGRESS)
		result = submit(call, from, NULL, request);
	if (!result && is_direct(call) && call->signal != TT_NO_SIGNAL)
		wake(call->window->comm, call->peer);
	return result;
}

TUTTI_API tutti_result_t tutti_put(tutti_window_t window, const void *from, size_t bytes, int rank,
				   size_t offset, tutti_request_t *request)
{
	struct tt_window_call call = { .kind = TT_PUT,
				       .window = window,
				       .peer = rank,
				       .offset = offset,
				       .bytes = bytes,
				       .signal = TT_NO_SIGNAL };

	return put(&call, from, false, request);
}

TUTTI_API tutti_result_t tutti_put_signal(tutti_window_t window, const void *from, size_t bytes,
					  int rank, size_t offset, uint32_t signal, uint64_t add,
					  tutti_request_t *request)
{
	struct tt_window_call call = { .kind = TT_PUT,
				       .window = window,
				       .peer = rank,
				       .offset = offset,
				       .bytes = bytes,
				       .signal = signal,
				       .value = add };

	return put(&call, from, true, request);
}

TUTTI_API tutti_result_t tutti_signal(tutti_window_t window, int rank, uint32_t signal,
				      uint64_t add)
{
	struct tt_window_call call = { .kind = TT_PUT,
				       .window = window,
				       .peer = rank,
				       .signal = signal,
				       .signals_alone = true,
				       .value = add };

	return put(&call, NULL, true, NULL);
}

TUTTI_API tutti_result_t tutti_get(tutti_window_t window, void *to, size_t bytes, int rank,
				   size_t offset, tutti_request_t *request)
{
	const struct tt_window_call call = {
		.kind = TT_GET, .window = window, .peer = rank, .offset = offset, .bytes = bytes
	};
	const tutti_result_t result = check_target(&call, to);

	if (request)
		*request = NULL;
	if (result || bytes == 0)
		return result;
	if (!is_direct(&call) || becomes_operation(&call))
		return submit(&call, NULL, to, request);
	do_direct(&call, NULL, to);
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_fetch_add(tutti_window_t window, int rank, size_t offset,
					 uint64_t add, uint64_t *before, tutti_request_t *request)
{
	const struct tt_window_call call = { .kind = TT_FETCH_ADD,
					     .window = window,
					     .peer = rank,
					     .offset = offset,
					     .bytes = sizeof(add),
					     .value = add };
	const tutti_result_t result = check_target(&call, &add);

	if (request)
		*request = NULL;
	if (result)
		return result;
	if ((window->part[rank].address + offset) % sizeof(add))
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_fetch_add: found offset %zu, where the address on rank %d is "
			       "no multiple of 8, expected one that is",
			       offset, rank);
	if (!is_direct(&call) || becomes_operation(&call))
		return submit(&call, NULL, before, request);
	do_direct(&call, NULL, before);
	return TUTTI_OK;
}

/* Where nothing has to be served, nor is to be given to anybody else, looking is all. */
static bool has_come(const struct tt_window_call *call, uint64_t *value)
{
	const struct tutti_comm *comm = call->window->comm;
	const _Atomic uint64_t *counter = &call->window->part[comm->rank].counter[call->signal];
	const bool spins = !comm->serves && !comm->oversubscribed;
	uint64_t end = 0, found;

	for (unsigned looks = 1;; looks++) {
		/* acquire: pairs with the release in tt_window_count() */
		found = atomic_load_explicit(counter, memory_order_acquire);
		if (found >= call->value || !spins)
			break;
		if (looks % 64 == 0) {
			const uint64_t now = tt_now();

			end = end ? end : now + SPIN_NS;
			if (now > end)
				break;
		}
	}
	if (found >= call->value && value)
		*value = found;
	return found >= call->value;
}

TUTTI_API tutti_result_t tutti_wait_signal(tutti_window_t window, uint32_t signal, uint64_t least,
					   uint64_t *value, tutti_request_t *request)
{
	const struct tt_window_call call = { .kind = TT_WAIT_SIGNAL,
					     .window = window,
					     .peer = -1,
					     .signal = signal,
					     .value = least };
	tutti_result_t result = check_window(&call);

	if (request)
		*request = NULL;
	if (!result)
		result = check_signal(&call, window->comm->rank);
	if (result)
		return result;
	if (!becomes_operation(&call) && has_come(&call, value))
		return TUTTI_OK;
	return submit(&call, NULL, value, request);
}

/* The state of the communicator, and whether the target is still in it. Lock held. */
static tutti_result_t look_after(const struct tt_window_call *call)
{
	struct tutti_comm *comm = call->window->comm;

	tt_comm_look(comm, tt_now());
	const tutti_result_t result = tt_comm_state(comm);
	if (result || !has_left_target(call))
		return result;
	return tt_comm_give_up(comm, fail_left(call, call->peer));
}

/* Nobody has a link: all has arrived. But who only puts must learn of failures, too, so it looks once
 * in a millisecond or so: the coarse clock is the cheapest. */
static tutti_result_t flush_direct(const struct tt_window_call *call)
{
	struct tutti_comm *comm = call->window->comm;
	_Atomic uint64_t *due = &comm->windows->look_at;
	struct timespec coarse;
	tutti_result_t result;

	/* what was stored is seen before what follows */
	atomic_thread_fence(memory_order_acq_rel);
	clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
	const uint64_t now = (uint64_t)coarse.tv_sec * 1000000000u + (uint64_t)coarse.tv_nsec;
	if (now < atomic_load_explicit(due, memory_order_relaxed))
		return TUTTI_OK;
	atomic_store_explicit(due, now + LOOK_NS, memory_order_relaxed);
	tt_comm_lock(comm);
	result = look_after(call);
	pthread_mutex_unlock(&comm->lock);
	return result;
}

TUTTI_API tutti_result_t tutti_flush(tutti_window_t window, int rank, tutti_request_t *request)
{
	const struct tt_window_call call = {
		.kind = TT_FLUSH, .window = window, .peer = rank, .signal = TT_NO_SIGNAL
	};
	tutti_result_t result = check_window(&call);

	if (request)
		*request = NULL;
	if (!result && rank != TUTTI_ANY_PEER)
		result = check_rank(&call);
	if (result)
		return result;
	if (!window->comm->serves && !becomes_operation(&call))
		return flush_direct(&call);
	return submit(&call, NULL, NULL, request);
}
