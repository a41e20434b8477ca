/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bounce buffers of this process, one for each GPU in use, and the copies, one at a time for
 * each. A bounce buffer has two pieces: while a copy engine works on one, the thread copies what is in
 * the other. Its stream waits for nothing. CUDA's current context is, after all this, what it was. */
#include "bounce.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "log.h"

#define STREAM_OF_COPIES "make a stream for copies from and to GPU %d"
#define PIECE		 ((size_t)1 << 20) /* stays in the second-level cache of most cores. A guess */

struct tt_bounce {
	struct tt_bounce *next;
	int gpu;
	int users;
	pthread_mutex_t lock; /* of whoever makes what follows, or copies by it */
	cuda_device device;
	struct CUctx_st *context; /* its primary one, retained; NULL: nothing is made */
	struct CUstream_st *stream;
	uint8_t *piece[2];	     /* pinned, one allocation */
	struct CUevent_st *event[2]; /* recorded behind each piece, but for a copy's last one */
};

static struct tt_bounce *all; /* behind the lock, and so who uses them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- their life */

/* The context is current. */
static tutti_result_t fill(struct tt_bounce *b)
{
	void *memory;
	cuda_result error = tt_cu.stream_create(&b->stream, CUDA_STREAM_NON_BLOCKING);

	for (int i = 0; i < 2 && !error; i++)
		error = tt_cu.event_create(&b->event[i], CUDA_EVENT_NO_TIMING);
	if (error)
		return tt_cuda_check(error, STREAM_OF_COPIES, b->gpu);
	error = tt_cu.mem_host_alloc(&memory, 2 * PIECE, CUDA_HOST_PORTABLE);
	if (error == CUDA_OUT_OF_MEMORY)
		return tt_fail(
			TUTTI_ERR_NO_MEMORY, CUDA,
			"no pinned memory of the host, %zu bytes, for copies from and to GPU %d: CUDA could not have it from the system",
			2 * PIECE, b->gpu);
	if (error)
		return tt_cuda_check(
			error,
			"take %zu bytes of pinned memory of the host for copies from and to GPU %d",
			2 * PIECE, b->gpu);
	b->piece[0] = memory;
	b->piece[1] = b->piece[0] + PIECE;
	return TUTTI_OK;
}

/* What there is of it. Where the context is gone, so is what it had. */
static void unmake(struct tt_bounce *b)
{
	struct tt_cuda_entered entered = { false };

	if (!b->context)
		return;
	if (tt_cuda_enter(b->context, &entered) == 0) {
		for (int i = 0; i < 2; i++)
			if (b->event[i])
				tt_cu.event_destroy(b->event[i]);
		if (b->stream)
			tt_cu.stream_destroy(b->stream);
		if (b->piece[0])
			tt_cu.mem_host_free(b->piece[0]);
	}
	tt_cuda_leave(&entered);
	tt_cu.primary_release(b->device);
	b->context = NULL;
	b->stream = NULL;
	b->piece[0] = NULL;
	b->event[0] = b->event[1] = NULL;
}

static tutti_result_t make(struct tt_bounce *b)
{
	struct tt_cuda_entered entered = { false };
	cuda_result error = tt_cu.device_get(&b->device, b->gpu);

	if (!error)
		error = tt_cu.primary_retain(&b->context, b->device);
	if (!error)
		error = tt_cuda_enter(b->context, &entered);
	const tutti_result_t result =
		error ? tt_cuda_check(error, STREAM_OF_COPIES, b->gpu) : fill(b);
	tt_cuda_leave(&entered);
	if (result)
		unmake(b);
	return result;
}

/* That of the GPU, perhaps of nobody yet; NULL: no memory. The lock is held. */
static struct tt_bounce *find(int gpu)
{
	struct tt_bounce *b = all;

	while (b && b->gpu != gpu)
		b = b->next;
	if (b || !(b = calloc(1, sizeof(*b))))
		return b;
	b->gpu = gpu;
	b->next = all;
	pthread_mutex_init(&b->lock, NULL);
	return all = b;
}

tutti_result_t tt_bounce_begin(int gpu, struct tt_bounce **out)
{
	pthread_mutex_lock(&lock);
	struct tt_bounce *b = find(gpu);
	if (b)
		b->users++;
	pthread_mutex_unlock(&lock);
	if (!b)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to copy from and to GPU %d",
			       gpu);
	pthread_mutex_lock(&b->lock);
	const tutti_result_t result = b->context ? TUTTI_OK : make(b);
	pthread_mutex_unlock(&b->lock);
	if (result)
		tt_bounce_end(b);
	else
		*out = b;
	return result;
}

