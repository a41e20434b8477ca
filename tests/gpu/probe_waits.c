/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks what goes on, and what comes back, while a stream waits for a word: a rank's stream waits
 * so for other ranks. */
#include "probe.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/gpu.h"
#include "harness.h"

/* ---- which streams stand behind the one that waits */

#define STREAMS_MOST 40

static void ask_who_is_behind(const struct question *question)
{
	const int n = probe_short ? 4 : STREAMS_MOST;
	struct CUstream_st *streams[STREAMS_MOST];
	struct gpu gpu;
	int first, behind;

	gpu_begin(&gpu);
	for (int i = 0; i < n; i++)
		streams[i] = gpu_stream_new(question->beside);
	gpu_wait_for_word(&gpu);
	begun();
	for (int i = 0; i < n; i++)
		must("to put something on a stream",
		     gpu_put(&gpu, (enum put)question->what, streams[i]));
	const double until = seconds_now() + 1;
	do {
		first = behind = 0;
		for (int i = n; i > 0; i--) {
			if (cu.stream_query(streams[i - 1]) == 0)
				continue;
			first = i;
			behind++;
		}
	} while (behind && seconds_now() < until);
	if (behind)
		answer("%d of %d, first no. %d", behind, n, first);
	else
		answer("none of %d", n);
	gpu_go(&gpu);
}

/* ---- which calls come back */

enum call {
	CALL_ALLOC,
	CALL_ALLOC_LONG,
	CALL_FREE,
	CALL_HOST_ALLOC,
	CALL_HOST_FREE,
	CALL_STREAM,
	CALL_STREAM_DESTROY,
	CALL_EVENT,
	CALL_EVENT_DESTROY,
	CALL_MODULE,
	CALL_FIRST_LAUNCH,
	CALL_GRAPH,
	CALL_FILL,
	CALL_PAGEABLE_TO_GPU,
	CALL_PAGEABLE_TO_HOST,
	CALL_QUERY,
	CALL_WORD,
	CALL_LAUNCH,
	CALL_POINTER
};

struct prepared {
	struct gpu gpu;
	void *pinned, *pageable;
	char *image;
	cuda_address memory;
	struct CUstream_st *stream;
	struct CUevent_st *event;
	struct CUmod_st *module;
	struct CUfunc_st *kernel;
	struct CUgraph_st *graph;
};

static void prepare_graph(struct prepared *p)
{
	must("cuStreamBeginCapture", cu.stream_begin_capture(p->stream, CUDA_CAPTURE_RELAXED));
	must("cuLaunchKernel", gpu_put(&p->gpu, PUT_KERNEL, p->stream));
	must("cuStreamEndCapture", cu.stream_end_capture(p->stream, &p->graph));
}

/* What the call uses is made before the stream waits. */
static void prepare(struct prepared *p, enum call call)
{
	gpu_begin(&p->gpu);
	p->pageable = calloc(1, PROBE_BYTES);
	p->image = call == CALL_MODULE && probe_image ? gpu_read_image(probe_image) : NULL;
	p->stream = gpu_stream_new(false);
	must("cuMemHostAlloc", cu.mem_host_alloc(&p->pinned, PROBE_BYTES, 0));
	must("cuMemAlloc", cu.mem_alloc(&p->memory, PROBE_BYTES));
	if (call == CALL_EVENT_DESTROY)
		must("cuEventCreate", cu.event_create(&p->event, CUDA_EVENT_NO_TIMING));
	if (call == CALL_FIRST_LAUNCH) {
		must("cuModuleLoadData", cu.module_load(&p->module, probe_ptx));
		must("cuModuleGetFunction",
		     cu.module_get_function(&p->kernel, p->module, "probe_nothing"));
	}
	if (call == CALL_GRAPH)
		prepare_graph(p);
}

static cuda_result ask_pointer(const struct prepared *p)
{
	unsigned attributes[] = { CUDA_POINTER_MEMORY_TYPE }, type;
	void *values[] = { &type };

	return cu.pointer_get_attributes(1, attributes, values, p->memory);
}

