/* SPDX-License-Identifier: BSD-3-Clause */
/* What every operation does in the control area when it begins and when it shows something. Inline:
 * an operation of 8 bytes consists of this, and a call would be a third of each. */
#ifndef TT_AREA_POST_H
#define TT_AREA_POST_H

#include "control_area.h"
#include "op.h"

/* May operation `seq` use its slot? */
static inline bool tt_area_is_free(struct tutti_comm *comm, uint64_t seq)
{
	return __builtin_expect(seq <= comm->control_area.free_until, 1) ||
	       tt_area_free_more(comm, seq);
}

/* Write the operation's header; the slot is free. */
static inline void tt_area_write_header(struct tt_op *op)
{
	op->slots = tt_area_slot(&op->comm->control_area, 0, op->header.seq);

	struct tt_area_slot *slot = &op->slots[op->comm->rank];

	slot->header = op->header;
	/* release: pairs with the acquire in tt_area_compare(); who sees the signature sees its
	 * header */
	atomic_store_explicit(&slot->signature, op->signature, memory_order_release);
}

/* Wake those who sleep, after what they wait for was written. */
static inline void tt_area_wake(struct tt_area *control_area)
{
	struct tt_endpoint *endpoint = control_area->endpoint;

	atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in arm() */
	if (__builtin_expect(
		    atomic_load_explicit(control_area->sleepers, memory_order_relaxed) != 0, 0))
		endpoint->ops->memory->wake(endpoint);
}

static inline void tt_area_wake_owed(struct tt_area *control_area)
{
	if (control_area->owes_wake)
		tt_area_wake(control_area);
	control_area->owes_wake = false;
}

/* Let the peers see how far this rank is, and what it wrote before. Those who sleep are woken,
 * for an eager operation only by tt_area_wake_owed(): waking takes a fence, and the fence waits
 * for the line just written to come back from the peers that poll it. A short operation does
 * what else it can first. */
static inline void tt_area_publish(const struct tt_op *op, uint64_t steps)
{
	struct tt_area *control_area = &op->comm->control_area;

	/* release: pairs with the acquire in tt_slot_progress() */
	atomic_store_explicit(&op->slots[op->comm->rank].progress,
			      tt_area_mark(op->header.seq, steps), memory_order_release);
	if (op->plan->eager)
		control_area->owes_wake = true;
	else
		tt_area_wake(control_area);
}

/* A line that peers have read is theirs, too, and a store waits until it is not: the next stores
 * find it here. Where the compiler may not assume prefetchw, __builtin_prefetch() fetches for
 * reading, which makes things worse; a processor without it does nothing. */
static inline void tt_fetch_for_writing(const uint8_t *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += TT_LINE)
#ifdef __x86_64__
		__asm__ volatile("prefetchw %0" : : "m"(from[at]));
#else
		__builtin_prefetch(from + at, 1);
#endif
}

/* Have the lines for writing of the next operation's slot, if that is like this one. */
static inline void tt_area_fetch_slot(const struct tt_op *op)
{
	const struct tt_area_slot *next =
		tt_area_slot(&op->comm->control_area, op->comm->rank, op->header.seq + 1);

	tt_fetch_for_writing((const uint8_t *)next, TT_LINE);
	if (op->plan->hot && op->plan->posts)
		tt_fetch_for_writing(next->lines, op->plan->payload);
}

/* The peer writes its hot lines just before its progress: where they are asked for together they
 * come together. (Asked for more than these few, the peer writes none without fetching it back
 * first. And GCC takes a function that only fetches, and is not inline by force, for one that does
 * nothing.) */
TT_INLINE void tt_area_fetch_lines(const struct tt_op *op, const struct tt_area_slot *slot)
{
	const size_t bytes = op->plan->hot ? op->plan->payload : 0;

	for (size_t at = 0; at < bytes; at += TT_LINE)
		__builtin_prefetch(slot->lines + at);
}

/* A peer that was here first, and waits for nothing of this rank, may have posted its next
 * operation, too. */
TT_INLINE void tt_area_fetch_next(const struct tt_op *op, int peer)
{
	const struct tt_area_slot *next =
		tt_area_slot(&op->comm->control_area, peer, op->header.seq + 1);

	__builtin_prefetch(next);
	tt_area_fetch_lines(op, next);
}

/* Has `peer` ended `round` of `segment`? TUTTI_OK, TUTTI_IN_PROGRESS, or a mismatch. */
static inline tutti_result_t tt_area_peer_ended(struct tt_op *op, int peer, uint32_t segment,
						uint32_t round)
{
	const struct tt_area_slot *slot = &op->slots[peer];
	const uint64_t wanted = tt_area_mark(op->header.seq, tt_area_steps(segment, round));
	const bool was_first = tt_slot_progress(slot) >= wanted;

	if (!was_first) {
		const tutti_result_t result = tt_area_poll(op, peer, wanted);

		if (result)
			return result;
	}
	/* relaxed: ordered by the peer's progress word */
	if (atomic_load_explicit(&slot->signature, memory_order_relaxed) != op->signature &&
	    op->comm->control_area.seen[peer] < op->header.seq)
		return tt_area_mismatch(op, peer);
	op->comm->control_area.seen[peer] = op->header.seq;
	if (was_first && op->plan->one_way)
		tt_area_fetch_next(op, peer);
	return TUTTI_OK;
}

/* Does the endpoint know of no fault that the communicator does not? tt_comm_check() tells. */
static inline bool tt_area_is_quiet(const struct tt_area *control_area)
{
	const struct tt_endpoint *endpoint = control_area->endpoint;

	/* relaxed: the check reads it again, to acquire what it tells of */
	return atomic_load_explicit(control_area->faults, memory_order_relaxed) ==
		       endpoint->faults_seen &&
	       !endpoint->fault.result;
}

#endif
