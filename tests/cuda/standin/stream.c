/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns streams: each does what it is given (work.c) in order, in a thread of its own, which
 * begins with the first work. */
#include "standin.h"

#include <signal.h>
#include <stdlib.h>

#define QUEUE		 1000 /* works that a stream takes ahead of what it does */
#define CONNECTIONS	 8
#define CONNECTIONS_MOST 32

static struct CUstream_st *streams; /* those that were destroyed, too, while they have work */
static uint64_t last_number;

/* With the lock, which it gives back while it works. In a broken context nothing is done. */
static void end_work(struct CUstream_st *stream, struct work *work)
{
	struct CUctx_st *const context = stream->context;

	if (work->kind == WORK_WAIT) {
		while (!work->record->done && !context->broken)
			pthread_cond_wait(&standin_changed, &standin_lock);
	} else if (work->kind == WORK_RECORD) {
		clock_gettime(CLOCK_MONOTONIC, &work->record->when);
		work->record->done = true;
	} else {
		if (!context->broken)
			__atomic_store_n(&context->broken, standin_failing("work"),
					 __ATOMIC_RELAXED); /* waits look at it without the lock */
		if (!context->broken) {
			work_find(work);
			pthread_mutex_unlock(&standin_lock);
			work_do(work, context);
			pthread_mutex_lock(&standin_lock);
		}
	}
	work_free(work);
}

static bool is_wait(const struct work *work)
{
	const unsigned op = work->kind == WORK_MEM_OP ? work->op.operation : 0;

	return work->kind == WORK_WAIT ||
	       (work->kind == WORK_MEM_OP &&
		(op == CUDA_MEM_OP_WAIT_64 || op == CUDA_MEM_OP_WAIT_32));
}

/* A connection brings works in the order in which they were given, and each to its end that is a
 * wait, whatever their streams. */
static bool stands_behind(const struct CUstream_st *own, const struct work *work)
{
	for (const struct CUstream_st *other = streams; other; other = other->next) {
		if (other == own || other->context != own->context ||
		    other->connection != own->connection)
			continue;
		if ((other->waiting && other->running < work->number) ||
		    (other->work.first && other->work.first->number < work->number))
			return true;
	}
	return false;
}

/* The next work, once its connection has come to it. */
static struct work *take_work(struct CUstream_st *stream)
{
	while (stands_behind(stream, stream->work.first))
		pthread_cond_wait(&standin_changed, &standin_lock);
	struct work *const work = work_list_take(&stream->work);

	stream->running = work->number;
	stream->waiting = is_wait(work);
	pthread_cond_broadcast(&standin_changed);
	return work;
}

static void stream_free(struct CUstream_st *stream)
{
	struct CUstream_st **at = &streams;

	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	pthread_cond_destroy(&stream->more);
	free(stream);
	pthread_cond_broadcast(&standin_changed);
}

static void *serve(void *stream_as_void)
{
	struct CUstream_st *const stream = stream_as_void;

	pthread_mutex_lock(&standin_lock);
	for (;;) {
		while (!stream->work.first && !stream->destroyed)
			pthread_cond_wait(&stream->more, &standin_lock);
		if (!stream->work.first)
			break;
		end_work(stream, take_work(stream));
		stream->running = 0;
		stream->waiting = false;
		pthread_cond_broadcast(&standin_changed);
	}
	stream_free(stream);
	pthread_mutex_unlock(&standin_lock);
	return NULL;
}

static cuda_result begin_to_serve(struct CUstream_st *stream)
{
	pthread_t thread;
	sigset_t all, before;

	if (stream->served)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int failed = pthread_create(&thread, NULL, serve, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed)
		return CUDA_OUT_OF_MEMORY;
	pthread_detach(thread);
	stream->served = true;
	return 0;
}

