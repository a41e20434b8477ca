/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a rank posts on the control area and reads there of others: progress, headers, that
 * it left. */
#include "area_post.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "mismatch.h"
#include "op.h"
#include "op_record.h"
#include "progress.h"

#define POLLS 100 /* at a peer's progress, where nobody else wants the core */

#define PAGE 4096u
#define MANY 32 /* ranks */

/* ---- where its parts are */

static size_t before_slots(const struct tt_area *counts)
{
	return counts->size * sizeof(*counts->base);
}

/* Slots are to stay in the cache, and of many ranks each has pages of all the others'. But where
 * ranks share a core, it goes from one to the next when none may be further ahead, and that takes
 * as long as ten operations. */
static struct tt_area counts_of(const struct tutti_comm *comm)
{
	struct tt_area counts = { .size = (size_t)comm->size, .nslots = 64, .units = 16 };

	if (comm->size > MANY)
		counts.nslots = 32;
	else if (comm->topology.oversubscription > 1) {
		counts.nslots = 256;
		counts.units = TT_EAGER_UNITS;
	}
	return counts;
}

static size_t before_payloads(const struct tt_area *counts)
{
	const size_t slots = counts->nslots * counts->size * sizeof(*counts->slots);

	return (before_slots(counts) + slots + PAGE - 1) / PAGE * PAGE;
}

size_t tt_area_bytes(const struct tutti_comm *comm)
{
	const struct tt_area counts = counts_of(comm);

	return before_payloads(&counts) +
	       counts.size * (sizeof(*counts.eager) + sizeof(*counts.stage));
}

bool tt_area_reserve(struct tutti_comm *comm)
{
	comm->control_area.seen = calloc((size_t)comm->size, sizeof(*comm->control_area.seen));
	return comm->control_area.seen != NULL;
}

/* Of transports without such words: there are always sleepers, and always news. */
static const _Atomic uint32_t some = 1;

void tt_area_place(struct tutti_comm *comm, void *memory, struct tt_endpoint *endpoint)
{
	struct tt_area *control_area = &comm->control_area;
	uint64_t *seen = control_area->seen;

	*control_area = counts_of(comm);
	control_area->seen = seen;
	control_area->base = memory;
	control_area->slots = (void *)((uint8_t *)memory + before_slots(control_area));
	control_area->free_until = control_area->nslots;
	control_area->units_free = control_area->units;
	control_area->eager = (void *)((uint8_t *)memory + before_payloads(control_area));
	control_area->stage = (void *)(control_area->eager + comm->size);
	control_area->endpoint = endpoint;
	control_area->sleepers = endpoint->sleepers ? endpoint->sleepers : &some;
	control_area->faults = endpoint->faults ? endpoint->faults : &some;
}

void tt_area_free(struct tutti_comm *comm)
{
	free(comm->control_area.seen);
	comm->control_area = (struct tt_area){ 0 };
}

/* ---- progress */

/* Have all peers posted operation `n`? Then nobody reads what this rank exposed in those before. */
static bool all_posted(struct tutti_comm *comm, uint64_t n)
{
	struct tt_area *control_area = &comm->control_area;

	for (int rank = 0; rank < comm->size; rank++) {
		if (rank == comm->rank || control_area->seen[rank] >= n)
			continue;
		if (tt_area_progress(control_area, rank, n) < tt_area_mark(n, 0))
			return false;
		control_area->seen[rank] = n;
	}
	return true;
}

bool tt_area_free_more(struct tutti_comm *comm, uint64_t seq)
{
	struct tt_area *control_area = &comm->control_area;

	if (!all_posted(comm, seq - control_area->nslots / 2))
		return false;
	control_area->free_until = seq + control_area->nslots / 2 - 1;
	return true;
}

/* Units of a payload: one, or those of the longest. */
static uint64_t units_of(const struct tt_area *control_area, size_t payload)
{
	return payload * control_area->units <= TT_EAGER_SPAN
		       ? 1
		       : control_area->units * TT_EAGER_BYTES / TT_EAGER_SPAN;
}

/* Where it begins; its units lie in a row. */
static uint64_t next_unit(const struct tt_area *control_area, size_t payload)
{
	const uint64_t units = units_of(control_area, payload);

	return (control_area->units_used + units - 1) & ~(units - 1);
}

/* Halves are freed as a whole: no payload lies in both. */
bool tt_area_payload_is_free(struct tutti_comm *comm, size_t payload)
{
	struct tt_area *control_area = &comm->control_area;
	const uint64_t free = control_area->units_free, more = control_area->units / 2;

	if (next_unit(control_area, payload) < free)
		return true;
	if (!all_posted(comm,
			control_area->unit_op[(free + more - 1) & (control_area->units - 1)] + 1))
		return false;
	control_area->units_free = free + more;
	return true;
}

uint64_t tt_area_take_payload(struct tt_area *control_area, uint64_t seq, size_t payload)
{
	const uint64_t first = next_unit(control_area, payload),
		       end = first + units_of(control_area, payload);

	while (control_area->units_used < end)
		control_area->unit_op[control_area->units_used++ & (control_area->units - 1)] = seq;
	return first;
}

void tt_area_fetch_payload(const struct tt_op *op)
{
	const struct tt_area *control_area = &op->comm->control_area;

	if (op->plan->posts)
		tt_fetch_for_writing(tt_area_payload(control_area, op->comm->rank,
						     next_unit(control_area, op->plan->payload)),
				     op->plan->payload);
}

