/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns windows, and the collectives between them: where all ranks know each other's buffers,
 * each reads the others' inputs and writes their results where they are. Every byte of input is
 * read once, and every byte of a result is written once. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "log.h"
#include "module.h"
#include "pointers.h"
#include "parts.h"
#include "peer_access.h"

struct tutti_cuda_window {
	struct tutti_cuda_window *next;
	struct tutti_comm *comm;
	uint64_t number; /* the same on all ranks */
	size_t bytes;
	struct tt_cuda_peer peer[TT_CUDA_RANKS];
};

/* A place in a window: at the same offset on all ranks. */
struct place {
	const struct tutti_cuda_window *window;
	size_t offset;
};

/* ---- which window a buffer is in */

static bool find_place(const struct tt_cuda *cuda, const void *buffer, size_t bytes,
		       struct place *place)
{
	const cuda_address at = (cuda_address)(uintptr_t)buffer;

	for (const struct tutti_cuda_window *w = cuda->windows; w; w = w->next) {
		const cuda_address base = w->peer[cuda->comm->rank].memory;

		if (at < base || at - base > w->bytes || bytes > w->bytes - (at - base))
			continue;
		*place = (struct place){ w, at - base };
		return true;
	}
	return false;
}

static cuda_address place_at(const struct place *place, int rank, size_t offset)
{
	return place->window->peer[rank].memory + place->offset + offset;
}

static uint64_t add_place(uint64_t hash, const struct place *place)
{
	hash = (hash ^ place->window->number) * 0x9e3779b97f4a7c15ull;
	return (hash ^ place->offset) * 0x9e3779b97f4a7c15ull;
}

/* Which of a collective's buffers peers touch: what is read of others, what is written into
 * others. (Of all_gather_v each rank has displacements of its own, which the others do not
 * know.) */
static bool reads_others(enum tt_collective collective)
{
	return TT_BIT(collective) & (TT_BIT(TT_ALL_REDUCE) | TT_BIT(TT_REDUCE_SCATTER) |
				     TT_BIT(TT_REDUCE_SCATTER_V) | TT_BIT(TT_ALL_TO_ALL));
}

static bool writes_others(enum tt_collective collective)
{
	return TT_BIT(collective) &
	       (TT_BIT(TT_ALL_REDUCE) | TT_BIT(TT_ALL_GATHER) | TT_BIT(TT_BROADCAST));
}

