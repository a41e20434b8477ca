/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns pinned memory between buffers on GPUs and calls, a pool of it for each communicator, and
 * the copies.
 *
 * What a call does not write of its output stays as it is: the copy to the GPU takes exactly the
 * blocks that were received. To copy the output in first, and all of it back, would bring twice
 * the bytes over the bus, and undo what the program writes between the blocks meanwhile.
 *
 * Buffers that overlap, as they do in place, get one chunk of pinned memory in which they lie to
 * each other as on the GPU, so what is found out by comparing addresses comes out the same.
 *
 * Copies run on a stream of the communicator that waits for no other, and are waited for by the
 * thread that makes the call or ends its request. CUDA's current context is, after all this,
 * what it was. */
#include "staged.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bound.h"
#include "call.h"
#include "log.h"
#include "pointers.h"

#define SHORTEST ((size_t)64 << 10) /* chunk of pinned memory; longer ones are powers of two … */
#define LONG	 ((size_t)4 << 20)  /* … and from here on multiples of this */

/* A GPU that buffers were on. */
struct gpu {
	struct gpu *next;
	int number;
	cuda_device device;
	struct CUctx_st *context; /* its primary one, retained */
	struct CUstream_st *stream;
};

struct chunk {
	struct chunk *next;
	uint8_t *memory;
	size_t room;
	const struct gpu *gpu; /* in whose context it was made, for all */
	bool used;
};

struct tt_staging {
	pthread_mutex_t lock;
	const struct cuda_driver *driver;
	struct gpu *gpus;
	struct chunk *chunks; /* those in use as well */
};

struct tt_staged {
	struct tt_staged *next;
	struct tt_staging *staging;
	struct chunk *chunks[2];
	const struct gpu *gpu; /* whose the output is; NULL: it is the host's, or there is none */
	uint8_t *to, *from;
	size_t nruns;
	struct tt_bytes run[]; /* of the output, what the call writes */
};

/* One buffer of a call. */
struct side {
	bool input;
	uint8_t *at;
	size_t bytes; /* that it spans */
	enum tt_cuda_memory kind;
	int number;
	const struct gpu *gpu;
	uint8_t *host; /* what stands for it */
};

/* ---- GPUs and their contexts */

static cuda_result open_stream(const struct tt_staging *staging, struct gpu *gpu)
{
	struct tt_cuda_entered entered;
	cuda_result error = tt_cuda_enter_context(staging->driver, gpu->context, &entered);

	if (error)
		return error;
	error = staging->driver->stream_create(&gpu->stream, CUDA_STREAM_NON_BLOCKING);
	tt_cuda_leave_context(staging->driver, &entered);
	return error;
}

static cuda_result open_gpu(const struct tt_staging *staging, struct gpu *gpu)
{
	const struct cuda_driver *driver = staging->driver;
	cuda_result error = driver->device_get(&gpu->device, gpu->number);

	if (!error)
		error = driver->primary_retain(&gpu->context, gpu->device);
	if (error)
		return error;
	error = open_stream(staging, gpu);
	if (error)
		driver->primary_release(gpu->device);
	return error;
}

/* The GPU of that number. The staging's lock is held. */
static tutti_result_t find_gpu(struct tt_staging *staging, int number, const struct gpu **out)
{
	struct gpu *gpu = staging->gpus;
	char what[64];

	while (gpu && gpu->number != number)
		gpu = gpu->next;
	*out = gpu;
	if (gpu)
		return TUTTI_OK;
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to copy from and to GPU %d",
			       number);
	gpu->number = number;
	const cuda_result error = open_gpu(staging, gpu);
	if (error) {
		free(gpu);
		snprintf(what, sizeof(what), "make a stream for copies from and to GPU %d", number);
		return tt_cuda_fail(staging->driver, what, error);
	}
	gpu->next = staging->gpus;
	*out = staging->gpus = gpu;
	return TUTTI_OK;
}

