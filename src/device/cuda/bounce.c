/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bounce buffers of this process, and the copies. A bounce buffer has two pieces: while a
 * copy engine works on one, the thread copies what is in the other. The streams of bounce buffers wait
 * for nothing. CUDA's current context is, after all this, what it was. */
#include "bounce.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "log.h"

#define PIECE ((size_t)1 << 20) /* stays in the second-level cache of most cores. A guess */

struct bounce {
	struct bounce *next;
	struct CUstream_st *stream;
	uint8_t *piece[2];	     /* pinned, one allocation */
	struct CUevent_st *event[2]; /* recorded behind each piece, but for a copy's last one */
};

struct tt_bounces {
	struct tt_bounces *next;
	const struct cuda_driver *driver;
	int gpu;
	cuda_device device;
	struct CUctx_st *context; /* its primary one, retained */
	int users, bound, made;	  /* made: or being made */
	struct bounce *idle;	  /* that nobody copies by */
	pthread_cond_t returned;  /* one was */
};

static struct tt_bounces *all; /* behind the lock, and so what they have */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- one */

/* The context is current. */
static void free_bounce(const struct cuda_driver *driver, struct bounce *b)
{
	for (int i = 0; i < 2; i++)
		if (b->event[i])
			driver->event_destroy(b->event[i]);
	if (b->stream)
		driver->stream_destroy(b->stream);
	if (b->piece[0])
		driver->mem_host_free(b->piece[0]);
	free(b);
}

static tutti_result_t fail_stream(int gpu, cuda_result error)
{
	return tt_cuda_check(error, "make a stream for copies from and to GPU %d", gpu);
}

/* The context is current. */
static tutti_result_t fill_bounce(const struct tt_bounces *bounces, struct bounce *b)
{
	const struct cuda_driver *driver = bounces->driver;
	void *memory;
	cuda_result error = driver->stream_create(&b->stream, CUDA_STREAM_NON_BLOCKING);

	for (int i = 0; i < 2 && !error; i++)
		error = driver->event_create(&b->event[i], CUDA_EVENT_NO_TIMING);
	if (error)
		return fail_stream(bounces->gpu, error);
	error = driver->mem_host_alloc(&memory, 2 * PIECE, CUDA_HOST_PORTABLE);
	if (error == CUDA_OUT_OF_MEMORY)
		return tt_fail(
			TUTTI_ERR_NO_MEMORY, CUDA,
			"no pinned memory of the host, %zu bytes, for copies from and to GPU %d: CUDA could not have it from the system",
			2 * PIECE, bounces->gpu);
	if (error)
		return tt_cuda_check(
			error,
			"take %zu bytes of pinned memory of the host for copies from and to GPU %d",
			2 * PIECE, bounces->gpu);
	b->piece[0] = memory;
	b->piece[1] = b->piece[0] + PIECE;
	return TUTTI_OK;
}

/* ---- those for one GPU */

static tutti_result_t open_gpu(int gpu, struct tt_bounces **out)
{
	const struct cuda_driver *driver = tt_cuda_opened();
	struct tt_bounces *bounces = calloc(1, sizeof(*bounces));

	if (!bounces)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to copy from and to GPU %d",
			       gpu);
	*bounces = (struct tt_bounces){ .next = all, .driver = driver, .gpu = gpu };
	cuda_result error = driver->device_get(&bounces->device, gpu);
	if (!error)
		error = driver->primary_retain(&bounces->context, bounces->device);
	if (error) {
		free(bounces);
		return fail_stream(gpu, error);
	}
	pthread_cond_init(&bounces->returned, NULL);
	*out = all = bounces;
	return TUTTI_OK;
}

static tutti_result_t find(int gpu, struct tt_bounces **out)
{
	for (*out = all; *out; *out = (*out)->next)
		if ((*out)->gpu == gpu)
			return TUTTI_OK;
	return open_gpu(gpu, out);
}

static void give_back(struct tt_bounces *bounces, struct bounce *b)
{
	pthread_mutex_lock(&lock);
	b->next = bounces->idle;
	bounces->idle = b;
	pthread_cond_signal(&bounces->returned);
	pthread_mutex_unlock(&lock);
}

/* There is one, or more, as long as there are users. */
static struct bounce *take(struct tt_bounces *bounces)
{
	pthread_mutex_lock(&lock);
	while (!bounces->idle)
		pthread_cond_wait(&bounces->returned, &lock);
	struct bounce *b = bounces->idle;
	bounces->idle = b->next;
	pthread_mutex_unlock(&lock);
	return b;
}

