/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes shared schedules: ranks expose blocks on the board and read each other's. Owns the board's rules.
 *
 * Segments walk the rounds in wavefront order (see links.c), the same on every rank. After each step of it a rank
 * publishes its progress; a rank that reads from a peer waits until the peer has ended the round before. Shared operations
 * run one at a time on a rank, so "peer has posted operation n" says that it has ended all shared ones before n.
 *
 * What is exposed is copied into the slot's payload (small), or into a staging area, or lies where it is if
 * the buffers are memory of tutti_mem_alloc(). A slot is used again after TT_BOARD_SLOTS operations (its payload beyond
 * the hot lines after TT_EAGER_SLOTS), once all peers have posted the one after its last; a staging area once all peers have ended its last segment; a
 * direct buffer is the caller's again once all peers have ended. */
#include "board.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "op.h"

#define CHUNK_BYTES (16u * 1024)
#define LOOKS 100 /* at a peer's progress, where nobody else wants the core */

/* ---- progress words */

/* What a rank publishes when (segment, round) has ended: grows along the wavefront, and is the same on every rank,
 * however many rounds each has. */
static uint64_t steps_at(uint32_t segment, uint32_t round)
{
	return (uint64_t)(segment + round) * TT_STAGES + (TT_STAGES - 1 - round) + 1;
}

#define ALL_STEPS ((1ull << TT_STEP_BITS) - 1) /* the whole operation has ended */

/* acquire: pairs with the release in publish(); what the peer exposed before is visible */
static uint64_t progress_of(const struct tt_board *board, int rank, uint64_t op)
{
	return atomic_load_explicit(&tt_board_slot(board, rank, op)->progress, memory_order_acquire);
}

static void publish(const struct tt_op *op, uint64_t steps)
{
	struct tt_board *board = &op->comm->board;

	/* release: pairs with the acquire in progress_of() */
	atomic_store_explicit(&tt_board_slot(board, op->comm->rank, op->card.seq)->progress,
			      tt_board_mark(op->card.seq, steps), memory_order_release);
	if (op->plan->eager)
		board->owes_wake = true;
	else
		board->endpoint->ops->wake(board->endpoint);
}

/* Waking takes a fence, and the fence waits for the line just written to come back from the peers that poll it: a short
 * operation does what else it can first. */
static void wake_owed(struct tt_board *board)
{
	if (board->owes_wake)
		board->endpoint->ops->wake(board->endpoint);
	board->owes_wake = false;
}

/* Have all peers posted operation `n`? Then nobody reads what this rank exposed in those before. */
static bool all_posted(struct tutti_comm *comm, uint64_t n)
{
	struct tt_board *board = &comm->board;

	for (int rank = 0; rank < comm->size; rank++) {
		if (rank == comm->rank || board->seen[rank] >= n)
			continue;
		if (progress_of(board, rank, n) < tt_board_mark(n, 0))
			return false;
		board->seen[rank] = n;
	}
	return true;
}

/* May operation `seq` use what operation seq - `slots` used? */
static bool slot_is_free(struct tutti_comm *comm, uint64_t seq, uint64_t slots)
{
	return seq <= slots || all_posted(comm, seq - slots + 1);
}

/* ---- cards */

static void write_card(const struct tt_op *op)
{
	struct tt_board_slot *slot = tt_board_slot(&op->comm->board, op->comm->rank, op->card.seq);

	slot->card = op->card;
	/* release: pairs with the acquire in tt_board_compare(); who sees the signature sees its card */
	atomic_store_explicit(&slot->signature, op->signature, memory_order_release);
}

bool tt_board_post(struct tt_op *op)
{
	struct tutti_comm *comm = op->comm;

	if (!comm->board.base)
		return true;
	if (!slot_is_free(comm, op->card.seq, TT_BOARD_SLOTS))
		return false;
	write_card(op);
	publish(op, 0);
	return true;
}

/* The earliest operation that still has its slot and in which `rank` and this one differ, or this one. */
static struct tt_fault find_difference(const struct tt_op *op, int rank)
{
	const struct tt_board *board = &op->comm->board;
	const uint64_t seq = op->card.seq;

