/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns windows: memory that all ranks have registered, and so reach where it is (direct.c). */
#include "windows.h"

#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "log.h"
#include "parts.h"
#include "segments.h"

const struct tutti_cuda_window *tt_cuda_window_of(const struct tt_cuda *cuda, const void *buffer,
						  size_t bytes)
{
	const cuda_address at = cuda_at(buffer);

	for (const struct tutti_cuda_window *w = cuda->windows; w && bytes; w = w->next) {
		const cuda_address base = w->peer[cuda->comm->rank].memory;

		if (at >= base && at - base <= w->bytes && bytes <= w->bytes - (at - base))
			return w;
	}
	return NULL;
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
