/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts collectives on a stream where each rank reads the others' inputs and writes their results where
 * they are: in windows, or wherever they are, between threads of one process. Every byte of
 * input is read once, and every byte of a result is written once.
 *
 * In windows buffers are at the same place on all ranks. Elsewhere a rank knows its own alone: it tells
 * the others their addresses with the call, and what it does of a collective has distances from theirs
 * (kernels.h). Threads that have several GPUs may have memory that other GPUs do not reach (cuMemMap(),
 * cudaMallocAsync()), and an all_to_all in place overwrites what others are to read. Then the rank tells
 * that, and the kernel of nobody moves anything. As no rank knows of the others before, stages are put on
 * the stream behind it, which do nothing where all went directly. */
#include "windows.h"

#include "call.h"
#include "log.h"

/* ---- whose buffers the others reach */

/* Which of a collective's buffers peers touch: what is read of others, what is written into others.
 * Windows are for calls where that is so of all ranks, as each has to know whether all go directly.
 * (Of all_gather_v each has displacements of its own, which the others do not know.) */
#define READS                                                                                      \
	(TT_BIT(TT_ALL_REDUCE) | TT_BIT(TT_REDUCE_SCATTER) | TT_BIT(TT_REDUCE_SCATTER_V) |         \
	 TT_BIT(TT_ALL_TO_ALL))
#define WRITES (TT_BIT(TT_ALL_REDUCE) | TT_BIT(TT_ALL_GATHER) | TT_BIT(TT_BROADCAST))
/* What ranks tell serves these, too. */
#define TELLS                                                                                      \
	(READS | WRITES | TT_BIT(TT_ALL_GATHER_V) | TT_BIT(TT_REDUCE) | TT_BIT(TT_GATHER) |        \
	 TT_BIT(TT_SCATTER))

static uint64_t add_to_hash(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ull;
}

static size_t offset_in_window(const struct tt_cuda_op *op, int which)
{
	const struct tutti_cuda_window *window = op->window[which];

	return op->at[which] - window->peer[op->cuda->comm->rank].memory;
}

static bool find_window(struct tt_cuda_op *op, int which, size_t bytes, uint64_t *hash)
{
	op->window[which] = tt_cuda_window_of(op->cuda, cuda_pointer(op->at[which]), bytes);
	if (!op->window[which])
		return false;
	*hash = add_to_hash(add_to_hash(*hash, op->window[which]->number),
			    offset_in_window(op, which));
	return true;
}

static bool finds_windows(struct tt_cuda_op *op)
{
	const unsigned what = TT_BIT(op->call->collective);
	uint64_t hash = 1;

	if (!(what & (READS | WRITES)) ||
	    (what & READS && !find_window(op, TT_CUDA_INPUT, op->plan->send_span, &hash)) ||
	    (what & WRITES && !find_window(op, TT_CUDA_RESULT, op->plan->recv_span, &hash)))
		return false;
	op->header.detail ^= hash;
	op->header.windows = (uint8_t)(hash >> 56 | 1);
	return true;
}

/* Does every rank's GPU reach what the call has on this one, in one process? Where not, all ranks take
 * longer, and this one says so. */
static bool are_reached(const struct tt_cuda_op *op)
{
	struct tt_cuda *cuda = op->cuda;

	if (cuda->one_gpu || ((op->plan->send_span == 0 || tt_cuda_peers_have(op->call->send)) &&
			      (op->plan->recv_span == 0 || tt_cuda_peers_have(op->call->recv))))
		return true;
	if (!cuda->warned)
		tt_log(WARN, CUDA,
		       "rank %d: %s: a buffer is memory of GPU %d that other GPUs have no access to, as that of cudaMallocAsync() and cuMemMap(), so all ranks copy through their stages: memory of "
		       "cudaMalloc(), or a window of tutti_cuda_register(), is read and written where it is (docs/reference/gpu.md)",
		       cuda->comm->rank, tt_call_name(op->call), cuda->number);
	cuda->warned = true;
	return false;
}

