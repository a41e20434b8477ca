/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what streams record instead of doing it, and the graphs made of that. A graph's work is
 * done in the order in which it was recorded, in the stream that launches it: side by side, as a
 * GPU may do branches, it never is. */
#include "standin.h"

#include <stdlib.h>

enum { MODE_GLOBAL = 0 };

/* CUgraphExec is another type than CUgraph, but here it has nothing of its own but the table. */
struct CUgraph_st {
	struct made made;
	struct work_list work;
	struct record *last; /* executable: when its last launch has ended, which the next one
			      * waits for */
};

static uint64_t last_number;
static _Thread_local unsigned mode_here;

static const void *this_thread(void)
{
	return &mode_here;
}

static struct capture *next_capture(const struct capture *after)
{
	return next_made(CAPTURES, after);
}

static bool forbids(const struct capture *capture)
{
	if (mode_here == CUDA_CAPTURE_RELAXED)
		return false;
	if (capture->thread == this_thread())
		return capture->mode != CUDA_CAPTURE_RELAXED;
	return mode_here == MODE_GLOBAL && capture->mode == MODE_GLOBAL;
}

cuda_result capture_forbids(void)
{
	cuda_result error = 0;

	for (struct capture *capture = NULL; (capture = next_capture(capture));)
		if (forbids(capture)) {
			capture->invalid = true;
			error = CAPTURE_UNSUPPORTED;
		}
	return error;
}

cuda_result capture_forbids_here(void)
{
	const cuda_result error = context_error();

	return error ? error : capture_forbids();
}

/* The legacy stream waits for all others that are blocking, and those for it. */
bool capture_blocks_legacy(const struct CUctx_st *context, bool invalidate)
{
	bool blocks = false;

	for (struct capture *capture = NULL; (capture = next_capture(capture));) {
		if (capture->origin->made.context != context ||
		    (capture->origin->flags & CUDA_STREAM_NON_BLOCKING))
			continue;
		blocks = true;
		if (invalidate)
			capture->invalid = true;
	}
	return blocks;
}

struct capture *capture_numbered(uint64_t number)
{
	struct capture *capture = next_capture(NULL);

	while (capture && capture->number != number)
		capture = next_capture(capture);
	return capture;
}

static cuda_result invalidated_by(cuda_result error, struct capture *one, struct capture *other)
{
	if (one)
		one->invalid = true;
	if (other)
		other->invalid = true;
	return error;
}

/* One of both is in a capture: then the other has to be in the same, or joins it. */
cuda_result capture_wait(struct CUstream_st *stream, struct CUevent_st *event)
{
	struct capture *const of_event = event->capture ? capture_numbered(event->capture) : NULL;

	if (stream->capture && stream->capture->invalid)
		return CAPTURE_INVALIDATED;
	if (!event->capture) /* recorded outside, or never */
		return event->last ? invalidated_by(CAPTURE_ISOLATION, stream->capture, NULL) : 0;
	if (!of_event)
		return invalidated_by(CAPTURED_EVENT, stream->capture, NULL);
	if (of_event->invalid)
		return CAPTURE_INVALIDATED;
	if (stream->capture && stream->capture != of_event)
		return invalidated_by(CAPTURE_MERGE, stream->capture, of_event);
	if (!stream->capture) {
		stream->capture = of_event;
		stream->captured = 0;
		stream->joined = false;
	}
	if (event->stream != stream && event->stream->capture == of_event &&
	    event->captured == event->stream->captured)
		event->stream->joined = true;
	return 0;
}

CALL(cuThreadExchangeStreamCaptureMode, (mode), unsigned *mode)
{
	const unsigned before = mode_here;

	if (!mode || *mode > CUDA_CAPTURE_RELAXED)
		return CUDA_INVALID_VALUE;
	mode_here = *mode;
	*mode = before;
	return 0;
}

CALL_AFTER(stream_known(handle), cuStreamBeginCapture_v2, (handle, mode),
	   struct CUstream_st *handle, unsigned mode)
{
	struct CUstream_st *const stream = stream_of(handle);

	if (mode > CUDA_CAPTURE_RELAXED)
		return CUDA_INVALID_VALUE;
	if (stream == stream->made.context->legacy)
		return CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return ILLEGAL_STATE;
	struct capture *const capture = make(CAPTURES, sizeof(*capture), NULL);

	capture->number = ++last_number;
	capture->mode = mode;
	capture->origin = stream;
	capture->thread = this_thread();
	stream->capture = capture;
	stream->captured = 0;
	stream->joined = false;
	return 0;
}

