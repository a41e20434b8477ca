/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what streams record instead of doing it, and the graphs made of that. A graph's work is
 * done in the order in which it was recorded, in the stream that launches it: side by side, as a
 * GPU may do branches, it never is. */
#include "standin.h"

#include <stdlib.h>

enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };
enum { STATUS_INVALIDATED = 2 };

struct CUgraph_st {
	struct CUgraph_st *next;
	struct work_list work;
	bool executable;
	struct record *last; /* executable: when its last launch has ended, which the next one
			      * waits for */
};

static struct capture *captures;
static struct CUgraph_st *graphs;
static uint64_t last_number;
static _Thread_local unsigned mode_here;

static const void *this_thread(void)
{
	return &mode_here;
}

static bool forbids(const struct capture *capture)
{
	if (capture->thread == this_thread())
		return capture->mode != MODE_RELAXED;
	return mode_here == MODE_GLOBAL && capture->mode == MODE_GLOBAL;
}

cuda_result capture_forbids(void)
{
	cuda_result error = 0;

	for (struct capture *capture = captures; capture && mode_here != MODE_RELAXED;
	     capture = capture->next) {
		if (!forbids(capture))
			continue;
		capture_invalidate(capture);
		error = CAPTURE_UNSUPPORTED;
	}
	return error;
}

void capture_invalidate(struct capture *capture)
{
	capture->invalid = true;
}

/* The legacy stream waits for all others that are blocking, and those for it. */
bool capture_blocks_legacy(const struct CUctx_st *context, bool invalidate)
{
	bool blocks = false;

	for (struct capture *capture = captures; capture; capture = capture->next) {
		if (capture->origin->context != context ||
		    (capture->origin->flags & CUDA_STREAM_NON_BLOCKING))
			continue;
		blocks = true;
		if (invalidate)
			capture_invalidate(capture);
	}
	return blocks;
}

struct capture *capture_numbered(uint64_t number)
{
	for (struct capture *capture = captures; capture; capture = capture->next) {
		if (capture->number == number)
			return capture;
	}
	return NULL;
}

static cuda_result invalidated_by(cuda_result error, struct capture *one, struct capture *other)
{
	if (one)
		capture_invalidate(one);
	if (other)
		capture_invalidate(other);
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

API cuda_result cuThreadExchangeStreamCaptureMode(unsigned *mode)
{
	cuda_result error = standin_enter(__func__);

	if (!error && (!mode || *mode > MODE_RELAXED))
		error = CUDA_INVALID_VALUE;
	if (!error) {
		const unsigned before = mode_here;

		mode_here = *mode;
		*mode = before;
	}
	return standin_leave(error);
}

static cuda_result begin(struct CUstream_st *stream, unsigned mode)
{
	struct capture *const capture = calloc(1, sizeof(*capture));

	if (!capture)
		return CUDA_OUT_OF_MEMORY;
	*capture = (struct capture){ .next = captures,
				     .number = ++last_number,
				     .mode = mode,
				     .origin = stream,
				     .thread = this_thread() };
	captures = capture;
	stream->capture = capture;
	stream->captured = 0;
	stream->joined = false;
	return 0;
}

API cuda_result cuStreamBeginCapture_v2(struct CUstream_st *handle, unsigned mode)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = stream_look(handle, &stream);
	if (!error && mode > MODE_RELAXED)
		error = CUDA_INVALID_VALUE;
	if (!error && stream == stream->context->legacy)
		error = CAPTURE_UNSUPPORTED;
	if (!error && stream->capture)
		error = ILLEGAL_STATE;
	return standin_leave(error ? error : begin(stream, mode));
}

static struct CUgraph_st *make_graph(struct work_list work, bool executable)
{
	struct CUgraph_st *const graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	*graph = (struct CUgraph_st){ .next = graphs, .work = work, .executable = executable };
	graphs = graph;
	return graph;
}

static void end_capture(struct capture *capture)
{
	struct capture **at = &captures;

	stream_leave_capture(capture);
	while (*at != capture)
		at = &(*at)->next;
	*at = capture->next;
	work_list_free(&capture->work);
	free(capture);
}

/* Whatever comes of it, the capture has ended, unless it is not this stream's or thread's to
 * end. */
static cuda_result end(struct CUstream_st *stream, struct CUgraph_st **out)
{
	struct capture *const capture = stream->capture;
	cuda_result error = 0;

	if (!capture)
		return ILLEGAL_STATE;
	if (capture->origin != stream)
		return invalidated_by(CAPTURE_UNMATCHED, capture, NULL);
	if (capture->thread != this_thread() && capture->mode != MODE_RELAXED)
		return CAPTURE_WRONG_THREAD;
	if (capture->invalid)
		error = CAPTURE_INVALIDATED;
	else if (!stream_all_joined(capture))
		error = CAPTURE_UNJOINED;
	struct CUgraph_st *const graph = error ? NULL : make_graph(capture->work, false);

	if (!error && !graph)
		error = CUDA_OUT_OF_MEMORY;
	if (!error)
		capture->work = (struct work_list){ 0 };
	end_capture(capture);
	*out = graph;
	return error;
}