bool tt_cuda_goes_directly(struct tt_cuda_op *op)
{
	const struct tt_call *call = op->call;
	const bool swaps = call->collective == TT_ALL_TO_ALL,
		   in_place = swaps && call->send == call->recv;

	op->at[TT_CUDA_INPUT] = cuda_at(call->send);
	op->at[TT_CUDA_RESULT] = cuda_at(call->recv);
	if (call->op >= TUTTI_OP_COUNT)
		return false;
	if (!in_place && finds_windows(op))
		return true;
	op->window[TT_CUDA_INPUT] = op->window[TT_CUDA_RESULT] = NULL;
	op->tells = op->cuda->one_process && TT_BIT(call->collective) & TELLS;
	op->maybe = op->tells && (swaps || !op->cuda->one_gpu);
	if (op->maybe && (in_place || !are_reached(op)))
		op->at[TT_CUDA_INPUT] = TT_CUDA_NOWHERE;
	return op->tells;
}

/* So far behind rank `rank`'s input or result. */
static cuda_address place_at(const struct tt_cuda_op *op, int which, int rank, size_t offset)
{
	if (op->window[which])
		return op->window[which]->peer[rank].memory + offset_in_window(op, which) + offset;
	return rank == op->cuda->comm->rank ? op->at[which] + offset
					    : TT_CUDA_TOLD(TT_CUDA_OWNER(rank, which), offset);
}

/* ---- by multicast: what all ranks have at one place has one address */

#define UNIT 16 /* bytes that kernels load and store there at once */

static cuda_address multicast_at(const struct tt_cuda_op *op, int which, size_t offset)
{
	const struct tt_cuda_multicast *multicast = &op->window[which]->multicast;

	return multicast->base + multicast->offset + offset_in_window(op, which) + offset;
}

static bool has_multicast(const struct tt_cuda_op *op, int which)
{
	return op->window[which] && op->window[which]->multicast.base &&
	       multicast_at(op, which, 0) % UNIT == 0;
}

/* The switch adds in an order of its own. */
static struct CUfunc_st *multicast_sum(const struct tt_cuda_op *op)
{
	const bool fits = op->call->op == TUTTI_SUM && !op->cuda->comm->settings.reproducible &&
			  has_multicast(op, TT_CUDA_INPUT) && has_multicast(op, TT_CUDA_RESULT) &&
			  op->plan->recv_span % UNIT == 0;

	return fits ? op->cuda->module.multicast[op->call->dtype] : NULL;
}

/* This rank's part of `bytes`, in whole units. */
static struct tt_bytes units_of(const struct tt_cuda_op *op, size_t bytes)
{
	const size_t units = bytes / UNIT, size = (size_t)op->cuda->comm->size,
		     rank = (size_t)op->cuda->comm->rank;
	const size_t begin = units * rank / size, end = units * (rank + 1) / size;

	return (struct tt_bytes){ begin * UNIT, (end - begin) * UNIT };
}

/* From `from` to all ranks at once; `function` NULL: as it is. */
static cuda_result move_by_multicast(struct tt_cuda_op *op, struct CUfunc_st *function,
				     cuda_address from, cuda_address to, size_t bytes)
{
	struct tt_cuda_part part = { .kind = TT_CUDA_COMBINE, .nsrc = 1, .ndst = 1 };

	part.piece[0].src = cuda_pointer(from);
	part.piece[0].dst = cuda_pointer(to);
	part.piece[0].bytes = bytes;
	return tt_cuda_add_part(op, function ? function : op->cuda->module.multicast_copy, &part);
}

/* ---- what one rank does of a collective */

/* Block `block` of a vector that is cut into one for each rank, or of the call's blocks. */
static struct tt_bytes block_at(const struct tt_cuda_op *op, const struct tt_layout *layout,
				int block)
{
	struct tt_layout cut = *layout;

	if (cut.kind == TT_LAYOUT_VECTOR)
		cut.blocks = (uint32_t)op->cuda->comm->size;
	return tt_layout_at(&cut, op->plan->element, 1, 0, (uint32_t)block);
}

static struct tt_bytes own_block(const struct tt_cuda_op *op, const struct tt_layout *layout)
{
	return block_at(op, layout, op->cuda->comm->rank);
}

static void add_target(struct tt_cuda_part *part, cuda_address at)
{
	part->piece[part->ndst++].dst = cuda_pointer(at);
}