static void close_gpu(const struct tt_staging *staging, struct gpu *gpu)
{
	struct tt_cuda_entered entered;

	if (tt_cuda_enter_context(staging->driver, gpu->context, &entered) == 0) {
		staging->driver->stream_destroy(gpu->stream);
		tt_cuda_leave_context(staging->driver, &entered);
	}
	staging->driver->primary_release(gpu->device);
}

/* ---- pinned memory */

static size_t rounded(size_t bytes)
{
	size_t room = SHORTEST;

	if (bytes > LONG)
		return bytes > SIZE_MAX - LONG ? bytes : (bytes + LONG - 1) / LONG * LONG;
	while (room < bytes)
		room *= 2;
	return room;
}

static void free_pinned(const struct tt_staging *staging, const struct chunk *chunk)
{
	struct tt_cuda_entered entered;

	if (tt_cuda_enter_context(staging->driver, chunk->gpu->context, &entered) != 0)
		return; /* the context is gone, and its memory with it */
	staging->driver->mem_host_free(chunk->memory);
	tt_cuda_leave_context(staging->driver, &entered);
}

/* The shortest that will do of those that nobody uses; NULL: none. */
static struct chunk *find_chunk(const struct tt_staging *staging, size_t bytes)
{
	struct chunk *best = NULL;

	for (struct chunk *chunk = staging->chunks; chunk; chunk = chunk->next)
		if (!chunk->used && chunk->room >= bytes && (!best || chunk->room < best->room))
			best = chunk;
	return best;
}

/* Free those that nobody uses. CUDA may keep whoever frees pinned memory until streams have
 * ended, which may wait for ranks that wait for this one: only where there is no other memory. */
static void drop_unused(struct tt_staging *staging)
{
	for (struct chunk **link = &staging->chunks; *link;) {
		struct chunk *chunk = *link;

		if (chunk->used) {
			link = &chunk->next;
			continue;
		}
		*link = chunk->next;
		free_pinned(staging, chunk);
		free(chunk);
	}
}

/* As those that have become too short are kept, longer ones are half as long again at least: all
 * of them together are less than three times the longest. */
static size_t room_for(const struct tt_staging *staging, size_t bytes)
{
	size_t longest = 0;

	for (const struct chunk *chunk = staging->chunks; chunk; chunk = chunk->next)
		if (!chunk->used && chunk->room > longest)
			longest = chunk->room;
	return rounded(bytes > longest + longest / 2 ? bytes : longest + longest / 2);
}

static cuda_result pin(const struct tt_staging *staging, struct chunk *chunk)
{
	struct tt_cuda_entered entered;
	void *memory = NULL;
	cuda_result error = tt_cuda_enter_context(staging->driver, chunk->gpu->context, &entered);

	if (error)
		return error;
	error = staging->driver->mem_host_alloc(&memory, chunk->room, CUDA_HOST_PORTABLE);
	tt_cuda_leave_context(staging->driver, &entered);
	chunk->memory = memory;
	return error;
}

/* The staging's lock is held. */
static tutti_result_t new_chunk(struct tt_staging *staging, const struct gpu *gpu, size_t bytes,
				struct chunk **out)
{
	struct chunk *chunk = calloc(1, sizeof(*chunk));
	char what[96];

	if (!chunk)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to copy from and to GPU %d",
			       gpu->number);
	*chunk = (struct chunk){ .room = room_for(staging, bytes), .gpu = gpu };
	cuda_result error = pin(staging, chunk);
	if (error == CUDA_OUT_OF_MEMORY) {
		drop_unused(staging);
		chunk->room = bytes;
		error = pin(staging, chunk);
	}
	if (error) {
		free(chunk);
		if (error == CUDA_OUT_OF_MEMORY)
			return tt_fail(
				TUTTI_ERR_NO_MEMORY, CUDA,
				"no pinned memory of the host for the %zu bytes of a buffer on GPU %d: CUDA could not have it from the system",
				bytes, gpu->number);
		snprintf(what, sizeof(what),
			 "take pinned memory of the host for the %zu bytes of a buffer on GPU %d",
			 bytes, gpu->number);
		return tt_cuda_fail(staging->driver, what, error);
	}
	chunk->next = staging->chunks;
	*out = staging->chunks = chunk;
	return TUTTI_OK;
}