	for (uint64_t back = TT_BOARD_SLOTS - 1; back > 0; back--) {
		if (back >= seq)
			continue;
		const struct tt_card mine = tt_board_slot(board, op->comm->rank, seq - back)->card;
		const struct tt_card theirs = tt_board_slot(board, rank, seq - back)->card;

		if (mine.seq == seq - back && theirs.seq == seq - back && !tt_card_equal(&mine, &theirs))
			return tt_card_mismatch(&mine, &theirs);
	}
	return tt_card_mismatch(&op->card, &tt_board_slot(board, rank, seq)->card);
}

static tutti_result_t mismatch(struct tt_op *op, int rank)
{
	struct tt_fault fault = find_difference(op, rank);

	tt_comm_revoke(op->comm, &fault);
	return TUTTI_ERR_MISMATCH;
}

void tt_board_leave(struct tutti_comm *comm)
{
	if (!comm->board.base)
		return;
	/* release: pairs with the acquire in left_before() */
	atomic_store_explicit(&comm->board.base[comm->rank].left, 1, memory_order_release);
	comm->board.endpoint->ops->wake(comm->board.endpoint);
}

/* Did `rank` leave before it posted operation `n`? acquire: pairs with the release in tt_board_leave() */
static bool left_before(const struct tt_board *board, int rank, uint64_t n)
{
	return atomic_load_explicit(&board->base[rank].left, memory_order_acquire) &&
	       progress_of(board, rank, n) < tt_board_mark(n, 0);
}

static void lose(struct tt_op *op, int rank)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = rank };
	char call[120];

	tt_card_describe(&op->card, call, sizeof(call));
	snprintf(fault.text, sizeof(fault.text),
		 "rank %d left the communicator (tutti_comm_destroy) without the others' operation %" PRIu64 ", %s", rank,
		 op->card.seq, call);
	tt_comm_revoke(op->comm, &fault);
}

void tt_board_compare(struct tt_op *op)
{
	const struct tutti_comm *comm = op->comm;
	const uint64_t seq = op->card.seq;

	for (int rank = 0; comm->board.base && rank < comm->size; rank++) {
		const struct tt_board_slot *slot = tt_board_slot(&comm->board, rank, seq);

		/* also one that waits for its slot: a rank that left will not come to it */
		if (left_before(&comm->board, rank, seq)) {
			lose(op, rank);
			return;
		}
		if (op->state == TT_OP_WAITING)
			continue;
		if (progress_of(&comm->board, rank, seq) >> TT_STEP_BITS != seq)
			continue; /* not there yet, or gone on */
		/* acquire: pairs with the release in write_card(); a peer that has gone on may be writing the slot's next
		 * card while its progress still is that of this operation, and writes the card first */
		if (atomic_load_explicit(&slot->signature, memory_order_acquire) != op->signature &&
		    slot->card.seq == seq) {
			mismatch(op, rank);
			return;
		}
	}
}

/* Has `peer` ended `round` of `segment`? TUTTI_OK, TUTTI_IN_PROGRESS, or a mismatch. */
static tutti_result_t peer_ended(struct tt_op *op, int peer, uint32_t segment, uint32_t round)
{
	struct tt_board *board = &op->comm->board;
	const uint64_t seq = op->card.seq, wanted = tt_board_mark(seq, steps_at(segment, round));
	uint64_t progress = progress_of(board, peer, seq);

	/* the next pass comes here a tenth of a microsecond later */
	for (int i = 0; i < LOOKS && progress < wanted && !op->comm->oversubscribed; i++)
		progress = progress_of(board, peer, seq);
	if (progress < wanted) {
		/* a peer that posted a card only is in an operation over links: it cannot be this one */
		if (progress == tt_board_mark(seq, 0))
			return mismatch(op, peer);
		return TUTTI_IN_PROGRESS;
	}
	if (board->seen[peer] < seq) {
		/* relaxed: ordered by the peer's progress word */
		if (atomic_load_explicit(&tt_board_slot(board, peer, seq)->signature, memory_order_relaxed) !=
		    op->signature)
			return mismatch(op, peer);
		board->seen[peer] = seq;
	}
	return TUTTI_OK;
}