/* Until some of what is ahead has begun. As in the driver, other threads' calls wait meanwhile. */
static void await_room(const struct CUstream_st *stream)
{
	const char *const set = getenv("STANDIN_QUEUE");
	const unsigned limit = set ? (unsigned)atoi(set) : QUEUE;

	if (stream->work.count < limit)
		return;
	standin_kept++;
	while (stream->work.count >= limit)
		pthread_cond_wait(&standin_changed, &standin_lock);
	standin_kept--;
	pthread_cond_broadcast(&standin_changed);
}

cuda_result stream_append(struct CUstream_st *stream, struct work *work)
{
	cuda_result error = work ? 0 : CUDA_OUT_OF_MEMORY;

	if (!error && stream->capture) {
		if (!stream->capture->invalid) {
			work_list_add(&stream->capture->work, work);
			stream->captured++;
			stream->joined = false;
			return 0;
		}
		error = CAPTURE_INVALIDATED;
	}
	if (!error)
		error = begin_to_serve(stream);
	if (error) {
		work_free(work);
		return error;
	}
	if (!work->follows)
		await_room(stream);
	work->number = ++last_number;
	work_list_add(&stream->work, work);
	pthread_cond_signal(&stream->more);
	return 0;
}

static bool busy(const struct CUstream_st *stream, uint64_t until)
{
	return (stream->running && stream->running <= until) ||
	       (stream->work.first && stream->work.first->number <= until);
}

static bool any_busy(const struct CUctx_st *context, const struct CUstream_st *only, uint64_t until)
{
	for (const struct CUstream_st *stream = streams; stream; stream = stream->next) {
		if (stream->context == context && (!only || stream == only) && busy(stream, until))
			return true;
	}
	return false;
}

/* Waits for what was given to `stream`, or with NULL to all of the context, before the call. */
void stream_drain(const struct CUctx_st *context, const struct CUstream_st *stream)
{
	const uint64_t until = last_number;

	while (any_busy(context, stream, until))
		pthread_cond_wait(&standin_changed, &standin_lock);
}

static unsigned connections(void)
{
	const char *const set = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	const int wanted = set ? atoi(set) : CONNECTIONS;

	return wanted < 1 ? 1 : wanted < CONNECTIONS_MOST ? (unsigned)wanted : CONNECTIONS_MOST;
}

static cuda_result make(struct CUctx_st *context, unsigned flags, struct CUstream_st **out)
{
	struct CUstream_st *const stream = calloc(1, sizeof(*stream));

	if (!stream)
		return CUDA_OUT_OF_MEMORY;
	stream->context = context;
	stream->flags = flags;
	stream->connection = context->streams++ % connections();
	pthread_cond_init(&stream->more, NULL);
	stream->next = streams;
	streams = stream;
	*out = stream;
	return 0;
}

/* The caller's handle is no longer one; its thread frees it. */
static void destroy(struct CUstream_st *stream)
{
	stream->destroyed = true;
	if (stream->served)
		pthread_cond_signal(&stream->more);
	else
		stream_free(stream);
}

static bool any_of(const struct CUctx_st *context)
{
	for (const struct CUstream_st *stream = streams; stream; stream = stream->next) {
		if (stream->context == context)
			return true;
	}
	return false;
}

void stream_end_context(struct CUctx_st *context)
{
	for (struct CUstream_st *stream = streams, *next; stream; stream = next) {
		next = stream->next;
		if (stream->context != context || stream->destroyed)
			continue;
		if (stream->capture)
			capture_invalidate(stream->capture);
		destroy(stream);
	}
	context->legacy = context->per_thread = NULL;
	while (any_of(context))
		pthread_cond_wait(&standin_changed, &standin_lock);
}

void stream_leave_capture(const struct capture *capture)
{
	for (struct CUstream_st *stream = streams; stream; stream = stream->next) {
		if (stream->capture == capture)
			stream->capture = NULL;
	}
}

bool stream_all_joined(const struct capture *capture)
{
	for (const struct CUstream_st *stream = streams; stream; stream = stream->next) {
		if (stream->capture == capture && stream != capture->origin && !stream->joined)
			return false;
	}
	return true;
}