static tutti_result_t take_chunk(struct tt_staging *staging, const struct gpu *gpu, size_t bytes,
				 struct chunk **out)
{
	tutti_result_t result = TUTTI_OK;

	pthread_mutex_lock(&staging->lock);
	*out = find_chunk(staging, bytes);
	if (!*out)
		result = new_chunk(staging, gpu, bytes, out);
	if (!result)
		(*out)->used = true;
	pthread_mutex_unlock(&staging->lock);
	return result;
}

static void give_chunks_back(struct tt_staged *staged)
{
	pthread_mutex_lock(&staged->staging->lock);
	for (int i = 0; i < 2; i++)
		if (staged->chunks[i])
			staged->chunks[i]->used = false;
	pthread_mutex_unlock(&staged->staging->lock);
}

/* ---- a communicator's */

static tutti_result_t staging_of(struct tutti_comm *comm, const struct cuda_driver *driver,
				 struct tt_staging **out)
{
	/* acquire: pairs with the release of the thread that made it */
	struct tt_staging *there = atomic_load_explicit(&comm->staging, memory_order_acquire);

	*out = there;
	if (there)
		return TUTTI_OK;
	struct tt_staging *made = calloc(1, sizeof(*made));
	if (!made)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to copy from and to GPUs");
	made->driver = driver;
	pthread_mutex_init(&made->lock, NULL);
	*out = made;
	if (atomic_compare_exchange_strong_explicit(&comm->staging, &there, made,
						    memory_order_acq_rel, memory_order_acquire))
		return TUTTI_OK;
	*out = there; /* another thread was faster */
	pthread_mutex_destroy(&made->lock);
	free(made);
	return TUTTI_OK;
}

void tt_staging_free(struct tutti_comm *comm)
{
	struct tt_staging *staging = comm->staging;
	const bool ours = tt_comm_usable(comm); /* a child of fork() has nothing of CUDA's */

	if (!staging)
		return;
	while (staging->chunks) {
		struct chunk *chunk = staging->chunks;

		staging->chunks = chunk->next;
		if (ours)
			free_pinned(staging, chunk);
		free(chunk);
	}
	while (staging->gpus) {
		struct gpu *gpu = staging->gpus;

		staging->gpus = gpu->next;
		if (ours)
			close_gpu(staging, gpu);
		free(gpu);
	}
	if (ours)
		pthread_mutex_destroy(&staging->lock);
	free(staging);
	comm->staging = NULL;
}

/* ---- copies */

static tutti_result_t copy(const struct tt_staging *staging, const struct gpu *gpu, bool input,
			   uint8_t *to, const uint8_t *from, const struct tt_bytes *run,
			   size_t nruns)
{
	const struct cuda_driver *driver = staging->driver;
	struct tt_cuda_entered entered;
	size_t bytes = 0;
	char what[96];

	if (nruns == 0)
		return TUTTI_OK;
	cuda_result error = tt_cuda_enter_context(staging->driver, gpu->context, &entered);
	if (!error) {
		for (size_t i = 0; i < nruns && !error; i++)
			error = driver->mem_copy((cuda_address)(uintptr_t)(to + run[i].offset),
						 (cuda_address)(uintptr_t)(from + run[i].offset),
						 run[i].length, gpu->stream);
		const cuda_result ended = driver->stream_synchronize(
			gpu->stream); /* also of those that began before one failed */
		if (!error)
			error = ended;
		tt_cuda_leave_context(staging->driver, &entered);
	}
	if (!error)
		return TUTTI_OK;
	for (size_t i = 0; i < nruns; i++)
		bytes += run[i].length;
	snprintf(what, sizeof(what), "copy %zu bytes of %s GPU %d", bytes,
		 input ? "input from" : "output to", gpu->number);
	return tt_cuda_fail(driver, what, error);
}