/* ---- where exposed blocks are */

static uint8_t *area_of(const struct tt_op *op, int rank, uint32_t segment)
{
	struct tt_board_rank *of = &op->comm->board.base[rank];
	const uint64_t seq = op->card.seq;

	if (op->plan->hot)
		return tt_board_slot(&op->comm->board, rank, seq)->payload;
	if (op->plan->eager)
		return of->eager[seq % TT_EAGER_SLOTS];
	return of->stage[(op->stage_first + segment) % TT_STAGES];
}

static const uint8_t *peer_direct(const struct tt_op *op, int peer, const struct tt_board_slot *slot,
				  const struct tt_ref *ref, uint32_t k, uint32_t segment)
{
	struct tt_endpoint *endpoint = op->comm->board.endpoint;
	const struct tt_plan *plan = op->plan;
	const struct tt_layout layout = ref->buffer == TT_BUF_SEND ? tt_layout_of_peer(&plan->send, &plan->recv) :
								     tt_layout_of_peer(&plan->recv, &plan->send);
	const struct tt_bytes at = tt_layout_at(&layout, op->element, plan->segments, segment,
						ref->block + k);
	const uint64_t token = ref->buffer == TT_BUF_SEND ? slot->send_token : slot->recv_token;
	const uint8_t *base = endpoint->ops->import_memory(endpoint, peer, token, at.offset + at.length);

	return base ? base + at.offset : NULL;
}

/* NULL: the peer's memory cannot be mapped. */
static const uint8_t *peer_place(const struct tt_op *op, int peer, const struct tt_ref *ref, uint32_t k,
				 uint32_t segment)
{
	const struct tt_board_slot *slot = tt_board_slot(&op->comm->board, peer, op->card.seq);

	if (!op->plan->eager && ref->buffer != TT_BUF_SCRATCH && slot->direct == TT_MEMORY_DIRECT)
		return peer_direct(op, peer, slot, ref, k, segment);
	return area_of(op, peer, segment) + tt_plan_exposed_at(op->plan, op->comm->size, ref, k);
}

/* This rank's own block. Scratch of a shared schedule lies where peers read it. */
static uint8_t *own_place(const struct tt_op *op, const struct tt_ref *ref, uint32_t k, uint32_t segment,
			  size_t *length)
{
	uint8_t *place = tt_op_place(op, ref, k, segment, length);

	if (ref->buffer != TT_BUF_SCRATCH)
		return place;
	return area_of(op, op->comm->rank, segment) + tt_plan_exposed_at(op->plan, op->comm->size, ref, k);
}

static const uint8_t *source_place(const struct tt_op *op, const struct tt_step *source, uint32_t k,
				   uint32_t segment)
{
	size_t unused;

	if (source->peer == op->comm->rank)
		return own_place(op, &source->a, k, segment, &unused);
	return peer_place(op, source->peer, &source->a, k, segment);
}

/* Does exposing this run need a copy? */
static bool copied(const struct tt_op *op, const struct tt_ref *ref)
{
	return !op->direct && ref->buffer != TT_BUF_SCRATCH;
}

static void expose(const struct tt_op *op, const struct tt_step *step, uint32_t segment)
{
	uint8_t *area = area_of(op, op->comm->rank, segment);

	for (uint32_t k = 0; k < step->n && copied(op, &step->a); k++) {
		size_t length;
		const uint8_t *place = own_place(op, &step->a, k, segment, &length);

		memcpy(area + tt_plan_exposed_at(op->plan, op->comm->size, &step->a, k), place, length);
	}
}

/* ---- steps */

static void reduce_bytes(const struct tt_op *op, const struct tt_step *step, uint8_t *dst,
			 const uint8_t *const *src, size_t bytes)
{
	if (step->sources > 1 || (step->final && op->plan->call.op == TUTTI_AVG))
		tt_combine(op, dst, (const void *const *)src, step->sources, bytes / op->element,
			   step->final);
	else if (src[0] != dst)
		memcpy(dst, src[0], bytes);
}