static cuda_result own_stream(struct CUstream_st *handle, struct CUstream_st **out)
{
	struct CUctx_st *context;
	const cuda_result error = context_current(&context);

	if (error)
		return error;
	struct CUstream_st **const stream =
		handle == (struct CUstream_st *)2 ? &context->per_thread : &context->legacy;
	if (!*stream && make(context, 0, stream))
		return CUDA_OUT_OF_MEMORY;
	*out = *stream;
	return 0;
}

/* The stream of a handle: NULL and 1 are the context's legacy one, 2 is per thread there, and
 * here per context. */
cuda_result stream_look(struct CUstream_st *handle, struct CUstream_st **out)
{
	if ((uintptr_t)handle <= 2)
		return own_stream(handle, out);
	for (struct CUstream_st *stream = streams; stream; stream = stream->next) {
		if (stream == handle && !stream->destroyed) {
			*out = stream;
			return stream->context->broken;
		}
	}
	return INVALID_HANDLE;
}

cuda_result stream_use(struct CUstream_st *handle, struct CUstream_st **out)
{
	const cuda_result error = stream_look(handle, out);

	return error ? error
	       : *out == (*out)->context->legacy && capture_blocks_legacy((*out)->context, true)
		       ? CAPTURE_IMPLICIT
		       : 0;
}

API cuda_result cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error)
		error = stream && flags <= CUDA_STREAM_NON_BLOCKING ? make(context, flags, stream)
								    : CUDA_INVALID_VALUE;
	return standin_leave(error);
}

API cuda_result cuStreamCreateWithPriority(struct CUstream_st **stream, unsigned flags,
					   int priority)
{
	const cuda_result error = standin_enter(__func__);

	standin_leave(error);
	return error ? error : cuStreamCreate(stream, flags);
}

API cuda_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return standin_leave(standin_enter(__func__));
}

/* What it was given is done yet. */
API cuda_result cuStreamDestroy_v2(struct CUstream_st *handle)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error && (uintptr_t)handle <= 2)
		error = INVALID_HANDLE;
	if (!error && stream_look(handle, &stream) == INVALID_HANDLE)
		error = INVALID_HANDLE;
	if (!error && stream->capture && stream->capture->origin == stream)
		error = CAPTURE_UNMATCHED;
	if (!error && stream->capture)
		capture_invalidate(stream->capture);
	if (!error)
		destroy(stream);
	return standin_leave(error);
}

/* May it be asked about or waited for now? */
static cuda_result may_ask(struct CUstream_st *handle, struct CUstream_st **out)
{
	const cuda_result error = stream_use(handle, out);

	if (error)
		return error;
	if ((*out)->capture) {
		capture_invalidate((*out)->capture);
		return CAPTURE_UNSUPPORTED;
	}
	return capture_forbids();
}

API cuda_result cuStreamSynchronize(struct CUstream_st *handle)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = may_ask(handle, &stream);
	if (!error) {
		const struct CUctx_st *const context = stream->context;

		stream_drain(context, stream);
		error = context->broken;
	}
	return standin_leave(error);
}

static unsigned queries;

/* For tests: how often this process has asked for a stream. */
API unsigned standin_queries(void)
{
	const cuda_result error = standin_enter(__func__);
	const unsigned n = queries;

	standin_leave(error);
	return n;
}

API cuda_result cuStreamQuery(struct CUstream_st *handle)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	queries++;
	if (!error)
		error = may_ask(handle, &stream);
	return standin_leave(error ? error : busy(stream, UINT64_MAX) ? CUDA_NOT_READY : 0);
}

API cuda_result cuStreamGetCtx(struct CUstream_st *handle, struct CUctx_st **context)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context ? stream_look(handle, &stream) : CUDA_INVALID_VALUE;
	if (!error)
		*context = stream->context;
	return standin_leave(error);
}
