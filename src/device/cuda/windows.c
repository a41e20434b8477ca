/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns windows, and the collectives between them: where all ranks know each other's buffers,
 * each reads the others' inputs and writes their results where they are. Every byte of input is
 * read once, and every byte of a result is written once. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "log.h"
#include "parts.h"
#include "multicast.h"
#include "segments.h"

struct tutti_cuda_window {
	struct tutti_cuda_window *next;
	struct tutti_comm *comm;
	uint64_t number; /* the same on all ranks */
	size_t bytes;
	struct tt_cuda_peer peer[TT_CUDA_RANKS];
	struct tt_cuda_multicast multicast;
};

/* ---- which window a buffer is in */

static uint64_t add_to_hash(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ull;
}

static bool find_place(const struct tt_cuda *cuda, const void *buffer, size_t bytes,
		       struct tt_cuda_window_place *place, uint64_t *hash)
{
	const cuda_address at = cuda_at(buffer);

	for (const struct tutti_cuda_window *w = cuda->windows; w && bytes; w = w->next) {
		const cuda_address base = w->peer[cuda->comm->rank].memory;

		if (at < base || at - base > w->bytes || bytes > w->bytes - (at - base))
			continue;
		*place = (struct tt_cuda_window_place){ w, at - base };
		*hash = add_to_hash(add_to_hash(*hash, w->number), place->offset);
		return true;
	}
	return false;
}

static cuda_address place_at(const struct tt_cuda_window_place *place, int rank, size_t offset)
{
	return place->window->peer[rank].memory + place->offset + offset;
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
	const bool reads = reads_others(call->collective), writes = writes_others(call->collective);
	uint64_t hash = 1;

	if (!(reads || writes) || call->op >= TUTTI_OP_COUNT ||
	    (call->collective == TT_ALL_TO_ALL && call->send == call->recv))
		return false;
	if (reads && !find_place(op->cuda, call->send, op->plan->send_span, &op->send, &hash))
		return false;
	if (writes && !find_place(op->cuda, call->recv, op->plan->recv_span, &op->recv, &hash))
		return false;
	op->header.detail ^= hash;
	op->header.windows = (uint8_t)(hash >> 56 | 1);
	return true;
}

/* ---- by multicast: what all ranks have at one place has one address */

#define UNIT 16 /* bytes that kernels load and store there at once */

static cuda_address multicast_at(const struct tt_cuda_window_place *place, size_t offset)
{
	const struct tt_cuda_multicast *multicast = &place->window->multicast;

	return multicast->base + multicast->offset + place->offset + offset;
}

static bool has_multicast(const struct tt_cuda_window_place *place)
{
	return place->window && place->window->multicast.base && multicast_at(place, 0) % UNIT == 0;
}

/* The switch adds in an order of its own. */
static struct CUfunc_st *multicast_sum(const struct tt_cuda_op *op)
{
	const struct tutti_comm *comm = op->cuda->comm;
	const bool fits = op->call->op == TUTTI_SUM && !comm->settings.reproducible &&
			  has_multicast(&op->send) && has_multicast(&op->recv) &&
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