/* One more. Others may copy meanwhile. */
static tutti_result_t bring(struct tt_bounces *bounces)
{
	struct tt_cuda_entered entered;
	struct bounce *b = calloc(1, sizeof(*b));

	if (!b)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to copy from and to GPU %d",
			       bounces->gpu);
	const cuda_result error =
		tt_cuda_enter_context(bounces->driver, bounces->context, &entered);
	const tutti_result_t result =
		error ? fail_stream(bounces->gpu, error) : fill_bounce(bounces, b);
	if (result)
		free_bounce(bounces->driver, b);
	else
		give_back(bounces, b);
	tt_cuda_leave(&entered);
	return result;
}

tutti_result_t tt_bounces_begin(int gpu, bool bound, struct tt_bounces **out)
{
	bool brings = false;

	pthread_mutex_lock(&lock);
	tutti_result_t result = find(gpu, out);
	if (!result) {
		const struct tt_bounces *b = *out;

		(*out)->users++;
		brings = b->made < b->users && (bound || b->bound == 0);
		(*out)->made += brings;
	}
	pthread_mutex_unlock(&lock);
	if (brings && (result = bring(*out)) != TUTTI_OK) {
		pthread_mutex_lock(&lock);
		(*out)->made--;
		pthread_mutex_unlock(&lock);
		tt_bounces_end(*out, false);
	}
	if (!result && bound)
		tt_bounces_bind(*out);
	return result;
}

void tt_bounces_bind(struct tt_bounces *bounces)
{
	pthread_mutex_lock(&lock);
	bounces->bound++;
	pthread_mutex_unlock(&lock);
}

static void unlink_from_all(const struct tt_bounces *bounces)
{
	struct tt_bounces **link = &all;

	while (*link != bounces)
		link = &(*link)->next;
	*link = bounces->next;
}

static void free_bounces(struct tt_bounces *bounces)
{
	struct tt_cuda_entered entered;
	const bool there = tt_cuda_enter_context(bounces->driver, bounces->context, &entered) == 0;

	while (bounces->idle) {
		struct bounce *b = bounces->idle;

		bounces->idle = b->next;
		if (there)
			free_bounce(bounces->driver, b);
		else
			free(b); /* the context is gone, and what it had with it */
	}
	tt_cuda_leave(&entered);
	bounces->driver->primary_release(bounces->device);
	pthread_cond_destroy(&bounces->returned);
	free(bounces);
}

void tt_bounces_end(struct tt_bounces *bounces, bool bound)
{
	pthread_mutex_lock(&lock);
	bounces->bound -= bound;
	const bool last = --bounces->users == 0;
	if (last)
		unlink_from_all(bounces);
	pthread_mutex_unlock(&lock);
	if (last)
		free_bounces(bounces);
}

/* ---- copies */

/* A copy, and how far it has come on one of its two ways: to or from a piece by a copy engine, and by
 * this thread. */
struct way {
	const struct tt_bytes *run, *end;
	size_t done; /* of the run */
};

struct copying {
	const struct cuda_driver *driver;
	struct bounce *by;
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

		error = c->driver->mem_copy(c->to_gpu ? memory : pinned,
					    c->to_gpu ? pinned : memory, bytes.length,
					    c->by->stream);
		at += bytes.length;
	}
	if (!error && !ended(&c->engine))
		error = c->driver->event_record(c->by->event[piece], c->by->stream);
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
	return last ? c->driver->stream_synchronize(c->by->stream)
		    : c->driver->event_synchronize(c->by->event[piece]);
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

cuda_result tt_bounces_copy(struct tt_bounces *bounces, bool to, uint8_t *gpu, uint8_t *host,
			    const struct tt_bytes *run, size_t nruns)
{
	const struct way way = { run, run + nruns, 0 };
	struct copying c = { .driver = bounces->driver,
			     .by = take(bounces),
			     .to_gpu = to,
			     .gpu = gpu,
			     .host = host,
			     .engine = way,
			     .thread = way };
	struct tt_cuda_entered entered;
	cuda_result error = tt_cuda_enter_context(bounces->driver, bounces->context, &entered);

	if (!error) {
		error = to ? to_gpu(&c) : from_gpu(&c);
		/* also after an error: the pieces are free for the next copy */
		const cuda_result rest =
			to || error ? c.driver->stream_synchronize(c.by->stream) : 0;
		if (!error)
			error = rest;
	}
	tt_cuda_leave(&entered);
	give_back(bounces, c.by);
	return error;
}