/* What a call reads or writes of a buffer, in `run`, which has room for one, or for one of each
 * rank where there are tables; gives how many. Blocks that lie next to each other are one. */
static size_t runs_of(const struct tutti_comm *comm, const struct tt_call *call,
		      const struct side *side, struct tt_bytes *run)
{
	const size_t *counts = side->input ? call->send_counts : call->recv_counts;
	const size_t *displs = side->input ? call->send_displs : call->recv_displs;
	const size_t element = tutti_dtype_size(call->dtype);
	size_t n = 0;

	if (!counts || !displs) { /* without gaps */
		run[0] = (struct tt_bytes){ 0, side->bytes };
		return side->bytes > 0;
	}
	for (int rank = 0; rank < comm->size; rank++) {
		const size_t from = displs[rank] * element, end = from + counts[rank] * element;
		struct tt_bytes *last = n ? &run[n - 1] : NULL;

		if (!counts[rank])
			continue;
		if (!last || from < last->offset || from > last->offset + last->length)
			run[n++] = (struct tt_bytes){ from, end - from };
		else if (end > last->offset + last->length)
			last->length = end - last->offset;
	}
	return n;
}

/* Does this rank's output stay as it is, or have it already? */
static bool writes_nothing(const struct tutti_comm *comm, const struct tt_call *call)
{
	return (call->collective == TT_EXSCAN && comm->rank == 0) ||
	       (call->collective == TT_BROADCAST && comm->rank == call->root &&
		call->send == call->recv);
}

/* ---- from a call to its copies */

static bool on_gpu(const struct side *side)
{
	return side->kind != TT_CUDA_HOST && side->bytes > 0;
}

static tutti_result_t ask(const struct cuda_driver *driver, struct side *side)
{
	if (!side->at)
		return TUTTI_OK;
	return tt_cuda_pointer(driver, side->at, &side->kind, &side->number);
}

static bool overlap(const struct side *a, const struct side *b)
{
	const uintptr_t at = (uintptr_t)a->at, other = (uintptr_t)b->at;

	return on_gpu(a) && on_gpu(b) && at < other + b->bytes && other < at + a->bytes;
}

static tutti_result_t find_gpus(struct tt_staging *staging, struct side *sides)
{
	tutti_result_t result = TUTTI_OK;

	pthread_mutex_lock(&staging->lock);
	for (int i = 0; i < 2 && !result; i++)
		if (on_gpu(&sides[i]))
			result = find_gpu(staging, sides[i].number, &sides[i].gpu);
	pthread_mutex_unlock(&staging->lock);
	return result;
}

/* Give each buffer on a GPU its place in pinned memory. */
static tutti_result_t place(struct tt_staged *staged, struct side *sides)
{
	struct side *send = &sides[0], *recv = &sides[1];

	if (overlap(send, recv)) {
		uint8_t *const begin = send->at < recv->at ? send->at : recv->at;
		uint8_t *const send_end = send->at + send->bytes, *const recv_end =
									  recv->at + recv->bytes;
		const size_t bytes = (size_t)((send_end > recv_end ? send_end : recv_end) - begin);
		const tutti_result_t result =
			take_chunk(staged->staging, recv->gpu, bytes, &staged->chunks[0]);

		if (result)
			return result;
		send->host = staged->chunks[0]->memory + (send->at - begin);
		recv->host = staged->chunks[0]->memory + (recv->at - begin);
		return TUTTI_OK;
	}
	for (int i = 0; i < 2; i++) {
		if (!on_gpu(&sides[i]))
			continue;
		const tutti_result_t result = take_chunk(staged->staging, sides[i].gpu,
							 sides[i].bytes, &staged->chunks[i]);
		if (result)
			return result;
		sides[i].host = staged->chunks[i]->memory;
	}
	return TUTTI_OK;
}

