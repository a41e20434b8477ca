/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes shared schedules of long blocks (eager.c has those of short ones): ranks expose blocks on
 * the control area and read each other's.
 *
 * Segments walk the rounds in wavefront order (see links.c), the same on every rank, but that at
 * equal times the higher one comes first: it is exposed before this rank waits for others in the
 * rounds of those before it. After each step of it a rank publishes its progress; a rank that
 * reads from a peer waits until the peer has ended the round before. Shared operations run one
 * at a time on a rank, so "peer has posted operation n" says that it has ended all shared ones
 * before n.
 *
 * What is exposed is copied into a staging area, or lies where it is if the buffers are memory of
 * tutti_mem_alloc(). If all ranks even lend their results, none exposes its part of it: it is
 * written into the others' at once, from when they have posted the operation to when they go on to
 * the next.
 *
 * A staging area is used again once all peers have ended its last segment; a direct buffer is the
 * caller's again once all peers have ended. */
#include <string.h>

#include "area_post.h"

#define CHUNK_BYTES (16u * 1024)

/* ---- where exposed blocks are */

static uint8_t *area_of(const struct tt_op *op, int rank, uint32_t segment)
{
	return op->comm->control_area.stage[rank][(op->area + segment) % TT_STAGES];
}

static uint8_t *peer_direct(const struct tt_op *op, int peer, const struct tt_area_slot *slot,
			    const struct tt_ref *ref, uint32_t k, uint32_t segment)
{
	struct tt_endpoint *endpoint = op->comm->control_area.endpoint;
	const struct tt_plan *plan = op->plan;
	const struct tt_layout layout = ref->buffer == TT_BUF_SEND
						? tt_layout_of_peer(&plan->send, &plan->recv)
						: tt_layout_of_peer(&plan->recv, &plan->send);
	const struct tt_bytes at =
		tt_layout_at(&layout, op->element, plan->segments, segment, ref->block + k);
	const uint64_t token = ref->buffer == TT_BUF_SEND ? slot->send_token : slot->recv_token;
	uint8_t *base = endpoint->ops->memory->import(endpoint, peer, token, at.offset + at.length);

	return base ? base + at.offset : NULL;
}

/* NULL: the peer's memory cannot be mapped. */
static uint8_t *peer_place(const struct tt_op *op, int peer, const struct tt_ref *ref, uint32_t k,
			   uint32_t segment)
{
	const struct tt_area_slot *slot = &op->slots[peer];

	if (ref->buffer != TT_BUF_SCRATCH && slot->memory != TT_MEMORY_STAGED)
		return peer_direct(op, peer, slot, ref, k, segment);
	return area_of(op, peer, segment) + tt_plan_exposed_at(op->plan, op->comm->size, ref, k);
}

/* This rank's own block. Scratch of a shared schedule lies where peers read it. */
static uint8_t *own_place(const struct tt_op *op, const struct tt_ref *ref, uint32_t k,
			  uint32_t segment, size_t *length)
{
	uint8_t *place = tt_op_place(op, ref, k, segment, length);

	if (ref->buffer != TT_BUF_SCRATCH)
		return place;
	return area_of(op, op->comm->rank, segment) +
	       tt_plan_exposed_at(op->plan, op->comm->size, ref, k);
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

		if (length > 0) /* who has nothing may have no buffer */
			memcpy(area + tt_plan_exposed_at(op->plan, op->comm->size, &step->a, k),
			       place, length);
	}
}

/* ---- steps */

/* Not in place: there the lines to write are those just read. */
static bool streams(const struct tt_op *op)
{
	return (op->granted ? op->plan->streams_granted : op->plan->streams) &&
	       op->send != op->recv;
}

static void copy_result(const struct tt_op *op, const struct tt_step *step, uint8_t *dst,
			const uint8_t *src, size_t bytes)
{
	if (step->a.buffer == TT_BUF_RECV && streams(op))
		op->comm->kernels->copy_stream(dst, src, bytes);
	else
		memcpy(dst, src, bytes);
}

static void reduce_bytes(const struct tt_op *op, const struct tt_step *step, uint8_t *dst,
			 const uint8_t *const *src, size_t bytes)
{
	if (step->sources > 1 || (step->final && op->plan->call.op == TUTTI_AVG))
		tt_combine(op->plan, op->comm->size, step, dst, (const void *const *)src,
			   step->sources, bytes / op->element);
	else if (src[0] != dst)
		copy_result(op, step, dst, src[0], bytes);
}