API cuda_result cuStreamEndCapture(struct CUstream_st *handle, struct CUgraph_st **graph)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = stream_look(handle, &stream);
	if (!error && !graph)
		error = CUDA_INVALID_VALUE;
	return standin_leave(error ? error : end(stream, graph));
}

API cuda_result cuStreamIsCapturing(struct CUstream_st *handle, unsigned *status)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = stream_look(handle, &stream);
	if (!error && !status)
		error = CUDA_INVALID_VALUE;
	if (!error && stream == stream->context->legacy &&
	    capture_blocks_legacy(stream->context, false))
		error = CAPTURE_IMPLICIT;
	if (!error)
		*status = !stream->capture	     ? CUDA_CAPTURE_NONE
			  : stream->capture->invalid ? STATUS_INVALIDATED
						     : CUDA_CAPTURE_ACTIVE;
	return standin_leave(error);
}

static bool is_graph(const struct CUgraph_st *graph, bool executable)
{
	for (const struct CUgraph_st *at = graphs; at; at = at->next) {
		if (at == graph)
			return graph->executable == executable;
	}
	return false;
}

static void forget(struct CUgraph_st *graph)
{
	struct CUgraph_st **at = &graphs;

	while (*at != graph)
		at = &(*at)->next;
	*at = graph->next;
	work_list_free(&graph->work);
	record_drop(graph->last);
	free(graph);
}

static cuda_result copy_list(const struct work_list *list, struct work_list *out)
{
	*out = (struct work_list){ 0 };
	for (const struct work *work = list->first; work; work = work->next) {
		struct work *const copy = work_copy(work);

		if (!copy) {
			work_list_free(out);
			return CUDA_OUT_OF_MEMORY;
		}
		work_list_add(out, copy);
	}
	return 0;
}

/* CUgraphExec is another type than CUgraph; here both are one. */
API cuda_result cuGraphInstantiateWithFlags(struct CUgraph_st **executable,
					    struct CUgraph_st *graph, unsigned long long flags)
{
	struct work_list work;
	cuda_result error = standin_enter(__func__);

	if (!error && (!executable || !is_graph(graph, false)))
		error = CUDA_INVALID_VALUE;
	if (!error)
		error = copy_list(&graph->work, &work);
	if (!error) {
		*executable = make_graph(work, true);
		if (!*executable) {
			work_list_free(&work);
			error = CUDA_OUT_OF_MEMORY;
		}
	}
	return standin_leave(error);
}

static cuda_result append_all(struct CUstream_st *stream, const struct work_list *list)
{
	struct work_list copies;
	cuda_result error = copy_list(list, &copies);
	const struct work *const first = copies.first;

	for (struct work *work = copies.first, *next; work; work = next) {
		next = work->next;
		work->next = NULL;
		work->follows = work != first;
		if (error)
			work_free(work);
		else
			error = stream_append(stream, work);
	}
	return error;
}

static cuda_result append_record(struct CUstream_st *stream, enum work_kind kind,
				 struct record *record)
{
	struct work *const work = work_new(kind);

	if (work)
		work->record = record_keep(record);
	return stream_append(stream, work);
}

/* One launch at a time, as with the driver. In a capture it is part of that. */
static cuda_result launch(struct CUgraph_st *graph, struct CUstream_st *stream)
{
	struct record *const record = stream->capture ? NULL : record_new();
	cuda_result error = record || stream->capture ? 0 : CUDA_OUT_OF_MEMORY;

	if (record && graph->last)
		error = append_record(stream, WORK_WAIT, graph->last);
	if (!error)
		error = append_all(stream, &graph->work);
	if (!error && record)
		error = append_record(stream, WORK_RECORD, record);
	if (error || !record) {
		record_drop(record);
		return error;
	}
	record_drop(graph->last);
	graph->last = record;
	return 0;
}

API cuda_result cuGraphLaunch(struct CUgraph_st *executable, struct CUstream_st *handle)
{
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = stream_use(handle, &stream);
	if (!error)
		error = is_graph(executable, true) ? launch(executable, stream)
						   : CUDA_INVALID_VALUE;
	return standin_leave(error);
}

/* What it was launched for goes on. */
API cuda_result cuGraphExecDestroy(struct CUgraph_st *executable)
{
	cuda_result error = standin_enter(__func__);

	if (!error && !is_graph(executable, true))
		error = CUDA_INVALID_VALUE;
	if (!error)
		forget(executable);
	return standin_leave(error);
}

API cuda_result cuGraphDestroy(struct CUgraph_st *graph)
{
	cuda_result error = standin_enter(__func__);

	if (!error && !is_graph(graph, false))
		error = CUDA_INVALID_VALUE;
	if (!error)
		forget(graph);
	return standin_leave(error);
}
