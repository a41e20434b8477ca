/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what goes and comes on the links of one-sided calls: frames of this rank's calls, what
 * peers' frames do here, and the answers.
 *
 * Nothing here waits for a peer to read before it reads itself: answers are kept in rows of
 * their own, of as many as a rank may ask for at once, until the outbox has room. So two ranks that
 * put and get in both directions do not wait for each other. What a frame says is checked: a peer
 * may run anything. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"
#include "log.h"
#include "windows.h"

#define FRAMES_MOST 256	       /* of a peer in a pass, before the others have their turn */
#define BYTES_MOST  (4u << 20) /* likewise */
#define LIVELY	    256	       /* passes that look at all links after something came */
#define PASSES	    8	       /* of which one looks at all links while nothing comes */
#define PEEK_MOST   16384      /* bytes: many short frames at once, and little of a long payload */

/* ---- what comes */

/* No tutti sends this: end the communicator. */
static tutti_result_t refuse(struct tutti_comm *comm, int from, const struct tt_frame *f,
			     const char *what)
{
	struct tt_fault fault = { .result = TUTTI_ERR_MISMATCH, .rank = from };

	snprintf(fault.text, sizeof(fault.text),
		 "rank %d sent rank %d a one-sided call that is %s (kind %u, window %" PRIu32
		 ", %" PRIu64 " bytes at %" PRIu64 ", signal %" PRIu32 ", tag %u)",
		 from, comm->rank, what, f->kind, f->window, f->bytes, f->offset, f->signal,
		 f->tag);
	tt_comm_revoke(comm, &fault);
	return TUTTI_ERR_MISMATCH;
}

static struct tutti_window *window_of(const struct tutti_comm *comm, const struct tt_frame *f)
{
	const struct tt_windows *w = comm->windows;

	return f->window < w->count ? w->all[f->window] : NULL;
}

/* NULL: it is in order. */
static const char *wrong_place(const struct tutti_comm *comm, const struct tt_frame *f,
			       uint64_t bytes)
{
	const struct tutti_window *window = window_of(comm, f);

	if (!window)
		return "for no window";
	const struct tt_window_part *part = &window->part[comm->rank];
	if (bytes > part->bytes || f->offset > part->bytes - bytes)
		return "outside the window";
	if (f->kind == TT_FRAME_PUT && f->signal != TT_NO_SIGNAL && f->signal >= part->signals)
		return "for no signal";
	if (f->kind == TT_FRAME_ADD && (uintptr_t)(part->memory + f->offset) % 8)
		return "not at a multiple of 8";
	return NULL;
}

static const char *answer(struct tt_window_peer *peer, const struct tt_answer *answer)
{
	if (peer->answer_count == TT_WINDOW_ASKED)
		return "one of too many at once";
	peer->answers[(peer->first_answer + peer->answer_count++) % TT_WINDOW_ASKED] = *answer;
	return NULL;
}

static const char *begin_call(struct tutti_comm *comm, struct tt_window_peer *peer)
{
	const struct tt_frame *f = &peer->frame;
	const char *wrong = wrong_place(comm, f, f->kind == TT_FRAME_ADD ? 8 : f->bytes);
	struct tt_answer reply = { .frame = { .magic = TT_FRAME_MAGIC, .tag = f->tag } };

	if (wrong)
		return wrong;
	uint8_t *at = window_of(comm, f)->part[comm->rank].memory + f->offset;
	if (f->kind == TT_FRAME_PUT) {
		peer->to = at;
		peer->left = f->bytes;
		return NULL;
	}
	if (f->kind == TT_FRAME_ADD) {
		reply.frame.kind = TT_FRAME_VALUE;
		reply.frame.value = tt_window_add(at, f->value);
	} else {
		reply.frame.kind = TT_FRAME_DATA;
		reply.frame.window = f->window;
		reply.frame.bytes = f->bytes;
		reply.from = at;
	}
	return answer(peer, &reply);
}

/* The kind of call that this answers. */
static enum tt_one_sided_kind answered_by(const struct tt_frame *f)
{
	return f->kind == TT_FRAME_DATA	   ? TT_GET
	       : f->kind == TT_FRAME_VALUE ? TT_FETCH_ADD
					   : TT_FLUSH;
}

