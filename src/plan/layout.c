/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the layouts: which blocks a rank's buffers have, and where each of their segments lies. */
#include "layout.h"

#include "names.h"
#include "plan.h"

/* Part `i` of `parts` as even parts of n elements as whole cache lines allow; short ones to the
 * element. */
static void split(size_t n, uint32_t parts, uint32_t i, size_t element, size_t *start,
		  size_t *length)
{
	if (parts == 1) { /* the short path of short operations: no divisions */
		*start = 0;
		*length = n;
		return;
	}
	const size_t line = element < TT_LINE ? TT_LINE / element : 1;
	const size_t unit = n / parts >= 16 * line ? line : 1;
	const size_t units = (n + unit - 1) / unit;
	const size_t each = units / parts, more = units % parts;
	const size_t from = (each * i + (i < more ? i : more)) * unit;
	const size_t to = from + (each + (i < more)) * unit;

	*start = from < n ? from : n;
	*length = (to < n ? to : n) - *start;
}

struct tt_bytes tt_layout_at(const struct tt_layout *layout, size_t element, uint32_t segments,
			     uint32_t segment, uint32_t block)
{
	size_t base = 0, start, length = layout->counts ? layout->counts[block] : layout->count;

	if (layout->kind == TT_LAYOUT_BLOCKS)
		base = block * layout->count;
	else if (layout->kind == TT_LAYOUT_TABLE)
		base = layout->displs[block];
	split(length, segments, segment, element, &start, &length);
	base += start;
	if (layout->kind == TT_LAYOUT_VECTOR) {
		split(length, layout->blocks, block, element, &start, &length);
		base += start;
	}
	return (struct tt_bytes){ base * element, length * element };
}

/* Does this rank send, or receive, all blocks, only its own, or none? */
static enum tt_layout_kind layout_kind(const struct tutti_comm *comm, const struct tt_call *call,
				       bool sending)
{
	const bool at_root = comm->rank == call->root;

	switch (call->collective) {
	case TT_BROADCAST: return sending && !at_root ? TT_LAYOUT_NONE : TT_LAYOUT_VECTOR;
	case TT_REDUCE: return !sending && !at_root ? TT_LAYOUT_NONE : TT_LAYOUT_VECTOR;
	case TT_REDUCE_SCATTER: return sending ? TT_LAYOUT_BLOCKS : TT_LAYOUT_OWN;
	case TT_REDUCE_SCATTER_V: return sending ? TT_LAYOUT_TABLE : TT_LAYOUT_OWN;
	case TT_ALL_GATHER: return sending ? TT_LAYOUT_OWN : TT_LAYOUT_BLOCKS;
	case TT_ALL_GATHER_V: return sending ? TT_LAYOUT_OWN : TT_LAYOUT_TABLE;
	case TT_GATHER:
		return sending ? TT_LAYOUT_OWN : at_root ? TT_LAYOUT_BLOCKS : TT_LAYOUT_NONE;
	case TT_GATHER_V:
		return sending ? TT_LAYOUT_OWN : at_root ? TT_LAYOUT_TABLE : TT_LAYOUT_NONE;
	case TT_SCATTER:
		return !sending ? TT_LAYOUT_OWN : at_root ? TT_LAYOUT_BLOCKS : TT_LAYOUT_NONE;
	case TT_SCATTER_V:
		return !sending ? TT_LAYOUT_OWN : at_root ? TT_LAYOUT_TABLE : TT_LAYOUT_NONE;
	case TT_ALL_TO_ALL: return TT_LAYOUT_BLOCKS;
	case TT_ALL_TO_ALL_V: return TT_LAYOUT_TABLE;
	default: return TT_LAYOUT_VECTOR;
	}
}

struct tt_layout tt_layout_of(const struct tutti_comm *comm, const struct tt_call *call,
			      uint32_t blocks, bool sending)
{
	struct tt_layout layout = { .kind = layout_kind(comm, call, sending),
				    .count = call->count,
				    .own = comm->rank };

	layout.blocks = tt_collective_of_vector(call->collective) ? blocks : (uint32_t)comm->size;
	if (layout.kind == TT_LAYOUT_TABLE) {
		layout.counts = sending ? call->send_counts : call->recv_counts;
		layout.displs = sending ? call->send_displs : call->recv_displs;
	} else if (call->collective == TT_REDUCE_SCATTER_V) {
		layout.counts = call->send_counts;
	} else if (call->collective == TT_ALL_GATHER_V) {
		layout.counts = call->recv_counts;
	}
	return layout;
}

struct tt_layout tt_layout_of_peer(const struct tt_layout *side, const struct tt_layout *other)
{
	struct tt_layout layout = *side;

	if (layout.kind == TT_LAYOUT_NONE)
		layout.kind = other->kind == TT_LAYOUT_VECTOR ? TT_LAYOUT_VECTOR : TT_LAYOUT_BLOCKS;
	return layout;
}

size_t tt_layout_extent(const struct tt_layout *layout, size_t element)
{
	size_t elements = layout->count;

	if (layout->kind == TT_LAYOUT_TABLE) {
		elements = 0;
		for (uint32_t i = 0; i < layout->blocks; i++)
			if (layout->displs[i] + layout->counts[i] > elements)
				elements = layout->displs[i] + layout->counts[i];
	} else if (layout->kind == TT_LAYOUT_BLOCKS) {
		elements *= layout->blocks;
	} else if (layout->kind == TT_LAYOUT_OWN && layout->counts) {
		elements = layout->counts[layout->own];
	}
	return elements * element;
}
