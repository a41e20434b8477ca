/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns host memory that stands for buffers on GPUs in calls, and what is copied when.
 *
 * What a call does not write of its output stays as it is: the copy to the GPU takes exactly the
 * blocks that were received. To copy the output in first, and all of it back, would bring twice
 * the bytes over the bus, and undo what the program writes between the blocks meanwhile.
 *
 * Buffers that overlap, as they do in place, get one chunk of memory in which they lie to each
 * other as on the GPU, so what is found out by comparing addresses comes out the same.
 *
 * Copies are waited for by the thread that makes the call or ends its request. */
#include "staged.h"

#include <stdint.h>
#include <stdlib.h>

#include "bound.h"
#include "call.h"
#include "log.h"

#define SHORTEST ((size_t)64 << 10) /* chunk; longer ones are powers of two … */
#define LONG	 ((size_t)4 << 20)  /* … and from here on multiples of this */
#define PAGE	 ((size_t)4096)
#define GPUS	 64 /* of a process, at most */

/* Kept for other calls: memory that is new costs more than the copy into it. */
struct chunk {
	struct chunk *next;
	uint8_t *memory;
	size_t room;
	bool used;
};

/* A GPU that buffers were on. CUDA copies by its own pinned memory what is not pinned itself. */
struct gpu {
	struct CUctx_st *context;   /* the primary one, retained; NULL: no buffer was on it yet */
	struct CUstream_st *copies; /* waits for nothing else on the GPU */
	cuda_device device;
	int number;
};

struct tt_staging {
	pthread_mutex_t lock; /* of what follows */
	struct gpu gpus[GPUS];
	struct chunk *chunks; /* those in use as well */
};

struct tt_staged {
	struct tt_staged *next;
	struct tt_staging *staging;
	struct chunk *chunks[2];
	const struct gpu *gpu; /* the output's; NULL: it is the host's, or there is none */
	uint8_t *to, *from;
	const tutti_message_t *message; /* of a receive, which tells how much came; or NULL */
	size_t element;
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

/* ---- GPUs */

static cuda_result begin_copies(struct gpu *gpu, int number)
{
	struct tt_cuda_entered entered = { false };
	cuda_result error = tt_cu.device_get(&gpu->device, number);

	gpu->number = number;
	if (!error)
		error = tt_cu.primary_retain(&gpu->context, gpu->device);
	if (error)
		return error;
	error = tt_cuda_enter(gpu->context, &entered);
	if (!error)
		error = tt_cu.stream_create(&gpu->copies, CUDA_STREAM_NON_BLOCKING);
	tt_cuda_leave(&entered);
	if (error) {
		tt_cu.primary_release(gpu->device);
		gpu->context = NULL;
	}
	return error;
}

/* Where the context is gone, so is what it had. */
static void end_copies(struct gpu *gpu)
{
	struct tt_cuda_entered entered;

	if (!gpu->context)
		return;
	if (tt_cuda_enter(gpu->context, &entered) == 0)
		tt_cu.stream_destroy(gpu->copies);
	tt_cuda_leave(&entered);
	tt_cu.primary_release(gpu->device);
}

static tutti_result_t find_gpu(struct tt_staging *staging, int number, const struct gpu **out)
{
	if (number >= GPUS)
		return tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA,
			       "a buffer is on GPU %d, expected one of the first %d", number, GPUS);
	struct gpu *const gpu = &staging->gpus[number];
	pthread_mutex_lock(&staging->lock);
	const cuda_result error = gpu->context ? 0 : begin_copies(gpu, number);
	pthread_mutex_unlock(&staging->lock);
	*out = gpu;
	return tt_cuda_check(error, "make a stream for copies from and to GPU %d", number);
}

/* Runs of bytes, if there are any, which have the same offsets on both sides, to the GPU or from
 * there. Waits until all has arrived; for nothing else on the GPU. */