static struct CUgraph_st *make_graph(enum kind kind, struct work_list work)
{
	struct CUgraph_st *const graph = make(kind, sizeof(*graph), NULL);

	graph->work = work;
	return graph;
}

/* Whatever comes of it, the capture has ended, unless it is not this stream's or thread's to
 * end. */
CALL_AFTER(stream_known(handle), cuStreamEndCapture, (handle, out), struct CUstream_st *handle,
	   struct CUgraph_st **out)
{
	struct CUstream_st *const stream = stream_of(handle);
	struct capture *const capture = stream->capture;
	cuda_result error = 0;

	if (!out || !capture)
		return !out ? CUDA_INVALID_VALUE : ILLEGAL_STATE;
	if (capture->origin != stream)
		return invalidated_by(CAPTURE_UNMATCHED, capture, NULL);
	if (capture->thread != this_thread() && capture->mode != CUDA_CAPTURE_RELAXED)
		return CAPTURE_WRONG_THREAD;
	if (capture->invalid)
		error = CAPTURE_INVALIDATED;
	else if (!stream_all_joined(capture))
		error = CAPTURE_UNJOINED;
	*out = error ? NULL : make_graph(GRAPHS, capture->work);
	if (error)
		work_list_free(&capture->work);
	stream_leave_capture(capture);
	unmake(capture);
	return error;
}

CALL_AFTER(stream_known(handle), cuStreamIsCapturing, (handle, status), struct CUstream_st *handle,
	   unsigned *status)
{
	struct CUstream_st *const stream = stream_of(handle);
	const struct CUctx_st *const context = stream->made.context;

	if (!status)
		return CUDA_INVALID_VALUE;
	if (stream == context->legacy && capture_blocks_legacy(context, false))
		return CAPTURE_IMPLICIT;
	*status = !stream->capture	     ? CUDA_CAPTURE_NONE
		  : stream->capture->invalid ? CUDA_CAPTURE_INVALIDATED
					     : CUDA_CAPTURE_ACTIVE;
	return 0;
}

/* Those of a call, or a graph, follow the first. */
static struct work_list copy_list(const struct work_list *list)
{
	struct work_list copies = { 0 };

	for (const struct work *work = list->first; work; work = work->next) {
		struct work *const copy = work_new(work->kind);

		*copy = *work;
		copy->next = NULL;
		copy->follows = copies.first != NULL;
		work_list_add(&copies, copy);
	}
	return copies;
}

CALL(cuGraphInstantiateWithFlags, (executable, graph, flags), struct CUgraph_st **executable,
     struct CUgraph_st *graph, unsigned long long flags)
{
	if (!executable || !is_made(GRAPHS, graph))
		return CUDA_INVALID_VALUE;
	*executable = make_graph(EXECUTABLES, copy_list(&graph->work));
	return 0;
}

static cuda_result append_all(struct CUstream_st *stream, const struct work_list *list)
{
	struct work_list copies = copy_list(list);
	cuda_result error = 0;

	while (copies.first) {
		struct work *const work = work_list_take(&copies);

		if (error)
			work_free(work);
		else
			error = stream_append(stream, work);
	}
	return error;
}

/* One launch at a time, as with the driver. In a capture it is part of that. */
CALL_AFTER(stream_usable(handle), cuGraphLaunch, (graph, handle), struct CUgraph_st *graph,
	   struct CUstream_st *handle)
{
	struct CUstream_st *const stream = stream_of(handle);
	cuda_result error = 0;

	if (!is_made(EXECUTABLES, graph))
		return CUDA_INVALID_VALUE;
	if (stream->capture)
		return append_all(stream, &graph->work);
	struct record *const record = record_new();

	if (graph->last)
		error = stream_append(stream, work_of_record(WORK_WAIT, graph->last));
	if (!error)
		error = append_all(stream, &graph->work);
	if (!error)
		error = stream_append(stream, work_of_record(WORK_RECORD, record));
	record_drop(error ? record : graph->last);
	if (!error)
		graph->last = record;
	return error;
}

static cuda_result forget(enum kind kind, struct CUgraph_st *graph)
{
	if (!is_made(kind, graph))
		return CUDA_INVALID_VALUE;
	work_list_free(&graph->work);
	record_drop(graph->last);
	unmake(graph);
	return 0;
}

/* What it was launched for goes on. */
CALL(cuGraphExecDestroy, (executable), struct CUgraph_st *executable)
{
	return forget(EXECUTABLES, executable);
}

CALL(cuGraphDestroy, (graph), struct CUgraph_st *graph)
{
	return forget(GRAPHS, graph);
}