/* dst = the sources, copied to `also` while it is in the cache. */
static void reduce_and_copy(const struct tt_op *op, const struct tt_step *step, uint8_t *dst,
			    const uint8_t **src, size_t length, uint8_t *also)
{
	for (size_t done = 0; done < length; done += CHUNK_BYTES) {
		const size_t bytes = length - done < CHUNK_BYTES ? length - done : CHUNK_BYTES;

		reduce_bytes(op, step, dst + done, src, bytes);
		memcpy(also + done, dst + done, bytes);
		for (uint32_t i = 0; i < step->sources; i++)
			src[i] += bytes;
	}
}

static bool same_run(const struct tt_step *a, const struct tt_step *b)
{
	return a->n == b->n && a->a.buffer == b->a.buffer && a->a.slot == b->a.slot &&
	       a->a.block == b->a.block;
}

static tutti_result_t run_reduce(struct tt_op *op, const struct tt_step *step,
				 const struct tt_step *exposing, uint32_t segment)
{
	const uint8_t **src = (const uint8_t **)op->sources;

	for (uint32_t k = 0; k < step->n; k++) {
		size_t length;
		uint8_t *also = NULL, *dst = own_place(op, &step->a, k, segment, &length);

		if (length == 0)
			continue;
		if (exposing && copied(op, &exposing->a))
			also = area_of(op, op->comm->rank, segment) +
			       tt_plan_exposed_at(op->plan, op->comm->size, &exposing->a, k);
		for (uint32_t i = 0; i < step->sources; i++) {
			src[i] = source_place(op, &step[1 + i], k, segment);
			if (!src[i])
				return TUTTI_ERR_SYSTEM;
		}
		if (also)
			reduce_and_copy(op, step, dst, src, length, also);
		else
			reduce_bytes(op, step, dst, src, length);
	}
	return TUTTI_OK;
}

static tutti_result_t sources_ready(struct tt_op *op, const struct tt_step *step, uint32_t segment,
				    uint32_t round)
{
	for (uint32_t i = 0; i < step->sources; i++) {
		const int peer = step[1 + i].peer;

		if (peer == op->comm->rank)
			continue;
		const tutti_result_t result = peer_ended(op, peer, segment, round - 1);
		if (result)
			return result;
	}
	return TUTTI_OK;
}

/* Run the step at op->step; gives how many entries of the schedule it took. */
static tutti_result_t run_step(struct tt_op *op, uint32_t segment, uint32_t round, uint32_t end,
			       uint32_t *taken)
{
	const struct tt_step *step = &op->plan->sched.steps[op->step];
	const struct tt_step *exposing = NULL;
	tutti_result_t result;

	*taken = 1;
	if (step->kind == TT_STEP_AWAIT)
		return peer_ended(op, step->peer, segment, round - 1);
	if (step->kind == TT_STEP_EXPOSE) {
		expose(op, step, segment);
		return TUTTI_OK;
	}
	*taken += step->sources;
	result = sources_ready(op, step, segment, round);
	if (result)
		return result;
	if (op->step + *taken < end && step[*taken].kind == TT_STEP_EXPOSE &&
	    same_run(step, &step[*taken])) {
		exposing = &step[*taken];
		++*taken;
	}
	return run_reduce(op, step, exposing, segment);
}

/* ---- staging areas */

/* May segment `segment` write its staging area? All peers must have ended the segment that used it last. */
static bool stage_is_free(struct tt_op *op, uint32_t segment)
{
	struct tt_board *board = &op->comm->board;
	const uint64_t area = (op->stage_first + segment) % TT_STAGES;
	const uint64_t wanted = board->stage_last[area];

	for (int rank = 0; rank < op->comm->size && wanted; rank++)
		if (rank != op->comm->rank && progress_of(board, rank, board->stage_op[area]) < wanted)
			return false;
	board->stage_op[area] = op->card.seq;
	/* a peer may have more rounds than this rank: wait for the last that any can have */
	board->stage_last[area] = tt_board_mark(op->card.seq, steps_at(segment, TT_STAGES - 1));
	return true;
}