static tutti_result_t copy(const struct gpu *gpu, bool to_gpu, uint8_t *memory, uint8_t *host,
			   const struct tt_bytes *run, size_t nruns)
{
	struct tt_cuda_entered entered;
	size_t bytes = 0;

	if (nruns == 0)
		return TUTTI_OK;
	cuda_result error = tt_cuda_enter(gpu->context, &entered);
	for (size_t i = 0; i < nruns; i++) {
		const cuda_address there = cuda_at(memory + run[i].offset),
				   here = cuda_at(host + run[i].offset);

		if (!error)
			error = tt_cu.mem_copy(to_gpu ? there : here, to_gpu ? here : there,
					       run[i].length, gpu->copies);
		bytes += run[i].length;
	}
	if (entered.there) { /* also after an error: what was begun is at the buffers */
		const cuda_result rest = tt_cu.stream_synchronize(gpu->copies);

		error = error ? error : rest;
	}
	tt_cuda_leave(&entered);
	return tt_cuda_check(error, "copy %zu bytes of %s GPU %d", bytes,
			     to_gpu ? "output to" : "input from", gpu->number);
}

/* ---- memory of the host */

static size_t rounded(size_t bytes)
{
	size_t room = SHORTEST;

	if (bytes > SIZE_MAX - LONG)
		return bytes; /* there is no such memory */
	if (bytes > LONG)
		return (bytes + LONG - 1) / LONG * LONG;
	while (room < bytes)
		room *= 2;
	return room;
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

/* All that nobody uses are too short for the call: they are not kept beside the longer one. */
static void drop_unused(struct tt_staging *staging)
{
	for (struct chunk **link = &staging->chunks; *link;) {
		struct chunk *chunk = *link;

		if (chunk->used) {
			link = &chunk->next;
			continue;
		}
		*link = chunk->next;
		free(chunk->memory);
		free(chunk);
	}
}

/* NULL: no memory. The staging's lock is held. */
static struct chunk *new_chunk(struct tt_staging *staging, size_t bytes)
{
	struct chunk *chunk = calloc(1, sizeof(*chunk));

	drop_unused(staging);
	if (!chunk)
		return NULL;
	*chunk = (struct chunk){ .room = rounded(bytes), .next = staging->chunks };
	chunk->memory = aligned_alloc(PAGE, chunk->room);
	if (!chunk->memory) {
		free(chunk);
		return NULL;
	}
	staging->chunks = chunk;
	return chunk;
}

static tutti_result_t take_chunk(struct tt_staging *staging, int number, size_t bytes,
				 struct chunk **out)
{
	pthread_mutex_lock(&staging->lock);
	*out = find_chunk(staging, bytes);
	if (!*out)
		*out = new_chunk(staging, bytes);
	if (*out)
		(*out)->used = true;
	pthread_mutex_unlock(&staging->lock);
	return *out ? TUTTI_OK
		    : tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
			      "no memory of the host for the %zu bytes of a buffer on GPU %d",
			      bytes, number);
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

/* It is made when it is first asked for. The communicator's lock is not held. */
static tutti_result_t staging_of(struct tutti_comm *comm, struct tt_staging **out)
{
	tt_comm_lock(comm);
	if (!comm->staging) {
		comm->staging = calloc(1, sizeof(*comm->staging));
		if (comm->staging)
			pthread_mutex_init(&comm->staging->lock, NULL);
	}
	*out = comm->staging;
	pthread_mutex_unlock(&comm->lock);
	return *out ? TUTTI_OK
		    : tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to copy from and to GPUs");
}

void tt_staging_free(struct tutti_comm *comm)
{
	struct tt_staging *staging = comm->staging;
	const bool ours = tt_comm_usable(comm); /* a child of fork() has nothing of CUDA's */

	if (!staging)
		return;
	for (int i = 0; i < GPUS && ours; i++)
		end_copies(&staging->gpus[i]);
	while (staging->chunks) {
		struct chunk *chunk = staging->chunks;

		staging->chunks = chunk->next;
		free(chunk->memory);
		free(chunk);
	}
	if (ours)
		pthread_mutex_destroy(&staging->lock);
	free(staging);
	comm->staging = NULL;
}

/* ---- copies */

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

static tutti_result_t ask(struct side *side)
{
	return side->at ? tt_cuda_pointer(side->at, &side->kind, &side->number) : TUTTI_OK;
}

bool tt_staged_holds(const void *pointer)
{
	struct side side = { .at = (uint8_t *)pointer };

	return ask(&side) == TUTTI_OK && side.kind != TT_CUDA_HOST;
}

static bool overlap(const struct side *a, const struct side *b)
{
	const uintptr_t at = (uintptr_t)a->at, other = (uintptr_t)b->at;

	return on_gpu(a) && on_gpu(b) && at < other + b->bytes && other < at + a->bytes;
}

static tutti_result_t find_gpus(struct tt_staging *staging, struct side *sides)
{
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < 2 && !result; i++)
		if (on_gpu(&sides[i]))
			result = find_gpu(staging, sides[i].number, &sides[i].gpu);
	return result;
}