/* dst and the n targets = the sources. */
static void reduce_and_copy(const struct tt_op *op, const struct tt_step *step, uint8_t *dst,
			    const uint8_t **src, size_t length, uint32_t n)
{
	const size_t chunk = CHUNK_BYTES / op->element * op->element; /* whole elements */

	for (size_t done = 0; done < length; done += chunk) {
		const size_t bytes = length - done < chunk ? length - done : chunk;

		reduce_bytes(op, step, dst + done, src, bytes);
		for (uint32_t i = 0; i < n; i++)
			copy_result(op, step, op->targets[i] + done, dst + done, bytes);
		for (uint32_t i = 0; i < step->sources; i++)
			src[i] += bytes;
	}
}

static bool same_run(const struct tt_step *a, const struct tt_step *b)
{
	return a->n == b->n && a->a.buffer == b->a.buffer && a->a.slot == b->a.slot &&
	       a->a.block == b->a.block;
}

/* Do all ranks grant writes to their results? Known when all have posted the operation, and the
 * same on all of them. */
static bool pushes(const struct tt_op *op)
{
	for (int rank = 0; rank < op->comm->size && op->plan->pushes; rank++)
		if (op->slots[rank].memory != TT_MEMORY_GRANTED)
			return false;
	return op->plan->pushes;
}

/* All peers' places of what this rank would expose; gives how many, 0: one cannot be mapped. */
static uint32_t find_targets(const struct tt_op *op, const struct tt_ref *ref, uint32_t k,
			     uint32_t segment)
{
	const int size = op->comm->size;
	uint32_t n = 0;

	for (int i = 1; i < size; i++) {
		op->targets[n] = peer_place(op, (op->comm->rank + i) % size, ref, k, segment);
		if (!op->targets[n++])
			return 0;
	}
	return n;
}

static tutti_result_t run_reduce(struct tt_op *op, const struct tt_step *step,
				 const struct tt_step *exposing, uint32_t segment)
{
	const uint8_t **src = (const uint8_t **)op->sources;
	const bool push = exposing && pushes(op);

	for (uint32_t k = 0; k < step->n; k++) {
		size_t length;
		uint8_t *dst = own_place(op, &step->a, k, segment, &length);
		uint32_t targets = 0;

		if (length == 0)
			continue;
		for (uint32_t i = 0; i < step->sources; i++) {
			src[i] = source_place(op, &step[1 + i], k, segment);
			if (!src[i])
				return TUTTI_ERR_SYSTEM;
		}
		if (exposing && copied(op, &exposing->a)) {
			/* peers read what is exposed soon: that is what stays in the cache */
			op->targets[targets++] = dst;
			dst = area_of(op, op->comm->rank, segment) +
			      tt_plan_exposed_at(op->plan, op->comm->size, &exposing->a, k);
		} else if (push) {
			targets = find_targets(op, &exposing->a, k, segment);
			if (!targets)
				return TUTTI_ERR_SYSTEM;
		}
		if (targets)
			reduce_and_copy(op, step, dst, src, length, targets);
		else
			reduce_bytes(op, step, dst, src, length);
	}
	return TUTTI_OK;
}

/* Does the step copy what a peer has written here already? */
static bool was_pushed(const struct tt_op *op, const struct tt_step *step)
{
	return step[1].a.buffer == TT_BUF_RECV && step[1].peer != op->comm->rank && pushes(op);
}