static const char *begin_answer(struct tt_window_peer *peer)
{
	const struct tt_frame *f = &peer->frame;
	struct tt_op *op = f->tag < TT_WINDOW_ASKED ? peer->asked[f->tag].op : NULL;

	if (!op || op->window_call->kind != answered_by(f) ||
	    (f->kind == TT_FRAME_DATA && f->bytes != op->window_call->bytes))
		return "the answer to nothing";
	if (f->kind == TT_FRAME_DATA) {
		peer->to = op->recv;
		peer->left = f->bytes;
	}
	return NULL;
}

static const char *begin_frame(struct tutti_comm *comm, struct tt_window_peer *peer)
{
	const struct tt_frame *f = &peer->frame;
	const struct tt_answer done = {
		.frame = { .magic = TT_FRAME_MAGIC, .kind = TT_FRAME_DONE, .tag = f->tag }
	};

	if (f->magic != TT_FRAME_MAGIC || f->kind >= TT_FRAME_KINDS)
		return "none";
	switch ((enum tt_frame_kind)f->kind) {
	case TT_FRAME_FLUSH: return answer(peer, &done);
	case TT_FRAME_PUT:
	case TT_FRAME_GET:
	case TT_FRAME_ADD: return begin_call(comm, peer);
	default: return begin_answer(peer);
	}
}

static void end_answer(struct tt_window_peer *peer)
{
	const struct tt_frame *f = &peer->frame;
	struct tt_asked *asked = &peer->asked[f->tag];
	struct tt_window_call *call = asked->op->window_call;

	if (f->kind == TT_FRAME_VALUE && asked->op->recv)
		memcpy(asked->op->recv, &f->value, sizeof(f->value));
	if (f->kind == TT_FRAME_DONE) {
		if (asked->sent > peer->flushed)
			peer->flushed = asked->sent;
		call->answers--;
	} else {
		call->stage = TT_ENDED;
	}
	asked->op = NULL;
}

static void end_frame(struct tutti_comm *comm, struct tt_window_peer *peer)
{
	const struct tt_frame *f = &peer->frame;

	peer->open = false;
	if (f->kind == TT_FRAME_PUT && f->signal != TT_NO_SIGNAL)
		tt_window_count(&window_of(comm, f)->part[comm->rank], f->signal, f->value);
	if (f->kind == TT_FRAME_DATA || f->kind == TT_FRAME_VALUE || f->kind == TT_FRAME_DONE)
		end_answer(peer);
}

/* 1: a frame has begun; 0 and errors like a link's read(). */
static ssize_t take_header(struct tutti_comm *comm, struct tt_window_peer *peer)
{
	struct tt_link *link = peer->connection->link;
	const void *data;
	const ssize_t there = link->ops->peek(link, sizeof(peer->frame), PEEK_MOST, &data);

	if (there < (ssize_t)sizeof(peer->frame))
		return there < 0 ? there : 0;
	memcpy(&peer->frame, data, sizeof(peer->frame));
	link->ops->release(link, sizeof(peer->frame));
	peer->left = 0;
	const char *wrong = begin_frame(comm, peer);
	if (wrong)
		return refuse(comm, link->peer, &peer->frame, wrong);
	peer->open = true;
	return 1;
}

static ssize_t take_payload(struct tt_window_peer *peer)
{
	struct tt_link *link = peer->connection->link;
	const struct iovec rest = { peer->to, peer->left };
	const ssize_t bytes = link->ops->read(link, &rest, 1);

	if (bytes > 0) {
		peer->to += bytes;
		peer->left -= (size_t)bytes;
	}
	return bytes;
}

static bool is_idle(const struct tt_window_peer *peer)
{
	for (int tag = 0; tag < TT_WINDOW_ASKED; tag++)
		if (peer->asked[tag].op)
			return false;
	return !peer->open && !peer->first && peer->outbox.count == 0;
}

/* A peer may leave where nobody waits for it: who does later is told then. */
static bool has_left(const struct tt_window_peer *peer, ssize_t result)
{
	return result == TUTTI_ERR_PEER_LOST && is_idle(peer);
}