/* Copy the input in, and write down what is to be copied out. */
static tutti_result_t bring(const struct tutti_comm *comm, const struct tt_call *call,
			    const struct side *sides, struct tt_staged *staged)
{
	const struct side *send = &sides[0], *recv = &sides[1];

	if (send->host) {
		const size_t n = runs_of(comm, call, send,
					 staged->run); /* there for as long as nothing else is */
		const tutti_result_t result = copy(staged->staging, send->gpu, true, send->host,
						   send->at, staged->run, n);

		if (result)
			return result;
	}
	if (recv->host && !writes_nothing(comm, call)) {
		staged->gpu = recv->gpu;
		staged->to = recv->at;
		staged->from = recv->host;
		staged->nruns = runs_of(comm, call, recv, staged->run);
	}
	return TUTTI_OK;
}

static tutti_result_t stage(struct tutti_comm *comm, const struct cuda_driver *driver,
			    const struct tt_call *call, struct side *sides, struct tt_staged **out)
{
	const size_t runs = call->send_counts || call->recv_counts ? (size_t)comm->size : 1;
	struct tt_staged *staged = calloc(1, sizeof(*staged) + runs * sizeof(staged->run[0]));

	if (!staged)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory to copy from and to GPUs",
			       tt_call_name(call));
	tutti_result_t result = staging_of(comm, driver, &staged->staging);
	if (result) {
		free(staged);
		return result;
	}
	result = find_gpus(staged->staging, sides);
	if (!result)
		result = place(staged, sides);
	if (!result)
		result = bring(comm, call, sides, staged);
	if (result) {
		give_chunks_back(staged);
		free(staged);
		return result;
	}
	*out = staged;
	return TUTTI_OK;
}

tutti_result_t tt_staged_add(struct tutti_comm *comm, struct tt_call *call, struct tt_staged **list)
{
	const struct cuda_driver *driver = tt_cuda_opened();
	struct side sides[2] = { { .input = true, .at = (uint8_t *)call->send },
				 { .at = call->recv } };
	struct tt_staged *staged = NULL;

	tutti_result_t result = ask(driver, &sides[0]);
	if (!result)
		result = ask(driver, &sides[1]);
	if (result)
		return result;
	if (sides[0].kind == TT_CUDA_HOST && sides[1].kind == TT_CUDA_HOST)
		return TUTTI_OK;
	pthread_mutex_lock(&comm->lock); /* other threads may make operations */
	if (!tt_call_check(comm, call))
		tt_call_spans(comm, call, &sides[0].bytes, &sides[1].bytes);
	pthread_mutex_unlock(&comm->lock);
	if (!on_gpu(&sides[0]) && !on_gpu(&sides[1]))
		return TUTTI_OK;
	result = stage(comm, driver, call, sides, &staged);
	if (result)
		return result;
	if (sides[0].host)
		call->send = sides[0].host;
	if (sides[1].host)
		call->recv = sides[1].host;
	staged->next = *list;
	*list = staged;
	return TUTTI_OK;
}

tutti_result_t tt_staged_end(struct tutti_comm *comm, struct tt_staged *staged,
			     tutti_result_t result)
{
	tutti_result_t failed = TUTTI_OK;

	while (staged) {
		struct tt_staged *next = staged->next;

		if (!result && !failed)
			failed = copy(staged->staging, staged->gpu, false, staged->to, staged->from,
				      staged->run, staged->nruns);
		give_chunks_back(staged);
		free(staged);
		staged = next;
	}
	return failed ? tt_comm_fail(comm, failed) : result;
}

void tt_staged_forget(struct tt_staged *staged)
{
	while (staged) {
		struct tt_staged *next = staged->next;

		free(staged);
		staged = next;
	}
}
