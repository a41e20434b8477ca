/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the life of windows: what ranks tell each other of theirs, which of it is mapped, which
 * pairs of ranks are connected, and the end. */
#include "window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device_table.h"
#include "fault.h"
#include "group.h"
#include "log.h"
#include "memory.h"
#include "next_call.h"
#include "parts.h"
#include "progress.h"
#include "windows.h"

/* What a rank tells the others. Plain bytes: travels between ranks. */
struct told {
	uint64_t bytes, address; /* of the window; the address modulo 8 */
	/* granted: where it is in the exposed memory, and by which tokens that and the counters
	 * are found */
	uint64_t offset, exposed_bytes, token, counters_token;
	uint32_t signals, granted;
};
static_assert(sizeof(struct told) == 56, "no bytes between");

/* ---- this rank's part */

static size_t counter_bytes(uint32_t signals)
{
	return (signals ? signals : 1) * sizeof(_Atomic uint64_t);
}

/* The endpoint through which this rank shares memory with others; NULL: with nobody. */
static struct tt_endpoint *shared_endpoint(const struct tutti_comm *comm)
{
	for (int i = 0; i < comm->nendpoints; i++)
		if (comm->endpoints[i]->ops->memory)
			return comm->endpoints[i];
	return NULL;
}

static bool export_memory(struct tutti_window *window, struct tt_endpoint *e, struct told *told)
{
	const struct tt_window_part *own = &window->part[window->comm->rank];
	struct tt_exposure *x;

	if (own->bytes == 0)
		return true;
	x = window->exposure = tt_exposure_begin(own->memory, own->bytes);
	if (!x || !e->ops->memory->grants_writes(e, x->begin, x->bytes) ||
	    !e->ops->memory->export(e, x->begin, x->bytes, &told->token))
		return false;
	told->offset = (uint64_t)(own->memory - (uint8_t *)x->begin);
	told->exposed_bytes = x->bytes;
	return true;
}

static bool export_counters(const struct tutti_window *window, struct tt_endpoint *e,
			    struct told *told)
{
	const struct tt_window_part *own = &window->part[window->comm->rank];
	const size_t bytes = counter_bytes(own->signals);

	return window->heap_counters && e->ops->memory->grants_writes(e, own->counter, bytes) &&
	       e->ops->memory->export(e, own->counter, bytes, &told->counters_token);
}

/* Both or neither. */
static bool export_all(struct tutti_window *window, struct told *told)
{
	struct tt_endpoint *e = shared_endpoint(window->comm);

	if (e && export_memory(window, e, told) && export_counters(window, e, told))
		return true;
	tt_exposure_end(window->exposure, false);
	window->exposure = NULL;
	return false;
}

static void *new_counters(struct tutti_window *window, uint32_t signals)
{
	const size_t bytes = counter_bytes(signals);
	void *counters = NULL;

	window->heap_counters =
		shared_endpoint(window->comm) && tutti_mem_alloc(bytes, &counters) == TUTTI_OK;
	if (!window->heap_counters)
		return calloc(1, bytes);
	return memset(counters, 0, bytes);
}

static void free_counters(struct tutti_window *window)
{
	void *counters = window->part[window->comm->rank].counter;

	if (window->heap_counters)
		tutti_mem_free(counters);
	else
		free(counters);
}

static tutti_result_t window_new(struct tutti_comm *comm, void *memory, size_t bytes,
				 uint32_t signals, struct tutti_window **out)
{
	struct tutti_window *window =
		calloc(1, sizeof(*window) + (size_t)comm->size * sizeof(window->part[0]));

	if (!window)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "tutti_window_create: no memory");
	window->comm = comm;
	window->owner = comm->owner;
	struct tt_window_part *own = &window->part[comm->rank];
	*own = (struct tt_window_part){ .bytes = bytes,
					.signals = signals,
					.direct = true,
					.memory = memory,
					.counter = new_counters(window, signals),
					.address = (uintptr_t)memory % 8 };
	if (!own->counter) {
		free(window);
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
			       "tutti_window_create: no memory for %" PRIu32 " signals", signals);
	}
	*out = window;
	return TUTTI_OK;
}

static void window_free(struct tutti_window *window)
{
	free_counters(window);
	free(window);
}

/* `late`: peers that do not know of the end yet may still write. */
static void take_back(struct tutti_window *window, bool late)
{
	const struct tt_window_part *own = &window->part[window->comm->rank];

	if (!window->granted)
		return;
	tt_exposure_end(window->exposure, late);
	if (late)
		tt_heap_revoke(own->counter, counter_bytes(own->signals));
}

/* ---- the communicator's windows */

static tutti_result_t make_windows(struct tutti_comm *comm)
{
	const size_t peers = (size_t)comm->size * sizeof(comm->windows->peer[0]);

	if (!comm->windows)
		comm->windows = calloc(1, sizeof(*comm->windows) + peers);
	if (!comm->windows)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "tutti_window_create: no memory");
	comm->one_sided = &tt_windows_one_sided;
	return TUTTI_OK;
}