static cuda_result make_call(struct prepared *p, enum call call)
{
	const cuda_address pageable = (cuda_address)(uintptr_t)p->pageable;
	struct CUgraphExec_st *graph;

	switch (call) {
	case CALL_ALLOC: return cu.mem_alloc(&p->memory, PROBE_BYTES);
	case CALL_ALLOC_LONG: return cu.mem_alloc(&p->memory, PROBE_BYTES * 64);
	case CALL_FREE: return cu.mem_free(p->memory);
	case CALL_HOST_ALLOC: return cu.mem_host_alloc(&p->pinned, PROBE_BYTES, 0);
	case CALL_HOST_FREE: return cu.mem_host_free(p->pinned);
	case CALL_STREAM: return cu.stream_create(&p->stream, CUDA_STREAM_NON_BLOCKING);
	case CALL_STREAM_DESTROY: return cu.stream_destroy(p->stream);
	case CALL_EVENT: return cu.event_create(&p->event, CUDA_EVENT_NO_TIMING);
	case CALL_EVENT_DESTROY: return cu.event_destroy(p->event);
	case CALL_MODULE: return cu.module_load(&p->module, p->image ? p->image : probe_ptx);
	case CALL_FIRST_LAUNCH:
		return cu.launch(p->kernel, 1, 1, 1, 1, 1, 1, 0, p->gpu.other, NULL, NULL);
	case CALL_GRAPH: return cu.graph_instantiate(&graph, p->graph, 0);
	case CALL_FILL: return gpu_put(&p->gpu, PUT_FILL, p->gpu.other);
	case CALL_PAGEABLE_TO_GPU:
		return cu.mem_copy(p->memory, pageable, PROBE_BYTES, p->gpu.other);
	case CALL_PAGEABLE_TO_HOST:
		return cu.mem_copy(pageable, p->memory, PROBE_BYTES, p->gpu.other);
	case CALL_QUERY: {
		const cuda_result error = cu.stream_query(p->gpu.other);

		return error == CUDA_NOT_READY ? 0 : error;
	}
	case CALL_WORD: return gpu_put(&p->gpu, PUT_WORD, p->gpu.other);
	case CALL_LAUNCH: return gpu_put(&p->gpu, PUT_KERNEL, p->gpu.other);
	default: return ask_pointer(p);
	}
}

/* `before`: what is known already. */
static void time_call(struct prepared *p, enum call call, const char *before)
{
	answer("%sblocks", before);
	begun();
	const double from = seconds_now();
	const cuda_result error = make_call(p, call);
	const double us = (seconds_now() - from) * 1e6;

	if (error)
		answer("%s%s after %.0f µs", before, error_name(error), us);
	else
		answer("%sreturns after %.0f µs%s", before, us,
		       call == CALL_MODULE && !p->image
			       ? " (a file of its own, not the library's kernels)"
			       : "");
	gpu_go(&p->gpu);
}

static void ask_whether_it_returns(const struct question *question)
{
	struct prepared p = { .gpu = { 0 } };

	prepare(&p, (enum call)question->what);
	gpu_wait_for_word(&p.gpu);
	time_call(&p, (enum call)question->what, "");
}

/* ---- while another thread is kept in a full queue */

#define QUEUE_MOST 20000

struct filler {
	struct gpu *gpu;
	enum put what;
	atomic_int filled;
};

static void *fill(void *filler_as_void)
{
	struct filler *filler = filler_as_void;

	must("cuCtxSetCurrent", cu.context_set(filler->gpu->context));
	while (filler->filled < QUEUE_MOST) {
		must("to put something behind the wait",
		     gpu_put(filler->gpu, filler->what, filler->gpu->waiting));
		atomic_fetch_add(&filler->filled, 1);
	}
	return NULL;
}

/* Until it has no progress for half a second, or is done. */
static void await_full(struct filler *filler)
{
	double since = seconds_now();
	int seen = -1;

	while (seen < QUEUE_MOST && seconds_now() < since + 0.5) {
		const int filled = atomic_load(&filler->filled);

		if (filled != seen)
			since = seconds_now();
		seen = filled;
		sched_yield();
	}
}