/* All inputs there, combined, to the part's targets. */
static cuda_result combine(struct tt_cuda_op *op, struct tt_cuda_part *part,
			   const struct tt_bytes *at)
{
	const struct tt_call *call = op->call;
	const int size = op->cuda->comm->size;

	part->kind = TT_CUDA_COMBINE;
	part->piece[0].bytes = at->length;
	part->divisor = call->op == TUTTI_AVG ? (uint32_t)size : 0;
	for (int rank = 0; rank < size; rank++)
		part->piece[part->nsrc++].src =
			cuda_pointer(place_at(op, TT_CUDA_INPUT, rank, at->offset));
	return tt_cuda_add_part(op, op->cuda->module.reduce[call->op][call->dtype], part);
}

/* Each rank combines its part of all inputs, and writes it into all results. */
static cuda_result all_reduce(struct tt_cuda_op *op)
{
	const struct tt_bytes at = own_block(op, &op->plan->recv);
	struct CUfunc_st *sum = multicast_sum(op);
	struct tt_cuda_part part = { 0 };

	if (sum) {
		const struct tt_bytes own = units_of(op, op->plan->recv_span);

		return move_by_multicast(op, sum, multicast_at(op, TT_CUDA_INPUT, own.offset),
					 multicast_at(op, TT_CUDA_RESULT, own.offset), own.length);
	}
	for (int rank = 0; rank < op->cuda->comm->size; rank++)
		add_target(&part, place_at(op, TT_CUDA_RESULT, rank, at.offset));
	return combine(op, &part, &at);
}

static cuda_result reduce(struct tt_cuda_op *op)
{
	const struct tt_bytes at = own_block(op, &op->plan->send);
	struct tt_cuda_part part = { 0 };

	add_target(&part, place_at(op, TT_CUDA_RESULT, op->call->root, at.offset));
	return combine(op, &part, &at);
}

static cuda_result reduce_scatter(struct tt_cuda_op *op)
{
	const struct tt_bytes at = own_block(op, &op->plan->send);
	struct tt_cuda_part part = { 0 };

	add_target(&part, cuda_at(op->call->recv));
	return combine(op, &part, &at);
}

/* From `source` to that place of everybody's result. */
static cuda_result spread_to_all(struct tt_cuda_op *op, cuda_address source,
				 const struct tt_bytes *at)
{
	struct tt_cuda_part part = { .kind = TT_CUDA_SPREAD,
				     .nsrc = 1,
				     .piece = { { .src = cuda_pointer(source),
						  .bytes = at->length } } };

	for (int rank = 0; rank < op->cuda->comm->size; rank++)
		add_target(&part, place_at(op, TT_CUDA_RESULT, rank, at->offset));
	return tt_cuda_add_part(op, NULL, &part);
}

static cuda_result all_gather(struct tt_cuda_op *op)
{
	const cuda_address own = cuda_at(op->call->send);
	const struct tt_bytes at = own_block(op, &op->plan->recv);

	if (has_multicast(op, TT_CUDA_RESULT) && own % UNIT == 0 && at.offset % UNIT == 0 &&
	    at.length % UNIT == 0)
		return move_by_multicast(op, NULL, own, multicast_at(op, TT_CUDA_RESULT, at.offset),
					 at.length);
	return spread_to_all(op, own, &at);
}

static bool is_root(const struct tt_cuda_op *op)
{
	return op->call->root == op->cuda->comm->rank;
}

static bool broadcasts_by_multicast(const struct tt_cuda_op *op)
{
	return has_multicast(op, TT_CUDA_RESULT) && op->plan->recv_span % UNIT == 0;
}

/* Does the root of a broadcast between windows, of whose input the others know nothing, hand on its own
 * part from where it is? Where input and result lie differently, kernels would shift all bytes. */
static bool hands_on_input(const struct tt_cuda_op *op)
{
	const uintptr_t from = (uintptr_t)op->call->send, to = (uintptr_t)op->call->recv;

	return is_root(op) && !broadcasts_by_multicast(op) && from % UNIT == to % UNIT;
}