/* From now on peers' frames find it. Lock held. */
static tutti_result_t install(struct tutti_window *window)
{
	const tutti_result_t result = make_windows(window->comm);

	if (result)
		return result;
	struct tt_windows *w = window->comm->windows;
	if (w->count == w->capacity) {
		const uint32_t capacity = w->capacity ? 2 * w->capacity : 8;
		struct tutti_window **all = realloc(w->all, capacity * sizeof(*all));

		if (!all)
			return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
				       "tutti_window_create: no memory for %" PRIu32 " windows",
				       capacity);
		w->all = all;
		w->capacity = capacity;
	}
	window->number = w->count;
	w->all[w->count++] = window;
	return TUTTI_OK;
}

static tutti_result_t uninstall(struct tutti_window *window)
{
	struct tutti_comm *comm = window->comm;
	const tutti_result_t result = tt_window_close(window);

	comm->windows->all[window->number] = NULL;
	if (window->framed && --comm->windows->framed == 0)
		atomic_store_explicit(&comm->serves, false, memory_order_relaxed);
	return result;
}

/* ---- the others' parts */

static bool share_memory(const struct tutti_comm *comm, int rank)
{
	return comm->routes.via[rank] >= 0 && comm->endpoints[comm->routes.via[rank]]->ops->memory;
}

static tutti_result_t map_part(struct tutti_window *window, int rank, const struct told *told)
{
	struct tutti_comm *comm = window->comm;
	struct tt_window_part *part = &window->part[rank];
	struct tt_endpoint *e = comm->endpoints[comm->routes.via[rank]];

	if (told->offset > told->exposed_bytes || told->bytes > told->exposed_bytes - told->offset)
		return tt_fail(TUTTI_ERR_SYSTEM, EXEC,
			       "rank %d told of a window of %" PRIu64 " bytes at %" PRIu64
			       ", expected them within %" PRIu64,
			       rank, told->bytes, told->offset, told->exposed_bytes);
	part->counter =
		e->ops->memory->import(e, rank, told->counters_token, counter_bytes(told->signals));
	if (part->counter && told->bytes > 0)
		part->memory = e->ops->memory->import(e, rank, told->token, told->exposed_bytes);
	if (!part->counter || (told->bytes > 0 && !part->memory)) {
		comm->routes.failed_peer = rank;
		return TUTTI_ERR_SYSTEM;
	}
	if (part->memory)
		part->memory += told->offset;
	part->address = (uintptr_t)part->memory % 8;
	part->direct = true;
	return TUTTI_OK;
}

/* Frames need a link; both ends come to the same answer. Lock held. */
static tutti_result_t connect_peer(struct tutti_comm *comm, int rank)
{
	struct tt_windows *w = comm->windows;
	struct tt_window_peer *peer = w->peer[rank];

	if (!peer)
		peer = calloc(1, sizeof(*peer));
	if (!peer)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
			       "tutti_window_create: no memory for the link with rank %d", rank);
	w->peer[rank] = peer;
	return tt_comm_connection(comm, rank, TT_CHANNEL_ONE_SIDED, &peer->connection);
}

/* Of one rank that is not this one. Lock held. */
static tutti_result_t meet(struct tutti_window *window, int rank, const struct told *all)
{
	struct tutti_comm *comm = window->comm;
	struct tt_window_part *part = &window->part[rank];
	const bool shared = share_memory(comm, rank);

	part->bytes = all[rank].bytes;
	part->signals = all[rank].signals;
	part->address = all[rank].address;
	if (shared && all[rank].granted) {
		const tutti_result_t result = map_part(window, rank, &all[rank]);

		if (result)
			return result;
	}
	if (shared && all[rank].granted && all[comm->rank].granted)
		return TUTTI_OK;
	window->framed = true;
	return connect_peer(comm, rank);
}

/* Lock held. */
static tutti_result_t meet_all(struct tutti_window *window, const struct told *all)
{
	struct tutti_comm *comm = window->comm;
	tutti_result_t result = TUTTI_OK;

	for (int rank = 0; rank < comm->size && !result; rank++)
		if (rank != comm->rank)
			result = meet(window, rank, all);
	if (window->framed) {
		comm->windows->framed++;
		atomic_store_explicit(&comm->serves, true, memory_order_relaxed);
		tt_progress_thread_want(comm);
	}
	return result;
}

/* All ranks have installed theirs before any of them goes on: the first exchange; and all have
 * mapped what they may write to, and are ready to be written to: the second. */
static tutti_result_t exchange(struct tutti_window *window, const struct told *mine)
{
	struct tutti_comm *comm = window->comm;
	struct told *all = malloc((size_t)comm->size * sizeof(*all));
	tutti_result_t result;

	if (!all)
		return tt_comm_fail(comm, tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
						  "tutti_window_create: no memory for %d ranks",
						  comm->size));
	result = tt_part_all_gather(comm, TT_PART_WINDOW_CREATE, mine, all, sizeof(*mine));
	if (!result) {
		tt_comm_lock(comm);
		result = meet_all(window, all);
		if (result)
			result = tt_comm_give_up(comm, result);
		pthread_mutex_unlock(&comm->lock);
	}
	free(all);
	return result ? result : tt_part_barrier(comm, TT_PART_WINDOW_CREATE);
}