static void ask_beside_a_full_queue(const struct question *question)
{
	struct prepared p = { .gpu = { 0 } };
	struct filler filler = { &p.gpu, (enum put)question->beside, 0 };
	pthread_t thread;
	char before[64];

	prepare(&p, (enum call)question->what);
	gpu_wait_for_word(&p.gpu);
	if (pthread_create(&thread, NULL, fill, &filler))
		abort();
	await_full(&filler);
	const int filled = atomic_load(&filler.filled);
	snprintf(before, sizeof(before),
		 filled < QUEUE_MOST ? "full after %d; " : "not full after %d; ", filled);
	time_call(&p, (enum call)question->what, before);
	pthread_join(thread, NULL);
}

const struct question probe_waits[] = {
	{ "who stands behind a stream that waits, of streams with: a kernel", ask_who_is_behind,
	  PUT_KERNEL, .by_connections = true },
	{ "... a kernel, of the highest priority", ask_who_is_behind, PUT_KERNEL, true,
	  .by_connections = true },
	{ "... a copy to the host", ask_who_is_behind, PUT_TO_HOST, .by_connections = true },
	{ "... a copy from the host", ask_who_is_behind, PUT_FROM_HOST, .by_connections = true },
	{ "... a memset", ask_who_is_behind, PUT_FILL, .by_connections = true },
	{ "... the writing of a word", ask_who_is_behind, PUT_WORD, .by_connections = true },
	{ "while a stream waits: cuMemAlloc of 1 MiB", ask_whether_it_returns, CALL_ALLOC },
	{ "... cuMemAlloc of 64 MiB", ask_whether_it_returns, CALL_ALLOC_LONG },
	{ "... cuMemFree", ask_whether_it_returns, CALL_FREE },
	{ "... cuMemHostAlloc", ask_whether_it_returns, CALL_HOST_ALLOC },
	{ "... cuMemFreeHost", ask_whether_it_returns, CALL_HOST_FREE },
	{ "... cuStreamCreate", ask_whether_it_returns, CALL_STREAM },
	{ "... cuStreamDestroy", ask_whether_it_returns, CALL_STREAM_DESTROY },
	{ "... cuEventCreate", ask_whether_it_returns, CALL_EVENT },
	{ "... cuEventDestroy", ask_whether_it_returns, CALL_EVENT_DESTROY },
	{ "... cuModuleLoadData", ask_whether_it_returns, CALL_MODULE, .limit_s = 4 },
	{ "... a kernel's first launch, on another stream", ask_whether_it_returns,
	  CALL_FIRST_LAUNCH },
	{ "... cuGraphInstantiate", ask_whether_it_returns, CALL_GRAPH },
	{ "... cuMemsetD8Async on another stream", ask_whether_it_returns, CALL_FILL },
	{ "... a copy from pageable memory, on another stream", ask_whether_it_returns,
	  CALL_PAGEABLE_TO_GPU },
	{ "... a copy to pageable memory, on another stream", ask_whether_it_returns,
	  CALL_PAGEABLE_TO_HOST },
	{ "a thread fills a queue with kernels; another's cuStreamQuery", ask_beside_a_full_queue,
	  CALL_QUERY, PUT_KERNEL },
	{ "... cuStreamBatchMemOp on another stream", ask_beside_a_full_queue, CALL_WORD,
	  PUT_KERNEL },
	{ "... cuLaunchKernel on another stream", ask_beside_a_full_queue, CALL_LAUNCH,
	  PUT_KERNEL },
	{ "... cuPointerGetAttributes", ask_beside_a_full_queue, CALL_POINTER, PUT_KERNEL },
	{ "a thread fills a queue with words; another's cuStreamQuery", ask_beside_a_full_queue,
	  CALL_QUERY, PUT_WORD },
	{ "... cuStreamBatchMemOp on another stream", ask_beside_a_full_queue, CALL_WORD,
	  PUT_WORD },
	{ "... cuLaunchKernel on another stream", ask_beside_a_full_queue, CALL_LAUNCH, PUT_WORD },
	{ "... cuPointerGetAttributes", ask_beside_a_full_queue, CALL_POINTER, PUT_WORD },
	{ NULL },
};
