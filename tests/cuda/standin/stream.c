/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns streams: each does what it is given (work.c) in order, in a thread of its own, which
 * begins with the first work. */
#include "standin.h"

#include <signal.h>
#include <stdlib.h>

#define QUEUE		 1000 /* works that a stream takes ahead of what it does */
#define CONNECTIONS	 8
#define CONNECTIONS_MOST 32

static uint64_t last_number;

/* Those that were destroyed, too, while they have work. */
static struct CUstream_st *next_stream(const struct CUstream_st *after)
{
	return next_made(STREAMS, after);
}

/* With the lock, which it gives back while it works. In a broken context nothing is done. */
static void end_work(struct CUstream_st *stream, struct work *work)
{
	struct CUctx_st *const context = stream->made.context;

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
	return work->kind == WORK_WAIT ||
	       (work->kind == WORK_MEM_OP && work_is_wait(work->op.operation));
}

/* A connection brings works in the order in which they were given, and each to its end that is a
 * wait, whatever their streams. */
static bool stands_behind(const struct CUstream_st *own, const struct work *work)
{
	for (const struct CUstream_st *other = NULL; (other = next_stream(other));) {
		if (other == own || other->made.context != own->made.context ||
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
	pthread_cond_destroy(&stream->more);
	unmake(stream);
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

static void begin_to_serve(struct CUstream_st *stream)
{
	pthread_t thread;
	sigset_t all, before;

	if (stream->served)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, serve, stream))
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_detach(thread);
	stream->served = true;
}

/* Until some of what is ahead has begun. As in the driver, other threads' calls wait meanwhile. */
static void await_room(const struct CUstream_st *stream)
{
	if (stream->work.count < QUEUE)
		return;
	standin_kept++;
	while (stream->work.count >= QUEUE)
		pthread_cond_wait(&standin_changed, &standin_lock);
	standin_kept--;
	pthread_cond_broadcast(&standin_changed);
}

cuda_result stream_append(struct CUstream_st *stream, struct work *work)
{
	struct capture *const capture = stream->capture;

	if (capture && capture->invalid) {
		work_free(work);
		return CAPTURE_INVALIDATED;
	}
	if (capture) {
		work_list_add(&capture->work, work);
		stream->captured++;
		stream->joined = false;
		return 0;
	}
	begin_to_serve(stream);
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
	for (const struct CUstream_st *stream = NULL; (stream = next_stream(stream));) {
		if (stream->made.context == context && (!only || stream == only) &&
		    busy(stream, until))
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
	const long wanted = standin_setting("CUDA_DEVICE_MAX_CONNECTIONS", CONNECTIONS);

	return wanted < 1 ? 1 : wanted < CONNECTIONS_MOST ? (unsigned)wanted : CONNECTIONS_MOST;
}

static struct CUstream_st *new_stream(struct CUctx_st *context, unsigned flags)
{
	static unsigned long long ids;
	struct CUstream_st *const stream = make(STREAMS, sizeof(*stream), context);

	stream->id = ++ids;
	stream->flags = flags;
	stream->connection = context->streams++ % connections();
	pthread_cond_init(&stream->more, NULL);
	return stream;
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

static struct CUstream_st *any_of(const struct CUctx_st *context)
{
	struct CUstream_st *stream = next_stream(NULL);

	while (stream && stream->made.context != context)
		stream = next_stream(stream);
	return stream;
}

static void destroy_unless_it_is(void *stream_as_void)
{
	struct CUstream_st *const stream = stream_as_void;

	if (stream->destroyed)
		return;
	if (stream->capture)
		stream->capture->invalid = true;
	destroy(stream);
}

void stream_end_context(struct CUctx_st *context)
{
	unmake_all_of(context, STREAMS, destroy_unless_it_is);
	context->legacy = context->per_thread = NULL;
	while (any_of(context))
		pthread_cond_wait(&standin_changed, &standin_lock);
}

void stream_leave_capture(const struct capture *capture)
{
	for (struct CUstream_st *stream = NULL; (stream = next_stream(stream));) {
		if (stream->capture == capture)
			stream->capture = NULL;
	}
}

bool stream_all_joined(const struct capture *capture)
{
	for (const struct CUstream_st *stream = NULL; (stream = next_stream(stream));) {
		if (stream->capture == capture && stream != capture->origin && !stream->joined)
			return false;
	}
	return true;
}

/* A handle: NULL and 1 are the context's legacy stream, 2 is per thread there, and here per
 * context. */
static bool is_special(const struct CUstream_st *handle)
{
	return (uintptr_t)handle <= 2;
}

cuda_result stream_known(struct CUstream_st *handle)
{
	if (is_special(handle))
		return context_error();
	return is_made(STREAMS, handle) && !handle->destroyed ? handle->made.context->broken
							      : INVALID_HANDLE;
}

struct CUstream_st *stream_of(struct CUstream_st *handle)
{
	struct CUctx_st *const context = context_here();

	if (!is_special(handle))
		return handle;
	struct CUstream_st **const stream =
		(uintptr_t)handle == 2 ? &context->per_thread : &context->legacy;
	if (!*stream)
		*stream = new_stream(context, 0);
	return *stream;
}

cuda_result stream_usable(struct CUstream_st *handle)
{
	const cuda_result error = stream_known(handle);

	if (error)
		return error;
	const struct CUstream_st *const stream = stream_of(handle);
	const struct CUctx_st *const context = stream->made.context;
	return stream == context->legacy && capture_blocks_legacy(context, true) ? CAPTURE_IMPLICIT
										 : 0;
}

cuda_result stream_usable_here(struct CUstream_st *handle)
{
	const cuda_result error = context_error();

	return error ? error : stream_usable(handle);
}

CALL_HERE(cuStreamCreate, (stream, flags), struct CUstream_st **stream, unsigned flags)
{
	if (!stream || flags > CUDA_STREAM_NON_BLOCKING)
		return CUDA_INVALID_VALUE;
	*stream = new_stream(context_here(), flags);
	return 0;
}

API cuda_result cuStreamCreateWithPriority(struct CUstream_st **stream, unsigned flags,
					   int priority)
{
	return cuStreamCreate(stream, flags);
}

CALL(cuCtxGetStreamPriorityRange, (least, greatest), int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return 0;
}

/* What it was given is done yet. */
CALL(cuStreamDestroy_v2, (stream), struct CUstream_st *stream)
{
	if (is_special(stream) || stream_known(stream) == INVALID_HANDLE)
		return INVALID_HANDLE;
	if (stream->capture && stream->capture->origin == stream)
		return CAPTURE_UNMATCHED;
	if (stream->capture)
		stream->capture->invalid = true;
	destroy(stream);
	return 0;
}

/* May it be asked about or waited for now? */
static cuda_result may_ask(struct CUstream_st *handle)
{
	const cuda_result error = stream_usable(handle);

	if (error)
		return error;
	struct capture *const capture = stream_of(handle)->capture;
	if (!capture)
		return capture_forbids();
	capture->invalid = true;
	return CAPTURE_UNSUPPORTED;
}

CALL_AFTER(may_ask(handle), cuStreamSynchronize, (handle), struct CUstream_st *handle)
{
	const struct CUstream_st *const stream = stream_of(handle);
	const struct CUctx_st *const context = stream->made.context;

	stream_drain(context, stream);
	return context->broken;
}

static unsigned queries;

/* For tests: how often this process has asked for a stream. */
API unsigned standin_queries(int to, int from)
{
	return __atomic_load_n(&queries, __ATOMIC_RELAXED);
}

CALL(cuStreamQuery, (handle), struct CUstream_st *handle)
{
	const cuda_result error = may_ask(handle);

	__atomic_fetch_add(&queries, 1, __ATOMIC_RELAXED);
	return error ? error : busy(stream_of(handle), UINT64_MAX) ? CUDA_NOT_READY : 0;
}

CALL_AFTER(id ? stream_known(handle) : CUDA_INVALID_VALUE, cuStreamGetId, (handle, id),
	   struct CUstream_st *handle, unsigned long long *id)
{
	if (stream_of(handle)->capture) /* NVIDIA's cudax has it so */
		return CAPTURE_UNSUPPORTED;
	*id = stream_of(handle)->id;
	return 0;
}

CALL_AFTER(context ? stream_known(handle) : CUDA_INVALID_VALUE, cuStreamGetCtx, (handle, context),
	   struct CUstream_st *handle, struct CUctx_st **context)
{
	*context = stream_of(handle)->made.context;
	return 0;
}