/* ---- the public functions */

static tutti_result_t check(struct tutti_comm *comm, void *memory, size_t bytes, uint32_t signals,
			    struct tutti_window **out)
{
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_window_create");

	if (refused)
		return refused;
	if (!out)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_window_create: window is NULL");
	if (!memory && bytes > 0)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_window_create: memory is NULL, bytes %zu", bytes);
	if (bytes > PTRDIFF_MAX)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_window_create: found %zu bytes, expected at most %zu", bytes,
			       (size_t)PTRDIFF_MAX);
	if (signals > TT_WINDOW_SIGNALS_MAX)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_window_create: found %" PRIu32
			       " signals, expected at most %u",
			       signals, TT_WINDOW_SIGNALS_MAX);
	if (bytes > 0 && tt_device_may_have_buffers() && tt_device->holds(memory))
		return tt_fail(TUTTI_ERR_UNSUPPORTED, EXEC,
			       "tutti_window_create: the memory is on a GPU, expected the host's; "
			       "tutti_cuda_register() is for that of GPUs");
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_window_create(tutti_comm_t comm, void *memory, size_t bytes,
					     uint32_t signals, tutti_window_t *out)
{
	struct tutti_window *window = NULL;
	struct told mine = { .bytes = bytes, .address = (uintptr_t)memory % 8, .signals = signals };

	if (out)
		*out = NULL;
	tutti_result_t result = check(comm, memory, bytes, signals, out);
	if (result)
		return result;
	result = window_new(comm, memory, bytes, signals, &window);
	if (result)
		return tt_comm_fail(comm, result);
	window->granted = export_all(window, &mine);
	mine.granted = window->granted;
	tt_comm_lock(comm);
	result = install(window);
	if (result)
		result = tt_comm_give_up(comm, result);
	pthread_mutex_unlock(&comm->lock);
	if (result) {
		take_back(window, false);
		window_free(window);
		return result;
	}
	result = exchange(window, &mine);
	if (result) {
		tutti_window_destroy(window);
		return result;
	}
	*out = window;
	return TUTTI_OK;
}

/* Calls of this rank that have not ended. */
static int count_unfinished(const struct tutti_window *window)
{
	int count = 0;

	for (const struct tt_op *op = window->comm->first; op; op = op->next)
		count += op->kind == TT_OP_ONE_SIDED && op->window_call->window == window;
	return count;
}

static tutti_result_t check_end(const struct tutti_window *window)
{
	struct tutti_comm *comm = window->comm;
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_window_destroy");

	if (refused)
		return refused;
	tt_comm_lock(comm);
	tt_next_call_free(comm->next_calls ? tt_next_call_take(comm) : NULL);
	if (comm->fault.result)
		tt_comm_progress(comm); /* ends what is in flight, once all agree */
	const int unfinished = count_unfinished(window);
	pthread_mutex_unlock(&comm->lock);
	if (unfinished)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_window_destroy: %d call%s of this rank on the window %s not "
			       "ended, expected none: test or wait for %s first",
			       unfinished, unfinished == 1 ? "" : "s",
			       unfinished == 1 ? "has" : "have", unfinished == 1 ? "it" : "them");
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_window_destroy(tutti_window_t window)
{
	if (!window)
		return TUTTI_OK;
	if (!tt_owned_here(&window->owner)) /* tutti_comm_destroy() frees it */
		return tt_fail_inherited(&window->owner, "tutti_window_destroy", "window");
	struct tutti_comm *comm = window->comm;
	tutti_result_t result = check_end(window);

	if (result)
		return result;
	result = tutti_flush(window, TUTTI_ANY_PEER, NULL);
	if (!result)
		result = tt_part_barrier_of(comm, TT_PART_WINDOW_DESTROY, window->number);
	take_back(window, result != TUTTI_OK);
	tt_comm_lock(comm);
	const tutti_result_t end = uninstall(window);
	pthread_mutex_unlock(&comm->lock);
	window_free(window);
	return result ? result : end;
}

TUTTI_API size_t tutti_window_bytes(tutti_window_t window, int rank)
{
	return window && rank >= 0 && rank < window->comm->size ? window->part[rank].bytes : 0;
}

TUTTI_API int tutti_window_direct(tutti_window_t window, int rank)
{
	return window && rank >= 0 && rank < window->comm->size && window->part[rank].direct;
}

void tt_windows_free(struct tutti_comm *comm)
{
	struct tt_windows *w = comm->windows;
	const bool here = tt_owned_here(&comm->owner);

	if (!w)
		return;
	for (uint32_t i = 0; i < w->count; i++) {
		if (!w->all[i])
			continue;
		if (here)
			take_back(w->all[i], true);
		if (here || !w->all[i]->heap_counters)
			free_counters(w->all[i]);
		free(w->all[i]);
	}
	for (int rank = 0; rank < comm->size; rank++) {
		if (w->peer[rank])
			free(w->peer[rank]->outbox.ring);
		free(w->peer[rank]);
	}
	free(w->all);
	free(w);
	comm->windows = NULL;
}