/* Give each buffer on a GPU its place in memory of the host. */
static tutti_result_t place(struct tt_staged *staged, struct side *sides)
{
	struct side *send = &sides[0], *recv = &sides[1];

	if (overlap(send, recv)) {
		uint8_t *const begin = send->at < recv->at ? send->at : recv->at;
		uint8_t *const send_end = send->at + send->bytes, *const recv_end =
									  recv->at + recv->bytes;
		const size_t bytes = (size_t)((send_end > recv_end ? send_end : recv_end) - begin);
		const tutti_result_t result =
			take_chunk(staged->staging, recv->number, bytes, &staged->chunks[0]);

		if (result)
			return result;
		send->host = staged->chunks[0]->memory + (send->at - begin);
		recv->host = staged->chunks[0]->memory + (recv->at - begin);
		return TUTTI_OK;
	}
	for (int i = 0; i < 2; i++) {
		if (!on_gpu(&sides[i]))
			continue;
		const tutti_result_t result = take_chunk(staged->staging, sides[i].number,
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
		const tutti_result_t result =
			copy(send->gpu, false, send->at, send->host, staged->run, n);

		if (result)
			return result;
	}
	if (recv->host && !writes_nothing(comm, call)) {
		staged->gpu = recv->gpu;
		staged->to = recv->at;
		staged->from = recv->host;
		staged->message = call->message;
		staged->element = tutti_dtype_size(call->dtype);
		staged->nruns = runs_of(comm, call, recv, staged->run);
	}
	return TUTTI_OK;
}

static tutti_result_t stage(struct tutti_comm *comm, const struct tt_call *call, struct side *sides,
			    struct tt_staged **out)
{
	const size_t runs = call->send_counts || call->recv_counts ? (size_t)comm->size : 1;
	struct tt_staged *staged = calloc(1, sizeof(*staged) + runs * sizeof(staged->run[0]));

	if (!staged)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory to copy from and to GPUs",
			       tt_call_name(call));
	tutti_result_t result = staging_of(comm, &staged->staging);
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
	struct side sides[2] = { { .input = true, .at = (uint8_t *)call->send },
				 { .at = call->recv } };
	struct tt_staged *staged = NULL;

	tutti_result_t result = ask(&sides[0]);
	if (!result)
		result = ask(&sides[1]);
	if (result)
		return result;
	if (sides[0].kind == TT_CUDA_HOST && sides[1].kind == TT_CUDA_HOST)
		return TUTTI_OK;
	tt_comm_lock(comm); /* other threads may make operations */
	if (!tt_call_check(comm, call))
		tt_call_spans(comm, call, &sides[0].bytes, &sides[1].bytes);
	pthread_mutex_unlock(&comm->lock);
	if (!on_gpu(&sides[0]) && !on_gpu(&sides[1]))
		return TUTTI_OK;
	result = stage(comm, call, sides, &staged);
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

		if (!result && staged->message)
			staged->run[0].length = staged->message->count * staged->element;
		if (!result && !failed)
			failed = copy(staged->gpu, true, staged->to, staged->from, staged->run,
				      staged->nruns);
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