/* ---- headers */

bool tt_area_post(struct tt_op *op)
{
	struct tutti_comm *comm = op->comm;

	if (!comm->control_area.base)
		return true;
	if (!tt_area_is_free(comm, op->header.seq))
		return false;
	tt_area_write_header(op);
	tt_area_publish(op, 0);
	return true;
}

/* The earliest operation that still has its slot and in which `rank` and this one differ, or
 * this one. */
static struct tt_fault find_difference(const struct tt_op *op, int rank)
{
	const struct tt_area *control_area = &op->comm->control_area;
	const uint64_t seq = op->header.seq;

	for (uint64_t back = control_area->nslots - 1; back > 0; back--) {
		if (back >= seq)
			continue;
		const struct tt_op_header mine =
			tt_area_slot(control_area, op->comm->rank, seq - back)->header;
		struct tt_op_header theirs = tt_area_slot(control_area, rank, seq - back)->header;

		theirs.rank = rank; /* whatever it has written there */
		if (mine.seq == seq - back && theirs.seq == seq - back &&
		    !tt_op_header_equal(&mine, &theirs))
			return tt_mismatch(op->comm, &mine, &theirs);
	}
	struct tt_op_header theirs = tt_area_slot(control_area, rank, seq)->header;

	theirs.rank = rank;
	return tt_mismatch(op->comm, &op->header, &theirs);
}

tutti_result_t tt_area_mismatch(struct tt_op *op, int rank)
{
	struct tt_fault fault = find_difference(op, rank);

	tt_comm_revoke(op->comm, &fault);
	return TUTTI_ERR_MISMATCH;
}

tutti_result_t tt_area_poll(struct tt_op *op, int peer, uint64_t wanted)
{
	const struct tt_area_slot *slot = &op->slots[peer];

	/* once, as it takes as long as some polls: the next pass comes here a tenth of a
	 * microsecond later, and passes are counted before the core is given up */
	tt_recorder_check(op);
	uint64_t progress = tt_slot_progress(slot);
	for (int i = 0; i < POLLS && progress < wanted && !op->comm->oversubscribed; i++) {
		tt_area_fetch_lines(op, slot);
		progress = tt_slot_progress(slot);
	}
	if (progress >= wanted)
		return TUTTI_OK;
	/* a peer that posted a header only is in an operation over links: it cannot be this one */
	return progress == tt_area_mark(op->header.seq, 0) ? tt_area_mismatch(op, peer)
							   : TUTTI_IN_PROGRESS;
}

uint64_t tt_area_last_called(const struct tt_area *control_area, int rank)
{
	uint64_t last =
		atomic_load_explicit(&control_area->base[rank].called, memory_order_relaxed);

	for (uint64_t slot = 0; slot < control_area->nslots; slot++) {
		const uint64_t posted = tt_area_progress(control_area, rank, slot) >> TT_STEP_BITS;

		last = posted > last ? posted : last;
	}
	return last;
}

void tt_area_report_called(struct tutti_comm *comm)
{
	if (comm->control_area.base)
		atomic_store_explicit(&comm->control_area.base[comm->rank].called,
				      comm->next_seq - 1, memory_order_relaxed);
}

void tt_area_leave(struct tutti_comm *comm)
{
	if (!comm->control_area.base)
		return;
	/* release: pairs with the acquire in left_before() */
	atomic_store_explicit(&comm->control_area.base[comm->rank].left, 1, memory_order_release);
	tt_area_wake(&comm->control_area);
}

/* Did `rank` leave before it posted operation `n`? acquire: pairs with the release in
 * tt_area_leave() */
static bool left_before(const struct tt_area *control_area, int rank, uint64_t n)
{
	return atomic_load_explicit(&control_area->base[rank].left, memory_order_acquire) &&
	       tt_area_progress(control_area, rank, n) < tt_area_mark(n, 0);
}

static void lose(struct tt_op *op, int rank)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = rank };
	char call[TT_CALL_BYTES];

	tt_op_header_describe(&op->header, call, sizeof(call));
	snprintf(
		fault.text, sizeof(fault.text),
		"rank %d left the communicator (tutti_comm_destroy) without the others' operation %" PRIu64
		", %s",
		rank, op->header.seq, call);
	tt_comm_revoke(op->comm, &fault);
}

void tt_area_compare(struct tt_op *op)
{
	const struct tutti_comm *comm = op->comm;
	const uint64_t seq = op->header.seq;

	for (int rank = 0; comm->control_area.base && rank < comm->size; rank++) {
		const struct tt_area_slot *slot = tt_area_slot(&comm->control_area, rank, seq);

		/* also one that waits for its slot: a rank that left will not come to it */
		if (left_before(&comm->control_area, rank, seq)) {
			lose(op, rank);
			return;
		}
		if (op->state == TT_OP_WAITING)
			continue;
		if (tt_area_progress(&comm->control_area, rank, seq) >> TT_STEP_BITS != seq)
			continue; /* not there yet, or gone on */
		/* acquire: pairs with the release in tt_area_write_header(); a peer that has gone
		 * on may be writing the slot's next header while its progress still is that of
		 * this operation, and writes the header first */
		if (atomic_load_explicit(&slot->signature, memory_order_acquire) != op->signature &&
		    slot->header.seq == seq) {
			tt_area_mismatch(op, rank);
			return;
		}
	}
}