/* ---- an operation */

/* Expose the caller's buffers themselves where peers can map them. */
static void try_direct(struct tt_op *op)
{
	const struct tt_plan *plan = op->plan;
	struct tt_board_slot *slot = tt_board_slot(&op->comm->board, op->comm->rank, op->card.seq);
	struct tt_endpoint *endpoint = op->comm->board.endpoint;

	op->direct = (plan->send.kind == TT_LAYOUT_NONE ||
		      endpoint->ops->export_memory(endpoint, op->send, tt_layout_extent(&plan->send, op->element),
						   &slot->send_token)) &&
		     (plan->recv.kind == TT_LAYOUT_NONE ||
		      endpoint->ops->export_memory(endpoint, op->recv, tt_layout_extent(&plan->recv, op->element),
						   &slot->recv_token));
	slot->direct = op->direct ? TT_MEMORY_DIRECT : TT_MEMORY_STAGED;
}

tutti_result_t tt_shared_begin(struct tt_op *op)
{
	struct tutti_comm *comm = op->comm;

	if (!slot_is_free(comm, op->card.seq, op->plan->hot ? TT_BOARD_SLOTS : TT_EAGER_SLOTS))
		return TUTTI_IN_PROGRESS;
	const tutti_result_t result = tt_op_reserve(op);
	if (result)
		return result;
	op->time = op->segment = 0;
	op->step = 0;
	op->awaited = 0;
	op->direct = false;
	write_card(op);
	if (!op->plan->eager) {
		op->stage_first = comm->board.stages_used;
		comm->board.stages_used += op->plan->segments;
		try_direct(op);
	}
	return TUTTI_OK;
}

/* To the next (time, segment); false at the end. */
static bool next_in_wavefront(struct tt_op *op)
{
	const uint32_t rounds = op->plan->sched.nrounds, segments = op->plan->segments;

	op->segment++;
	if (op->segment >= segments || op->segment > op->time) {
		op->time++;
		op->segment = op->time + 1 > rounds ? op->time + 1 - rounds : 0;
	}
	if (op->segment >= segments)
		return false;
	op->step = op->plan->sched.round[op->time - op->segment];
	return true;
}

/* A direct buffer is the caller's again when all have read it. */
static tutti_result_t await_readers(struct tt_op *op)
{
	const uint64_t last = tt_board_mark(op->card.seq, ALL_STEPS);

	for (; op->direct && op->awaited < op->comm->size; op->awaited++)
		if (op->awaited != op->comm->rank &&
		    progress_of(&op->comm->board, op->awaited, op->card.seq) < last)
			return TUTTI_IN_PROGRESS;
	return TUTTI_OK;
}

static tutti_result_t advance(struct tt_op *op, bool *moved)
{
	const struct tt_sched *sched = &op->plan->sched;

	while (op->segment < op->plan->segments) {
		const uint32_t segment = op->segment, round = op->time - segment;
		const uint32_t end = sched->round[round + 1];

		if (round == 0 && op->step == sched->round[0] && !op->plan->eager &&
		    !stage_is_free(op, segment))
			return TUTTI_IN_PROGRESS;
		while (op->step < end) {
			uint32_t taken;
			const tutti_result_t result = run_step(op, segment, round, end, &taken);

			if (result)
				return result;
			op->step += taken;
			*moved = true;
		}
		const bool more = next_in_wavefront(op);
		/* who comes to the next operation has ended this one: nobody waits for the end of an eager one */
		if (!more && !op->plan->eager)
			publish(op, ALL_STEPS);
		else if (more || op->plan->publishes_last)
			publish(op, steps_at(segment, round));
	}
	return await_readers(op);
}

tutti_result_t tt_shared_advance(struct tt_op *op, bool *moved)
{
	const tutti_result_t result = advance(op, moved);

	wake_owed(&op->comm->board);
	return result;
}