bool tt_cuda_in_windows(struct tt_cuda_op *op)
{
	const struct tt_call *call = op->call;
	struct place place;
	uint64_t hash = 1;

	if (!op->cuda->windows || call->op >= TUTTI_OP_COUNT ||
	    !(reads_others(call->collective) || writes_others(call->collective)) ||
	    (call->collective == TT_ALL_TO_ALL && call->send == call->recv))
		return false;
	if (reads_others(call->collective)) {
		if (op->plan->send_span == 0 ||
		    !find_place(op->cuda, call->send, op->plan->send_span, &place))
			return false;
		hash = add_place(hash, &place);
	}
	if (writes_others(call->collective)) {
		if (op->plan->recv_span == 0 ||
		    !find_place(op->cuda, call->recv, op->plan->recv_span, &place))
			return false;
		hash = add_place(hash, &place);
	}
	op->header.detail ^= hash;
	op->header.windows = (uint8_t)(hash >> 56 | 1);
	return true;
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

/* dst = the sources combined. One source: it is read once, and written to all. */
static cuda_result combine(struct tt_cuda_op *op, struct tt_cuda_part *part, size_t bytes)
{
	const struct tt_cuda_module *module = op->cuda->module;
	const struct tt_call *call = op->call;

	part->bytes[0] = bytes;
	if (call->op < 0)
		return tt_cuda_combine(op, module->reduce[TUTTI_BOR][TUTTI_UINT8], part);
	part->divisor = call->op == TUTTI_AVG ? (uint32_t)op->cuda->comm->size : 0;
	return tt_cuda_combine(op, module->reduce[call->op][call->dtype], part);
}

static void add_source(struct tt_cuda_part *part, cuda_address at)
{
	part->src[part->nsrc++] = (const void *)(uintptr_t)at;
}

static void add_target(struct tt_cuda_part *part, cuda_address at)
{
	part->dst[part->ndst++] = (void *)(uintptr_t)at;
}

/* Each rank combines its part of all inputs, and writes it into all results. */
static cuda_result all_reduce(struct tt_cuda_op *op, const struct place *send,
			      const struct place *recv)
{
	const int size = op->cuda->comm->size;
	const struct tt_bytes at = block_at(op, &op->plan->recv, op->cuda->comm->rank);
	struct tt_cuda_part part = { 0 };

	for (int rank = 0; rank < size; rank++) {
		add_source(&part, place_at(send, rank, at.offset));
		add_target(&part, place_at(recv, rank, at.offset));
	}
	return combine(op, &part, at.length);
}

static cuda_result reduce_scatter(struct tt_cuda_op *op, const struct place *send,
				  const struct place *recv)
{
	const struct tt_bytes at = block_at(op, &op->plan->send, op->cuda->comm->rank);
	struct tt_cuda_part part = { 0 };

	for (int rank = 0; rank < op->cuda->comm->size; rank++)
		add_source(&part, place_at(send, rank, at.offset));
	add_target(&part, (cuda_address)(uintptr_t)op->call->recv);
	return combine(op, &part, at.length);
}

static cuda_result all_gather(struct tt_cuda_op *op, const struct place *send,
			      const struct place *recv)
{
	const struct tt_bytes at = block_at(op, &op->plan->recv, op->cuda->comm->rank);
	struct tt_cuda_part part = { 0 };

	add_source(&part, (cuda_address)(uintptr_t)op->call->send);
	for (int rank = 0; rank < op->cuda->comm->size; rank++)
		add_target(&part, place_at(recv, rank, at.offset));
	return combine(op, &part, at.length);
}

/* Each rank hands on its part of the vector, from the root's result, where the root had copied
 * it if it was elsewhere. */
static cuda_result broadcast(struct tt_cuda_op *op, const struct place *send,
			     const struct place *recv)
{
	const struct tt_bytes at = block_at(op, &op->plan->recv, op->cuda->comm->rank);
	struct tt_cuda_part part = { 0 };

	add_source(&part, place_at(recv, op->call->root, at.offset));
	for (int rank = 0; rank < op->cuda->comm->size; rank++)
		if (rank != op->call->root)
			add_target(&part, place_at(recv, rank, at.offset));
	return part.ndst ? combine(op, &part, at.length) : 0;
}

static cuda_result all_to_all(struct tt_cuda_op *op, const struct place *send,
			      const struct place *recv)
{
	const int size = op->cuda->comm->size;
	const struct tt_bytes mine = block_at(op, &op->plan->send, op->cuda->comm->rank);
	cuda_result error = 0;

	for (int i = 0; i < size && !error; i++) {
		const int from = (op->cuda->comm->rank + i) % size;
		const struct tt_bytes at = block_at(op, &op->plan->recv, from);

		error = tt_cuda_copy(op, (cuda_address)(uintptr_t)op->call->recv + at.offset,
				     place_at(send, from, mine.offset), at.length);
	}
	return error;
}

static cuda_result move(struct tt_cuda_op *op, const struct place *send, const struct place *recv)
{
	switch (op->call->collective) {
	case TT_ALL_REDUCE: return all_reduce(op, send, recv);
	case TT_REDUCE_SCATTER:
	case TT_REDUCE_SCATTER_V: return reduce_scatter(op, send, recv);
	case TT_ALL_GATHER: return all_gather(op, send, recv);
	case TT_BROADCAST: return broadcast(op, send, recv);
	default: return all_to_all(op, send, recv);
	}
}

cuda_result tt_cuda_by_windows(struct tt_cuda_op *op)
{
	const struct tt_call *call = op->call;
	struct place send = { 0 }, recv = { 0 };
	cuda_result error = tt_cuda_await_sync(op, TT_CUDA_LAST);

	find_place(op->cuda, call->send, op->plan->send_span, &send);
	find_place(op->cuda, call->recv, op->plan->recv_span, &recv);
	op->checks = false;
	if (!error && call->collective == TT_BROADCAST && call->root == op->cuda->comm->rank)
		error = tt_cuda_copy(op, (cuda_address)(uintptr_t)call->recv,
				     (cuda_address)(uintptr_t)call->send, op->plan->send_span);
	if (!error)
		error = tt_cuda_end_round(op, 0, 2);
	if (!error)
		error = move(op, &send, &recv);
	if (!error)
		error = tt_cuda_end_round(op, 1, 2);
	/* what comes next on the stream finds the results written, and may write the inputs */
	return error ? error : tt_cuda_await_end(op);
}

/* ---- registering */

static void unreach_all(struct tt_cuda *cuda, struct tutti_cuda_window *window)
{
	/* ranks that go by the host may be more, of which none is reached */
	for (int rank = 0; rank < cuda->comm->size && rank < TT_CUDA_RANKS; rank++)
		tt_cuda_unreach(cuda, &window->peer[rank]);
}

static tutti_result_t access_all(struct tt_cuda *cuda, struct tutti_cuda_window *window,
				 const struct tt_cuda_offer *all)
{
	tutti_result_t result = TUTTI_OK;

	for (int rank = 0; rank < cuda->comm->size && !result; rank++) {
		if (all[rank].bytes != window->bytes)
			result = tt_fail(
				TUTTI_ERR_INVALID, CUDA,
				"tutti_cuda_register: %zu bytes, but rank %d registers %zu; expected the same on all ranks",
				window->bytes, rank, (size_t)all[rank].bytes);
		else
			result = tt_cuda_peer_access(cuda, rank, &all[rank], &window->peer[rank]);
	}
	return result;
}

/* All ranks take both exchanges, whatever fails. */
static tutti_result_t make_window(struct tt_cuda *cuda, cuda_address memory,
				  struct tutti_cuda_window *window)
{
	const size_t size = (size_t)cuda->comm->size;
	struct tt_cuda_offer *all = calloc(size + 1, sizeof(*all)), *mine = all + size;
	struct tt_cuda_entered entered = { false };

	if (!all)
		return tt_comm_fail(cuda->comm,
				    tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
					    "no memory for the windows of %zu ranks", size));
	cuda_result error = tt_cuda_enter(cuda, &entered);
	tutti_result_t result =
		error ? tt_cuda_fail(cuda->driver, "enter the context of the GPU", error)
		      : tt_cuda_offer(cuda, memory, window->bytes, mine);
	result = tt_cuda_exchange(cuda->comm, TT_PART_CUDA_REGISTER, result, mine, all);
	if (!result)
		result = tt_cuda_exchange(cuda->comm, TT_PART_CUDA_REGISTER,
					  access_all(cuda, window, all), mine, all);
	if (result)
		unreach_all(cuda, window);
	tt_cuda_leave(cuda, &entered);
	free(all);
	return result;
}

