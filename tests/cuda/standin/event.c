/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns events and their records. */
#include "standin.h"

#include <stdlib.h>

enum { EVENT_FLAGS = 7 };

struct record *record_new(void)
{
	struct record *const record = calloc(1, sizeof(*record));

	if (!record)
		abort();
	return record_keep(record);
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

void event_forget(void *event)
{
	record_drop(((struct CUevent_st *)event)->last);
	unmake(event);
}

static cuda_result event_error(const struct CUevent_st *event)
{
	return is_made(EVENTS, event) ? event->made.context->broken : INVALID_HANDLE;
}

CALL_HERE(cuEventCreate, (event, flags), struct CUevent_st **event, unsigned flags)
{
	if (!event || (flags & ~(unsigned)EVENT_FLAGS))
		return CUDA_INVALID_VALUE;
	*event = make(EVENTS, sizeof(**event), context_here());
	(*event)->flags = flags;
	return 0;
}

CALL(cuEventDestroy_v2, (event), struct CUevent_st *event)
{
	if (!is_made(EVENTS, event))
		return INVALID_HANDLE;
	event_forget(event);
	return 0;
}

static cuda_result record_on(struct CUevent_st *event, struct CUstream_st *stream)
{
	struct record *const record = record_new();
	const cuda_result error = stream_append(stream, work_of_record(WORK_RECORD, record));

	if (error) {
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

CALL_AFTER(event_error(event), cuEventRecord, (event, handle), struct CUevent_st *event,
	   struct CUstream_st *handle)
{
	const cuda_result error = stream_usable(handle);

	if (error)
		return error;
	struct CUstream_st *const stream = stream_of(handle);
	if (event->made.context != stream->made.context)
		return INVALID_HANDLE;
	return stream->capture ? note(event, stream) : record_on(event, stream);
}

/* May it be asked about or waited for now? */
static cuda_result may_ask(struct CUevent_st *event)
{
	const cuda_result error = event_error(event);

	if (error || !event->capture)
		return error ? error : capture_forbids();
	struct capture *const capture = capture_numbered(event->capture);

	if (capture)
		capture->invalid = true;
	return CAPTURED_EVENT;
}

CALL_AFTER(may_ask(event), cuEventQuery, (event), struct CUevent_st *event)
{
	return event->last && !event->last->done ? CUDA_NOT_READY : 0;
}

CALL_AFTER(may_ask(event), cuEventSynchronize, (event), struct CUevent_st *event)
{
	const struct CUctx_st *const context = event->made.context;

	if (!event->last)
		return 0;
	struct record *const record = record_keep(event->last);

	while (!record->done)
		pthread_cond_wait(&standin_changed, &standin_lock);
	record_drop(record);
	return context->broken;
}

static unsigned waits;

/* For tests: how often a stream of this process was to wait for an event. */
API unsigned standin_waits(int to, int from)
{
	return __atomic_load_n(&waits, __ATOMIC_RELAXED);
}

CALL_AFTER(event_error(event), cuStreamWaitEvent, (handle, event, flags),
	   struct CUstream_st *handle, struct CUevent_st *event, unsigned flags)
{
	const cuda_result error = stream_usable(handle);

	__atomic_fetch_add(&waits, 1, __ATOMIC_RELAXED);
	if (error || flags)
		return error ? error : CUDA_INVALID_VALUE;
	struct CUstream_st *const stream = stream_of(handle);
	if (event->capture || stream->capture)
		return capture_wait(stream, event);
	return event->last ? stream_append(stream, work_of_record(WORK_WAIT, event->last)) : 0;
}

static double milliseconds_of(const struct record *record)
{
	return (double)record->when.tv_sec * 1e3 + (double)record->when.tv_nsec / 1e6;
}

CALL(cuEventElapsedTime, (milliseconds, start, end), float *milliseconds, struct CUevent_st *start,
     struct CUevent_st *end)
{
	if (!is_made(EVENTS, start) || !is_made(EVENTS, end) || !start->last || !end->last ||
	    ((start->flags | end->flags) & CUDA_EVENT_NO_TIMING) || start->capture || end->capture)
		return INVALID_HANDLE;
	if (!milliseconds)
		return CUDA_INVALID_VALUE;
	if (!start->last->done || !end->last->done)
		return CUDA_NOT_READY;
	*milliseconds = (float)(milliseconds_of(end->last) - milliseconds_of(start->last));
	return start->made.context->broken;
}
