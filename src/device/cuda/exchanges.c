/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts short collectives on a stream, as one kernel each: every rank stores what it has for a peer
 * into that peer's memory, in lines that say themselves whether they have come (kernels.h), and
 * makes its result of the lines that it has got. A byte takes two on its way, but nobody waits for
 * a signal behind the data. */
#include <string.h>

#include "bound.h"

/* What of this rank's buffer, which has `span` bytes, belongs to rank `peer`: a block, or all. */
static struct tt_bytes share_of(const struct tt_cuda_op *op, const struct tt_layout *layout,
				size_t span, int peer)
{
	if (layout->kind == TT_LAYOUT_BLOCKS || layout->kind == TT_LAYOUT_TABLE)
		return tt_layout_at(layout, op->plan->element, 1, 0, (uint32_t)peer);
	return (struct tt_bytes){ 0, span };
}

/* Does what `from` has get to `to`? */
static bool goes(const struct tt_call *call, int from, int to)
{
	switch (call->collective) {
	case TT_BROADCAST:
	case TT_SCATTER: return from == call->root;
	case TT_REDUCE:
	case TT_GATHER: return to == call->root;
	case TT_SCAN: return from <= to;
	case TT_EXSCAN: return from < to;
	default: return true;
	}
}

static void give(const struct tt_cuda_op *op, struct tt_cuda_part *part)
{
	const int size = op->cuda->comm->size, own = op->cuda->comm->rank;

	for (int rank = 0; rank < size; rank++) {
		const struct tt_bytes share =
			share_of(op, &op->plan->send, op->plan->send_span, rank);

		/* this rank's own, too: it is read where it is */
		if (share.length == 0 || (rank != own && !goes(op->call, own, rank)))
			continue;
		part->piece[rank].src = (const uint8_t *)op->call->send + share.offset;
		part->piece[rank].out = share.length;
		if (rank != own && (share.length + 7) / 8 > part->ndst)
			part->ndst = (uint32_t)((share.length + 7) / 8);
	}
}

static void take(const struct tt_cuda_op *op, struct tt_cuda_part *part)
{
	const int size = op->cuda->comm->size, own = op->cuda->comm->rank;

	for (int rank = 0; rank < size; rank++) {
		const struct tt_bytes share =
			share_of(op, &op->plan->recv, op->plan->recv_span, rank);

		if (share.length == 0 || !goes(op->call, rank, own))
			continue;
		part->piece[rank].dst = (uint8_t *)op->call->recv + share.offset;
		part->piece[rank].in = (uint32_t)share.length;
	}
}

/* What gets here is of all ranks up to some. */
static void combine(const struct tt_cuda_op *op, struct tt_cuda_part *part)
{
	const int size = op->cuda->comm->size, own = op->cuda->comm->rank;

	for (int rank = 0; rank < size; rank++)
		part->nsrc += goes(op->call, rank, own);
	part->divisor = op->call->op == TUTTI_AVG ? (uint32_t)size : 0;
	part->piece[0].dst = op->call->recv;
	part->piece[0].in = part->nsrc ? (uint32_t)op->plan->recv_span : 0;
}

size_t tt_cuda_longest_block(const struct tutti_comm *comm, const struct tt_call *call)
{
	const size_t *counts = call->send_counts ? call->send_counts : call->recv_counts;
	size_t longest = counts ? 0 : call->count;

	for (int rank = 0; rank < comm->size && counts; rank++)
		longest = counts[rank] > longest ? counts[rank] : longest;
	return longest;
}

static size_t longest_share(const struct tt_cuda_op *op)
{
	const size_t longest = tt_cuda_longest_block(op->cuda->comm, op->call);

	return longest > SIZE_MAX / op->plan->element ? SIZE_MAX : longest * op->plan->element;
}

bool tt_cuda_fits_lines(const struct tt_cuda_op *op)
{
	return op->call->op < TUTTI_OP_COUNT && longest_share(op) <= op->cuda->line_bytes;
}

cuda_result tt_cuda_by_lines(struct tt_cuda_op *op)
{
	const struct tt_call *call = op->call;
	struct tt_cuda_part part = { .kind = TT_CUDA_EXCHANGE };

	give(op, &part);
	if (call->op < 0)
		take(op, &part);
	else
		combine(op, &part);
	return tt_cuda_exchange_lines(
		op, call->op < 0 ? NULL : op->cuda->module.reduce[call->op][call->dtype], &part,
		longest_share(op));
}