TUTTI_API tutti_result_t tutti_cuda_register(tutti_comm_t comm, void *memory, size_t bytes,
					     tutti_cuda_window_t *window)
{
	if (window)
		*window = NULL;
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_cuda_register");
	if (refused)
		return refused;
	if (!window)
		return tt_fail(TUTTI_ERR_INVALID, CUDA, "tutti_cuda_register: window is NULL");
	if (!comm->cuda)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"tutti_cuda_register: the communicator is not bound to a GPU: call tutti_cuda_bind() first");
	if (!memory || bytes == 0)
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "tutti_cuda_register: %zu bytes at %p, expected memory of the GPU",
			       bytes, memory);
	enum tt_cuda_memory kind;
	int device;
	tutti_result_t result = tt_cuda_pointer(comm->cuda->driver, memory, &kind, &device);
	if (!result && (kind != TT_CUDA_DEVICE || device != comm->cuda->number))
		result = tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"tutti_cuda_register: %p is no memory of GPU %d, to which the communicator is bound",
			memory, comm->cuda->number);
	if (result)
		return result;
	struct tutti_cuda_window *made = calloc(1, sizeof(*made));
	if (!made)
		return tt_comm_fail(comm, tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
						  "tutti_cuda_register: no memory for a window"));
	made->comm = comm;
	made->bytes = bytes;
	/* by the host nobody reaches it; the window is there, and changes nothing */
	result = comm->cuda->proxy ? TUTTI_OK
				   : make_window(comm->cuda, (cuda_address)(uintptr_t)memory, made);
	if (result) {
		free(made);
		return result;
	}
	pthread_mutex_lock(
		&comm->cuda->order); /* another thread may put something that looks for windows */
	made->number = ++comm->cuda->windows_made;
	made->next = comm->cuda->windows;
	comm->cuda->windows = made;
	pthread_mutex_unlock(&comm->cuda->order);
	*window = made;
	return TUTTI_OK;
}

static void window_free(struct tt_cuda *cuda, struct tutti_cuda_window *window)
{
	struct tt_cuda_entered entered;

	if (tt_cuda_enter(cuda, &entered) == 0)
		unreach_all(cuda, window);
	tt_cuda_leave(cuda, &entered);
	free(window);
}

TUTTI_API tutti_result_t tutti_cuda_deregister(tutti_cuda_window_t window)
{
	if (!window)
		return tt_fail(TUTTI_ERR_INVALID, CUDA, "tutti_cuda_deregister: window is NULL");
	struct tutti_comm *comm = window->comm;

	const tutti_result_t refused = tt_group_refuse(comm, "tutti_cuda_deregister");
	if (refused)
		return refused;
	pthread_mutex_lock(&comm->cuda->order);
	struct tutti_cuda_window **link = &comm->cuda->windows;
	while (*link && *link != window)
		link = &(*link)->next;
	if (*link)
		*link = window->next;
	pthread_mutex_unlock(&comm->cuda->order);
	/* nobody lets go of memory that another rank still works in, and nobody's caller frees
	 * what another one has mapped */
	const tutti_result_t result = tt_part_barrier(comm, TT_PART_CUDA_DEREGISTER);
	window_free(comm->cuda, window);
	return result ? result : tt_part_barrier(comm, TT_PART_CUDA_DEREGISTER);
}

void tt_cuda_windows_free(struct tt_cuda *cuda, bool frees)
{
	while (cuda->windows) {
		struct tutti_cuda_window *window = cuda->windows;

		cuda->windows = window->next;
		if (frees)
			window_free(cuda, window);
		else
			free(window);
	}
}