void tt_bounce_end(struct tt_bounce *b)
{
	struct tt_bounce **link = &all;

	pthread_mutex_lock(&lock);
	const bool last = --b->users == 0;
	while (last && *link != b)
		link = &(*link)->next;
	if (last)
		*link = b->next;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	unmake(b);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- copies */

/* A copy, and how far it has come on one of its two ways: to or from a piece by a copy engine, and by
 * this thread. */
struct way {
	const struct tt_bytes *run, *end;
	size_t done; /* of the run */
};

struct copying {
	struct tt_bounce *by;
	bool to_gpu;
	uint8_t *gpu, *host;
	struct way engine, thread;
};

static bool ended(const struct way *way)
{
	return way->run == way->end;
}

/* The next bytes of one run, `room` at most. */
static struct tt_bytes next_bytes(struct way *way, size_t room)
{
	const struct tt_bytes *run = way->run;
	const size_t left = run->length - way->done, n = left < room ? left : room;
	const struct tt_bytes bytes = { run->offset + way->done, n };

	way->done += n;
	if (way->done == run->length)
		*way = (struct way){ run + 1, way->end, 0 };
	return bytes;
}

static cuda_result by_engine(struct copying *c, int piece)
{
	uint8_t *at = c->by->piece[piece], *const end = at + PIECE;
	cuda_result error = 0;

	while (!ended(&c->engine) && at < end && !error) {
		const struct tt_bytes bytes = next_bytes(&c->engine, (size_t)(end - at));
		const cuda_address memory = cuda_at(c->gpu + bytes.offset), pinned = cuda_at(at);

		error = tt_cu.mem_copy(c->to_gpu ? memory : pinned, c->to_gpu ? pinned : memory,
				       bytes.length, c->by->stream);
		at += bytes.length;
	}
	if (!error && !ended(&c->engine))
		error = tt_cu.event_record(c->by->event[piece], c->by->stream);
	return error;
}

static void by_thread(struct copying *c, int piece)
{
	uint8_t *at = c->by->piece[piece], *const end = at + PIECE;

	while (!ended(&c->thread) && at < end) {
		const struct tt_bytes bytes = next_bytes(&c->thread, (size_t)(end - at));

		if (c->to_gpu)
			memcpy(at, c->host + bytes.offset, bytes.length);
		else
			memcpy(c->host + bytes.offset, at, bytes.length);
		at += bytes.length;
	}
}

/* The last piece has no event: all that is on the stream is awaited. */
static cuda_result await(const struct copying *c, int piece, bool last)
{
	return last ? tt_cu.stream_synchronize(c->by->stream)
		    : tt_cu.event_synchronize(c->by->event[piece]);
}

static cuda_result from_gpu(struct copying *c)
{
	cuda_result error = by_engine(c, 0);

	for (int piece = 0; !error && !ended(&c->thread); piece ^= 1) {
		const bool last = ended(&c->engine);

		if (!last)
			error = by_engine(c, piece ^ 1);
		if (!error)
			error = await(c, piece, last);
		if (!error)
			by_thread(c, piece);
	}
	return error;
}

static cuda_result to_gpu(struct copying *c)
{
	cuda_result error = 0;
	int piece = 0;

	for (size_t pieces = 0; !error && !ended(&c->thread); pieces++, piece ^= 1) {
		if (pieces >= 2)
			error = await(c, piece, false);
		if (error)
			break;
		by_thread(c, piece);
		error = by_engine(c, piece);
	}
	return error;
}

tutti_result_t tt_bounce_copy(struct tt_bounce *b, bool to, uint8_t *gpu, uint8_t *host,
			      const struct tt_bytes *run, size_t nruns)
{
	const struct way way = { run, run + nruns, 0 };
	struct copying c = {
		.by = b, .to_gpu = to, .gpu = gpu, .host = host, .engine = way, .thread = way
	};
	struct tt_cuda_entered entered;
	size_t bytes = 0;

	if (nruns == 0)
		return TUTTI_OK;
	pthread_mutex_lock(&b->lock);
	cuda_result error = tt_cuda_enter(b->context, &entered);
	if (!error) {
		error = to ? to_gpu(&c) : from_gpu(&c);
		/* also after an error: the pieces are free for the next copy */
		const cuda_result rest = to || error ? tt_cu.stream_synchronize(b->stream) : 0;
		error = error ? error : rest;
	}
	tt_cuda_leave(&entered);
	pthread_mutex_unlock(&b->lock);
	for (size_t i = 0; i < nruns; i++)
		bytes += run[i].length;
	return tt_cuda_check(error, "copy %zu bytes of %s GPU %d", bytes,
			     to ? "output to" : "input from", b->gpu);
}