	part.src[0] = cuda_pointer(from);
	part.dst[0] = cuda_pointer(to);
	part.bytes[0] = bytes;
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

/* dst = the sources combined. */
static cuda_result combine(struct tt_cuda_op *op, struct tt_cuda_part *part, size_t bytes)
{
	const struct tt_call *call = op->call;

	part->kind = TT_CUDA_COMBINE;
	part->bytes[0] = bytes;
	part->divisor = call->op == TUTTI_AVG ? (uint32_t)op->cuda->comm->size : 0;
	return tt_cuda_add_part(op, op->cuda->module.reduce[call->op][call->dtype], part);
}

static void add_source(struct tt_cuda_part *part, cuda_address at)
{
	part->src[part->nsrc++] = cuda_pointer(at);
}

static void add_target(struct tt_cuda_part *part, cuda_address at)
{
	part->dst[part->ndst++] = cuda_pointer(at);
}

/* Each rank combines its part of all inputs, and writes it into all results. */
static cuda_result all_reduce(struct tt_cuda_op *op)
{
	const int size = op->cuda->comm->size;
	const struct tt_bytes at = block_at(op, &op->plan->recv, op->cuda->comm->rank);
	struct CUfunc_st *sum = multicast_sum(op);
	struct tt_cuda_part part = { 0 };

	if (sum) {
		const struct tt_bytes own = units_of(op, op->plan->recv_span);

		return move_by_multicast(op, sum, multicast_at(&op->send, own.offset),
					 multicast_at(&op->recv, own.offset), own.length);
	}
	for (int rank = 0; rank < size; rank++) {
		add_source(&part, place_at(&op->send, rank, at.offset));
		add_target(&part, place_at(&op->recv, rank, at.offset));
	}
	return combine(op, &part, at.length);
}

static cuda_result reduce_scatter(struct tt_cuda_op *op)
{
	const struct tt_bytes at = block_at(op, &op->plan->send, op->cuda->comm->rank);
	struct tt_cuda_part part = { 0 };

	for (int rank = 0; rank < op->cuda->comm->size; rank++)
		add_source(&part, place_at(&op->send, rank, at.offset));
	add_target(&part, cuda_at(op->call->recv));
	return combine(op, &part, at.length);
}

/* From `source` to that place of everybody's result, but for what lies there already. */
static cuda_result spread_to_all(struct tt_cuda_op *op, cuda_address source,
				 const struct tt_bytes *at)
{
	struct tt_cuda_part part = { .kind = TT_CUDA_SPREAD };

	add_source(&part, source);
	for (int rank = 0; rank < op->cuda->comm->size; rank++)
		if (place_at(&op->recv, rank, at->offset) != source)
			add_target(&part, place_at(&op->recv, rank, at->offset));
	part.bytes[0] = at->length;
	return part.ndst ? tt_cuda_add_part(op, NULL, &part) : 0;
}

static cuda_result all_gather(struct tt_cuda_op *op)
{
	const cuda_address own = cuda_at(op->call->send);
	const struct tt_bytes at = block_at(op, &op->plan->recv, op->cuda->comm->rank);

	if (has_multicast(&op->recv) && own % UNIT == 0 && at.offset % UNIT == 0 &&
	    at.length % UNIT == 0)
		return move_by_multicast(op, NULL, own, multicast_at(&op->recv, at.offset),
					 at.length);
	return spread_to_all(op, own, &at);
}

static bool is_root(const struct tt_cuda_op *op)
{
	return op->call->root == op->cuda->comm->rank;
}

static bool broadcasts_by_multicast(const struct tt_cuda_op *op)
{
	return has_multicast(&op->recv) && op->plan->recv_span % UNIT == 0;
}

/* Does the root hand on its own part from where it is? Where input and result lie differently, kernels
 * would move single bytes. */
static bool hands_on_input(const struct tt_cuda_op *op)
{
	const uintptr_t from = (uintptr_t)op->call->send, to = (uintptr_t)op->call->recv;

	return is_root(op) && !broadcasts_by_multicast(op) && from % UNIT == to % UNIT;
}

/* Where the others read their parts of a broadcast: in the root's result. */
static cuda_result show_to_others(struct tt_cuda_op *op)
{
	const cuda_address to = cuda_at(op->call->recv), from = cuda_at(op->call->send);
	const struct tt_bytes own = hands_on_input(op)
					    ? block_at(op, &op->plan->recv, op->cuda->comm->rank)
					    : (struct tt_bytes){ 0 };
	const size_t end = own.offset + own.length;
	const cuda_result error = tt_cuda_copy(op, to, from, own.offset);

	return error ? error : tt_cuda_copy(op, to + end, from + end, op->plan->send_span - end);
}

/* Each rank hands on its part of the vector. */
static cuda_result broadcast(struct tt_cuda_op *op)
{
	const struct tt_bytes at = block_at(op, &op->plan->recv, op->cuda->comm->rank);

	if (broadcasts_by_multicast(op)) {
		const struct tt_bytes own = units_of(op, op->plan->recv_span);

		return move_by_multicast(op, NULL, place_at(&op->recv, op->call->root, own.offset),
					 multicast_at(&op->recv, own.offset), own.length);
	}
	return spread_to_all(op,
			     hands_on_input(op) ? cuda_at(op->call->send) + at.offset
						: place_at(&op->recv, op->call->root, at.offset),
			     &at);
}

static cuda_result all_to_all(struct tt_cuda_op *op)
{
	const int size = op->cuda->comm->size;
	const struct tt_bytes mine = block_at(op, &op->plan->send, op->cuda->comm->rank);
	cuda_result error = 0;

	for (int i = 0; i < size && !error; i++) {
		const int from = (op->cuda->comm->rank + i) % size;
		const struct tt_bytes at = block_at(op, &op->plan->recv, from);

		error = tt_cuda_copy(op, cuda_at(op->call->recv) + at.offset,
				     place_at(&op->send, from, mine.offset), at.length);
	}
	return error;
}

static cuda_result move(struct tt_cuda_op *op)
{
	switch (op->call->collective) {
	case TT_ALL_REDUCE: return all_reduce(op);
	case TT_REDUCE_SCATTER:
	case TT_REDUCE_SCATTER_V: return reduce_scatter(op);
	case TT_ALL_GATHER: return all_gather(op);
	case TT_BROADCAST: return broadcast(op);
	default: return all_to_all(op);
	}
}

cuda_result tt_cuda_by_windows(struct tt_cuda_op *op)
{
	cuda_result error = 0;

	tt_cuda_begin_rounds(op);
	if (op->call->collective == TT_BROADCAST && is_root(op))
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

/* ---- registering */

/* The context is there, and nobody uses it. */
static void unreach_all(struct tt_cuda *cuda, struct tutti_cuda_window *window)
{
	tt_cuda_multicast_end(cuda, &window->multicast);
	/* ranks that go by the host may be more, of which none is reached */
	for (int rank = 0; rank < cuda->comm->size && rank < TT_CUDA_RANKS; rank++)
		tt_cuda_unreach(cuda, &window->peer[rank]);
}

/* The same on all ranks. */
static tutti_result_t check_lengths(const struct tutti_comm *comm, size_t bytes,
				    const struct tt_cuda_offer *all)
{
	for (int rank = 0; rank < comm->size; rank++)
		if (all[rank].bytes != bytes)
			return tt_fail(
				TUTTI_ERR_INVALID, CUDA,
				"tutti_cuda_register: %zu bytes, but rank %d registers %zu; expected the same on all ranks",
				bytes, rank, (size_t)all[rank].bytes);
	return TUTTI_OK;
}

/* The driver says that there is a switch, but it cannot be used. Whoever lost another one by that says
 * nothing. */
static void warn_without_multicast(const struct tutti_comm *comm, tutti_result_t result)
{
	if (result && result != TUTTI_ERR_PEER_LOST)
		tt_log(WARN, CUDA,
		       "rank %d: a window goes without the switch between the GPUs (TUTTI_CUDA_MULTICAST=0 does not try): %s",
		       comm->rank, tt_thread_error());
}

/* Who waits for this rank is to learn of its failure before it tells by an exchange: so the sockets are
 * closed here. */
static tutti_result_t access_all(struct tt_cuda *cuda, struct tutti_cuda_window *window,
				 struct tt_cuda_sockets *sockets, struct tt_cuda_offer *all)
{
	tutti_result_t result = tt_cuda_share_segments(cuda, sockets, all, window->peer);

	if (!result && tt_cuda_may_multicast(cuda, all)) {
		const tutti_result_t begun =
			tt_cuda_multicast_begin(cuda, sockets, all, &window->multicast);

		warn_without_multicast(cuda->comm, begun);
		all[cuda->comm->rank].multicast =
			begun ? TT_CUDA_MULTICAST_NOT : TT_CUDA_MULTICAST_BEGUN;
	}
	tt_cuda_sockets_close(sockets);
	for (int rank = 0; rank < cuda->comm->size && !result; rank++)
		if (!tt_cuda_needs_mapping(&all[cuda->comm->rank], &all[rank]))
			result = tt_cuda_peer_access(cuda, rank, &all[rank], &window->peer[rank]);
	return result;
}

static tutti_result_t offer(struct tt_cuda *cuda, cuda_address memory, size_t bytes,
			    struct tt_cuda_sockets *sockets, struct tt_cuda_offer *mine)
{
	const tutti_result_t result = tt_cuda_offer(cuda, memory, bytes, mine);

	if (tt_cuda_attribute(CUDA_MULTICAST, cuda->device) && cuda->comm->settings.cuda_multicast)
		mine->multicast = TT_CUDA_MULTICAST_ABLE;
	return result || !mine->segments ? result : tt_cuda_sockets_listen(sockets, &mine->socket);
}

/* All ranks have the window's memory of each other. Where multicast fails on one, all go without. */
static tutti_result_t add_multicast(struct tt_cuda *cuda, struct tutti_cuda_window *window,
				    struct tt_cuda_offer *all)
{
	const bool begun = tt_cuda_all_multicast(cuda->comm, all, TT_CUDA_MULTICAST_BEGUN);
	struct tt_cuda_offer *mine = &all[cuda->comm->rank];
	tutti_result_t result = TUTTI_OK;

	if (begun) {
		const tutti_result_t bound = tt_cuda_multicast_bind(cuda, mine, &window->multicast);

		warn_without_multicast(cuda->comm, bound);
		mine->multicast = bound ? TT_CUDA_MULTICAST_NOT : TT_CUDA_MULTICAST_BOUND;
		result = tt_cuda_exchange(cuda->comm, TT_PART_CUDA_REGISTER, TUTTI_OK, all);
	}
	if (!result && tt_cuda_all_multicast(cuda->comm, all, TT_CUDA_MULTICAST_BOUND))
		return TUTTI_OK;
	tt_cuda_multicast_end(cuda, &window->multicast);
	return result;
}

/* All ranks take all exchanges, whatever fails. */
static tutti_result_t exchange_all(struct tt_cuda *cuda, tutti_result_t result,
				   struct tutti_cuda_window *window,
				   struct tt_cuda_sockets *sockets, struct tt_cuda_offer *all)
{
	struct tutti_comm *comm = cuda->comm;

	result = tt_cuda_exchange(comm, TT_PART_CUDA_REGISTER, result, all);
	const bool multicast = !result && tt_cuda_may_multicast(cuda, all);
	if (!result)
		result = check_lengths(comm, window->bytes, all);
	if (!result)
		result = tt_cuda_exchange(comm, TT_PART_CUDA_REGISTER,
					  tt_cuda_ask_for_segments(cuda, sockets, all), all);
	if (!result)
		result = tt_cuda_exchange(comm, TT_PART_CUDA_REGISTER,
					  access_all(cuda, window, sockets, all), all);
	return result || !multicast ? result : add_multicast(cuda, window, all);
}

static tutti_result_t make_window(struct tt_cuda *cuda, cuda_address memory,
				  struct tutti_cuda_window *window)
{
	const size_t size = (size_t)cuda->comm->size;
	struct tt_cuda_offer *all = calloc(size, sizeof(*all));
	struct tt_cuda_entered entered = { false };
	struct tt_cuda_sockets sockets;

	if (!all)
		return tt_comm_fail(cuda->comm,
				    tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
					    "no memory for the windows of %zu ranks", size));
	tt_cuda_sockets_begin(&sockets, cuda->comm);
	cuda_result error = tt_cuda_enter(cuda->context, &entered);
	tutti_result_t result =
		error ? tt_cuda_check(error, "enter the context of the GPU")
		      : offer(cuda, memory, window->bytes, &sockets, &all[cuda->comm->rank]);
	result = exchange_all(cuda, result, window, &sockets, all);
	tt_cuda_sockets_close(&sockets);
	if (result)
		unreach_all(cuda, window);
	tt_cuda_leave(&entered);
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
	tutti_result_t result = tt_cuda_pointer(memory, &kind, &device);
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
	result = comm->cuda->proxy ? TUTTI_OK : make_window(comm->cuda, cuda_at(memory), made);
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

static void window_free(struct tt_cuda *cuda, struct tutti_cuda_window *window, bool frees)
{
	struct tt_cuda_entered entered = { false };

	if (frees && tt_cuda_enter(cuda->context, &entered) == 0)
		unreach_all(cuda, window);
	tt_cuda_leave(&entered);
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
	window_free(comm->cuda, window, true);
	return result ? result : tt_part_barrier(comm, TT_PART_CUDA_DEREGISTER);
}

void tt_cuda_windows_free(struct tt_cuda *cuda, bool frees)
{
	while (cuda->windows) {
		struct tutti_cuda_window *window = cuda->windows;

		cuda->windows = window->next;
		window_free(cuda, window, frees);
	}
}
