/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns events and their records. */
#include "standin.h"

#include <stdlib.h>

enum { EVENT_FLAGS = 7 };

static struct CUevent_st *events;

struct record *record_new(void)
{
	struct record *const record = calloc(1, sizeof(*record));

	return record ? record_keep(record) : NULL;
}

struct record *record_keep(struct record *record)
{
	record->references++;
	return record;
}

void record_drop(struct record *record)
{
	if (record && --record->references == 0)
		free(record);
}

static void forget(struct CUevent_st **at)
{
	struct CUevent_st *const event = *at;

	*at = event->next;
	record_drop(event->last);
	free(event);
}

void event_end_context(const struct CUctx_st *context)
{
	for (struct CUevent_st **at = &events; *at;) {
		if ((*at)->context == context)
			forget(at);
		else
			at = &(*at)->next;
	}
}

static cuda_result find(const struct CUevent_st *event, struct CUevent_st ***out)
{
	for (struct CUevent_st **at = &events; *at; at = &(*at)->next) {
		if (*at == event) {
			*out = at;
			return event->context->broken;
		}
	}
	return INVALID_HANDLE;
}

API cuda_result cuEventCreate(struct CUevent_st **event, unsigned flags)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error && (!event || (flags & ~(unsigned)EVENT_FLAGS)))
		error = CUDA_INVALID_VALUE;
	if (!error) {
		struct CUevent_st *const made = calloc(1, sizeof(*made));

		if (!made)
			return standin_leave(CUDA_OUT_OF_MEMORY);
		*made = (struct CUevent_st){ .next = events, .context = context, .flags = flags };
		*event = events = made;
	}
	return standin_leave(error);
}

API cuda_result cuEventDestroy_v2(struct CUevent_st *event)
{
	struct CUevent_st **at;
	cuda_result error = standin_enter(__func__);

	if (!error && find(event, &at) == INVALID_HANDLE)
		error = INVALID_HANDLE;
	if (!error)
		forget(at);
	return standin_leave(error);
}

static cuda_result record_on(struct CUevent_st *event, struct CUstream_st *stream)
{
	struct record *const record = record_new();
	struct work *const work = work_new(WORK_RECORD);
	cuda_result error = record && work ? 0 : CUDA_OUT_OF_MEMORY;

	if (work)
		work->record = record ? record_keep(record) : NULL;
	error = error ? error : stream_append(stream, work);
	if (error) {
		if (!record)
			work_free(work);
		record_drop(record);
		return error;
	}
	record_drop(event->last);
	event->last = record;
	event->capture = 0;
	return 0;
}

/* In a capture nothing is recorded but what comes before it there. */
static cuda_result note(struct CUevent_st *event, struct CUstream_st *stream)
{
	if (stream->capture->invalid)
		return CAPTURE_INVALIDATED;
	event->capture = stream->capture->number;
	event->stream = stream;
	event->captured = stream->captured;
	return 0;
}

API cuda_result cuEventRecord(struct CUevent_st *event, struct CUstream_st *handle)
{
	struct CUevent_st **at;
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = find(event, &at);
	if (!error)
		error = stream_use(handle, &stream);
	if (!error && event->context != stream->context)
		error = INVALID_HANDLE;
	if (!error)
		error = stream->capture ? note(event, stream) : record_on(event, stream);
	return standin_leave(error);
}

/* May it be asked about or waited for now? */
static cuda_result may_ask(struct CUevent_st *event)
{
	struct CUevent_st **at;
	const cuda_result error = find(event, &at);

	if (error)
		return error;
	if (event->capture) {
		struct capture *const capture = capture_numbered(event->capture);

		if (capture)
			capture_invalidate(capture);
		return CAPTURED_EVENT;
	}
	return capture_forbids();
}

API cuda_result cuEventQuery(struct CUevent_st *event)
{
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = may_ask(event);
	return standin_leave(error				 ? error
			     : event->last && !event->last->done ? CUDA_NOT_READY
								 : 0);
}

API cuda_result cuEventSynchronize(struct CUevent_st *event)
{
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = may_ask(event);
	if (!error && event->last) {
		struct CUctx_st *const context = event->context;
		struct record *const record = record_keep(event->last);

		while (!record->done)
			pthread_cond_wait(&standin_changed, &standin_lock);
		record_drop(record);
		error = context->broken;
	}
	return standin_leave(error);
}

static cuda_result wait_on(struct CUstream_st *stream, struct record *record)
{
	struct work *const work = work_new(WORK_WAIT);

	if (work)
		work->record = record_keep(record);
	return stream_append(stream, work);
}

API cuda_result cuStreamWaitEvent(struct CUstream_st *handle, struct CUevent_st *event,
				  unsigned flags)
{
	struct CUevent_st **at;
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = find(event, &at);
	if (!error)
		error = stream_use(handle, &stream);
	if (!error && flags)
		error = CUDA_INVALID_VALUE;
	if (!error && (event->capture || stream->capture))
		error = capture_wait(stream, event);
	else if (!error && event->last)
		error = wait_on(stream, event->last);
	return standin_leave(error);
}

static cuda_result elapsed(float *milliseconds, const struct CUevent_st *start,
			   const struct CUevent_st *end)
{
	struct CUevent_st **at;

	if (find(start, &at) == INVALID_HANDLE || find(end, &at) == INVALID_HANDLE ||
	    !start->last || !end->last || ((start->flags | end->flags) & CUDA_EVENT_NO_TIMING) ||
	    start->capture || end->capture)
		return INVALID_HANDLE;
	if (!milliseconds)
		return CUDA_INVALID_VALUE;
	if (!start->last->done || !end->last->done)
		return CUDA_NOT_READY;
	*milliseconds =
		(float)((double)(end->last->when.tv_sec - start->last->when.tv_sec) * 1e3 +
			(double)(end->last->when.tv_nsec - start->last->when.tv_nsec) / 1e6);
	return start->context->broken;
}

API cuda_result cuEventElapsedTime(float *milliseconds, struct CUevent_st *start,
				   struct CUevent_st *end)
{
	const cuda_result error = standin_enter(__func__);

	return standin_leave(error ? error : elapsed(milliseconds, start, end));
}

API cuda_result cuEventElapsedTime_v2(float *milliseconds, struct CUevent_st *start,
				      struct CUevent_st *end)
{
	const cuda_result error = standin_enter(__func__);

	return standin_leave(error ? error : elapsed(milliseconds, start, end));
}