/* What the others read of a broadcast between windows: the root's result. */
static cuda_result show_to_others(struct tt_cuda_op *op)
{
	const cuda_address to = cuda_at(op->call->recv), from = cuda_at(op->call->send);
	const struct tt_bytes own =
		hands_on_input(op) ? own_block(op, &op->plan->recv) : (struct tt_bytes){ 0 };
	const size_t end = own.offset + own.length;
	const cuda_result error = tt_cuda_copy(op, to, from, own.offset);

	return error ? error : tt_cuda_copy(op, to + end, from + end, op->plan->send_span - end);
}

/* Each rank hands on its part of the vector. */
static cuda_result broadcast(struct tt_cuda_op *op)
{
	const struct tt_bytes at = own_block(op, &op->plan->recv);
	const int from =
		op->window[TT_CUDA_RESULT] && !hands_on_input(op) ? TT_CUDA_RESULT : TT_CUDA_INPUT;

	if (broadcasts_by_multicast(op)) {
		const struct tt_bytes own = units_of(op, op->plan->recv_span);

		return move_by_multicast(op, NULL, place_at(op, from, op->call->root, own.offset),
					 multicast_at(op, TT_CUDA_RESULT, own.offset), own.length);
	}
	return spread_to_all(op, place_at(op, from, op->call->root, at.offset), &at);
}

/* This rank's block of everybody's input. */
static cuda_result all_to_all(struct tt_cuda_op *op)
{
	const int size = op->cuda->comm->size;
	const size_t mine = own_block(op, &op->plan->send).offset;
	cuda_result error = 0;

	for (int i = 0; i < size && !error; i++) {
		const int from = (op->cuda->comm->rank + i) % size;
		const struct tt_bytes at = block_at(op, &op->plan->recv, from);

		error = tt_cuda_copy(op, cuda_at(op->call->recv) + at.offset,
				     place_at(op, TT_CUDA_INPUT, from, mine), at.length);
	}
	return error;
}

/* All of everybody's input. */
static cuda_result all_gather_v(struct tt_cuda_op *op)
{
	const int size = op->cuda->comm->size;
	cuda_result error = 0;

	for (int i = 0; i < size && !error; i++) {
		const int from = (op->cuda->comm->rank + i) % size;
		const struct tt_bytes at = block_at(op, &op->plan->recv, from);

		error = tt_cuda_copy(op, cuda_at(op->call->recv) + at.offset,
				     place_at(op, TT_CUDA_INPUT, from, 0), at.length);
	}
	return error;
}

/* The rank's block of the root's result or input. */
static cuda_result gather(struct tt_cuda_op *op)
{
	const size_t bytes = op->plan->send_span;

	return tt_cuda_copy(
		op,
		place_at(op, TT_CUDA_RESULT, op->call->root, (size_t)op->cuda->comm->rank * bytes),
		cuda_at(op->call->send), bytes);
}

static cuda_result scatter(struct tt_cuda_op *op)
{
	const size_t bytes = op->plan->recv_span;

	return tt_cuda_copy(
		op, cuda_at(op->call->recv),
		place_at(op, TT_CUDA_INPUT, op->call->root, (size_t)op->cuda->comm->rank * bytes),
		bytes);
}

static cuda_result move(struct tt_cuda_op *op)
{
	switch (op->call->collective) {
	case TT_ALL_REDUCE: return all_reduce(op);
	case TT_REDUCE: return reduce(op);
	case TT_REDUCE_SCATTER:
	case TT_REDUCE_SCATTER_V: return reduce_scatter(op);
	case TT_ALL_GATHER: return all_gather(op);
	case TT_ALL_GATHER_V: return all_gather_v(op);
	case TT_BROADCAST: return broadcast(op);
	case TT_GATHER: return gather(op);
	case TT_SCATTER: return scatter(op);
	default: return all_to_all(op);
	}
}

cuda_result tt_cuda_by_direct(struct tt_cuda_op *op)
{
	cuda_result error = 0;

	tt_cuda_begin_rounds(op);
	if (op->call->collective == TT_BROADCAST && is_root(op) && op->window[TT_CUDA_RESULT])
		error = show_to_others(op);
	if (!error)
		error = tt_cuda_end_round(op, 0, 2);
	if (!error)
		error = move(op);
	if (!error) /* the wait for all is one more */
		error = tt_cuda_end_round(op, 1, 3);
	/* what comes next on the stream finds the results written, and may write the inputs */
	return error ? error : tt_cuda_await_end(op, false);
}