static tutti_result_t receive(struct tutti_comm *comm, struct tt_window_peer *peer, bool *moved)
{
	size_t all = 0;

	for (int frames = 0; frames < FRAMES_MOST && all < BYTES_MOST && !peer->ended_at;) {
		ssize_t bytes = 1;

		if (!peer->open)
			bytes = take_header(comm, peer);
		else if (peer->left > 0)
			bytes = take_payload(peer);
		if (has_left(peer, bytes)) {
			peer->ended_at = tt_now();
			return TUTTI_OK;
		}
		if (bytes <= 0)
			return (tutti_result_t)bytes;
		*moved = true;
		all += (size_t)bytes;
		if (peer->open && peer->left == 0) {
			end_frame(comm, peer);
			frames++;
		}
	}
	return TUTTI_OK;
}

/* Do bytes come for this rank's part, or are some of it still to leave? Other windows may be on the
 * same memory. */
static bool goes_on(const struct tt_window_peer *peer, uint32_t window)
{
	if (peer->open && peer->frame.kind == TT_FRAME_PUT && peer->frame.window == window)
		return true;
	for (uint32_t i = 0; i < peer->answer_count; i++) {
		const struct tt_answer *next =
			&peer->answers[(peer->first_answer + i) % TT_WINDOW_ASKED];

		if (next->frame.bytes > 0 && next->frame.window == window)
			return true;
	}
	return tt_outbox_lends(&peer->outbox, window);
}

tutti_result_t tt_window_close(const struct tutti_window *window)
{
	struct tutti_comm *comm = window->comm;
	tutti_result_t result = TUTTI_OK;

	for (int rank = 0; rank < comm->size && !comm->fault.result; rank++) {
		const struct tt_window_peer *peer = comm->windows->peer[rank];

		if (peer && goes_on(peer, window->number))
			result = refuse(comm, rank, &peer->frame, "not over where its window ends");
	}
	return result;
}

/* ---- what goes */

static tutti_result_t put_answers(struct tt_window_peer *peer)
{
	for (; peer->answer_count > 0; peer->answer_count--) {
		const struct tt_answer *next = &peer->answers[peer->first_answer];

		if (!tt_outbox_has_room(&peer->outbox, sizeof(next->frame)))
			return TUTTI_OK;
		uint8_t *at = tt_outbox_place(&peer->outbox, sizeof(next->frame));
		if (!at)
			return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
				       "no memory for answers to rank %d's one-sided calls",
				       peer->connection->link->peer);
		memcpy(at, &next->frame, sizeof(next->frame));
		if (next->frame.bytes > 0)
			tt_outbox_lend(&peer->outbox, next->from, next->frame.bytes,
				       next->frame.window, NULL);
		peer->first_answer = (peer->first_answer + 1) % TT_WINDOW_ASKED;
	}
	return TUTTI_OK;
}

tutti_result_t tt_window_send(struct tutti_comm *comm, struct tt_window_peer *peer)
{
	const tutti_result_t result = put_answers(peer);
	const ssize_t bytes =
		result ? result : tt_outbox_write(&peer->outbox, peer->connection->link);

	if (bytes < 0)
		comm->routes.failed_peer = peer->connection->link->peer;
	return bytes < 0 ? (tutti_result_t)bytes : TUTTI_OK;
}

/* A look at a link costs a system call where it is a socket. */
static bool looks(struct tt_windows *w, bool thorough)
{
	if (thorough || w->waiting > 0)
		return true;
	if (w->lively > 0) {
		w->lively--;
		return true;
	}
	return ++w->passes % PASSES == 0;
}

bool tt_windows_serve(struct tutti_comm *comm, bool thorough)
{
	bool moved = false;

	if (!looks(comm->windows, thorough))
		return false;
	for (int rank = 0; rank < comm->size && !comm->fault.result; rank++) {
		struct tt_window_peer *peer = comm->windows->peer[rank];
		tutti_result_t result;

		if (!peer)
			continue;
		result = receive(comm, peer, &moved);
		if (result)
			comm->routes.failed_peer = rank;
		if (!result && (peer->answer_count > 0 || peer->outbox.count > 0))
			result = tt_window_send(comm, peer);
		if (result && !comm->fault.result)
			tt_comm_revoke_for(comm, result);
	}
	if (moved)
		comm->windows->lively = LIVELY;
	return moved;
}