static tutti_result_t sources_ready(struct tt_op *op, const struct tt_step *step, uint32_t segment,
				    uint32_t round)
{
	for (uint32_t i = 0; i < step->sources; i++) {
		const int peer = step[1 + i].peer;

		if (peer == op->comm->rank)
			continue;
		const tutti_result_t result = tt_area_peer_ended(op, peer, segment, round - 1);
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
		return tt_area_peer_ended(op, step->peer, segment, round - 1);
	if (step->kind == TT_STEP_EXPOSE) {
		expose(op, step, segment);
		return TUTTI_OK;
	}
	*taken += step->sources;
	if (op->plan->pushes && was_pushed(op, step))
		return TUTTI_OK;
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

/* May segment `segment` write its staging area? All peers must have ended the segment that used
 * it last. */
static bool stage_is_free(struct tt_op *op, uint32_t segment)
{
	struct tt_area *control_area = &op->comm->control_area;
	const uint64_t area = (op->area + segment) % TT_STAGES;
	const uint64_t wanted = control_area->stage_last[area];

	for (int rank = 0; rank < op->comm->size && wanted; rank++)
		if (rank != op->comm->rank &&
		    tt_area_progress(control_area, rank, control_area->stage_op[area]) < wanted)
			return false;
	control_area->stage_op[area] = op->header.seq;
	/* a peer may have more rounds than this rank; it has ended the last that any can have
	 * once it exposes the segment so many later */
	control_area->stage_last[area] =
		tt_area_mark(op->header.seq, tt_area_steps(segment + TT_ROUNDS, 0));
	return true;
}

/* ---- an operation */

/* Expose the caller's buffers themselves where peers can map them. */
static void try_direct(struct tt_op *op)
{
	const struct tt_plan *plan = op->plan;
	struct tt_area_slot *slot = &op->slots[op->comm->rank];
	struct tt_endpoint *endpoint = op->comm->control_area.endpoint;

	op->direct = (plan->send.kind == TT_LAYOUT_NONE ||
		      endpoint->ops->memory->export(endpoint, op->send,
						    tt_layout_extent(&plan->send, op->element),
						    &slot->send_token)) &&
		     (plan->recv.kind == TT_LAYOUT_NONE ||
		      endpoint->ops->memory->export(endpoint, op->recv,
						    tt_layout_extent(&plan->recv, op->element),
						    &slot->recv_token));
	op->granted = op->direct && plan->pushes &&
		      endpoint->ops->memory->grants_writes(
			      endpoint, op->recv, tt_layout_extent(&plan->recv, op->element));
	slot->memory = op->granted  ? TT_MEMORY_GRANTED
		       : op->direct ? TT_MEMORY_DIRECT
				    : TT_MEMORY_STAGED;
}

tutti_result_t tt_shared_begin(struct tt_op *op)
{
	struct tutti_comm *comm = op->comm;

	if (!tt_area_is_free(comm, op->header.seq))
		return TUTTI_IN_PROGRESS;
	const tutti_result_t result = tt_op_reserve(op);
	if (result)
		return result;
	op->time = op->segment = 0;
	op->step = 0;
	op->awaited = 0;
	op->direct = false;
	tt_area_write_header(op);
	op->area = comm->control_area.stages_used;
	comm->control_area.stages_used += op->plan->segments;
	try_direct(op);
	return TUTTI_OK;
}

/* To the next (time, segment); false at the end. */
static bool next_in_wavefront(struct tt_op *op)
{
	const uint32_t rounds = op->plan->sched.nrounds, segments = op->plan->segments;

	if (op->segment > 0 && op->time - op->segment + 1 < rounds) {
		op->segment--;
	} else {
		op->time++;
		op->segment = op->time < segments ? op->time : segments - 1;
	}
	if (op->time - op->segment >= rounds) {
		op->segment = segments;
		return false;
	}
	op->step = op->plan->sched.round[op->time - op->segment];
	return true;
}

/* A direct buffer is the caller's again when all have read it, and written to it. */
static tutti_result_t await_readers(struct tt_op *op)
{
	const uint64_t last = tt_area_mark(op->header.seq, TT_AREA_ALL_STEPS);

	for (; op->direct && op->awaited < op->comm->size; op->awaited++)
		if (op->awaited != op->comm->rank &&
		    tt_area_progress(&op->comm->control_area, op->awaited, op->header.seq) < last)
			return TUTTI_IN_PROGRESS;
	return TUTTI_OK;
}

static tutti_result_t advance(struct tt_op *op, bool *moved)
{
	const struct tt_sched *sched = &op->plan->sched;

	while (op->segment < op->plan->segments) {
		const uint32_t segment = op->segment, round = op->time - segment;
		const uint32_t end = sched->round[round + 1];

		if (round == 0 && op->step == sched->round[0] && !stage_is_free(op, segment))
			return TUTTI_IN_PROGRESS;
		while (op->step < end) {
			uint32_t taken;
			const tutti_result_t result = run_step(op, segment, round, end, &taken);

			if (result)
				return result;
			op->step += taken;
			*moved = true;
		}
		tt_area_publish(op, next_in_wavefront(op) ? tt_area_steps(segment, round)
							  : TT_AREA_ALL_STEPS);
	}
	return await_readers(op);
}

/* Peers grant access to their buffers until they return from the call: also with a fault, and
 * then they may have written to what was just read. They revoke before they return, so that who
 * finds no fault now has read what was meant. */
static tutti_result_t check_loans(const struct tt_op *op)
{
	atomic_thread_fence(memory_order_acquire); /* what was read of them was read before;
						    * pairs with the release in revoke() */
	tt_comm_check(op->comm, false);
	return op->comm->fault.result ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

tutti_result_t tt_shared_advance(struct tt_op *op, bool *moved)
{
	tutti_result_t result = advance(op, moved);

	if (result == TUTTI_OK)
		result = check_loans(op);
	return result;
}
