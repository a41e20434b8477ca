/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the programs' use of CUDA's driver. */
#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

#define NON_BLOCKING  1 /* CU_STREAM_NON_BLOCKING */
#define ATTACH_GLOBAL 1 /* CU_MEM_ATTACH_GLOBAL */
#define CAPTURE_OWN   1 /* CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads go on as they like */
#define NOT_READY     600
#define LOCAL_BYTES   3 /* CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES */

typedef unsigned long long address; /* CUdeviceptr */
struct CUgraph_st;

static struct driver {
	int (*init)(unsigned);
	int (*error_string)(int, const char **);
	int (*count)(int *);
	int (*device)(int *, int);
	int (*name)(char *, int, int);
	int (*primary)(gpu_context_t *, int);
	int (*get_current)(gpu_context_t *);
	int (*set_current)(gpu_context_t);
	int (*alloc)(address *, size_t);
	int (*alloc_managed)(address *, size_t, unsigned);
	int (*alloc_host)(void **, size_t, unsigned);
	int (*release)(address);
	int (*release_host)(void *);
	int (*copy)(address, address, size_t, gpu_stream_t);
	int (*fill)(address, unsigned char, size_t, gpu_stream_t);
	int (*stream)(gpu_stream_t *, unsigned);
	int (*stream_free)(gpu_stream_t);
	int (*synchronize)(gpu_stream_t);
	int (*query)(gpu_stream_t);
	int (*wait_event)(gpu_stream_t, gpu_event_t, unsigned);
	int (*event)(gpu_event_t *, unsigned);
	int (*event_free)(gpu_event_t);
	int (*record)(gpu_event_t, gpu_stream_t);
	int (*event_wait)(gpu_event_t);
	int (*elapsed)(float *, gpu_event_t, gpu_event_t);
	int (*capture)(gpu_stream_t, int);
	int (*end_capture)(gpu_stream_t, struct CUgraph_st **);
	int (*instantiate)(gpu_graph_t *, struct CUgraph_st *, unsigned long long);
	int (*graph_free)(struct CUgraph_st *);
	int (*launch)(gpu_graph_t, gpu_stream_t);
	int (*exec_free)(gpu_graph_t);
	int (*module)(gpu_module_t *, const void *);
	int (*module_free)(gpu_module_t);
	int (*kernel)(gpu_kernel_t *, gpu_module_t, const char *);
	int (*attribute)(int *, int, gpu_kernel_t);
	int (*run)(gpu_kernel_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		   unsigned, gpu_stream_t, void **, void **);
} cu;

#define FUNCTION(name, member)                                                                     \
	{                                                                                          \
		name, offsetof(struct driver, member)                                              \
	}
static const struct tt_function functions[] = {
	FUNCTION("cuInit", init),
	FUNCTION("cuGetErrorString", error_string),
	FUNCTION("cuDeviceGetCount", count),
	FUNCTION("cuDeviceGet", device),
	FUNCTION("cuDeviceGetName", name),
	FUNCTION("cuDevicePrimaryCtxRetain", primary),
	FUNCTION("cuCtxGetCurrent", get_current),
	FUNCTION("cuCtxSetCurrent", set_current),
	FUNCTION("cuMemAlloc_v2", alloc),
	FUNCTION("cuMemAllocManaged", alloc_managed),
	FUNCTION("cuMemHostAlloc", alloc_host),
	FUNCTION("cuMemFree_v2", release),
	FUNCTION("cuMemFreeHost", release_host),
	FUNCTION("cuMemcpyAsync", copy),
	FUNCTION("cuMemsetD8Async", fill),
	FUNCTION("cuStreamCreate", stream),
	FUNCTION("cuStreamDestroy_v2", stream_free),
	FUNCTION("cuStreamSynchronize", synchronize),
	FUNCTION("cuStreamQuery", query),
	FUNCTION("cuStreamWaitEvent", wait_event),
	FUNCTION("cuEventCreate", event),
	FUNCTION("cuEventDestroy_v2", event_free),
	FUNCTION("cuEventRecord", record),
	FUNCTION("cuEventSynchronize", event_wait),
	FUNCTION("cuEventElapsedTime", elapsed),
	FUNCTION("cuStreamBeginCapture_v2", capture),
	FUNCTION("cuStreamEndCapture", end_capture),
	FUNCTION("cuGraphInstantiateWithFlags", instantiate),
	FUNCTION("cuGraphDestroy", graph_free),
	FUNCTION("cuGraphLaunch", launch),
	FUNCTION("cuGraphExecDestroy", exec_free),
	FUNCTION("cuModuleLoadData", module),
	FUNCTION("cuModuleUnload", module_free),
	FUNCTION("cuModuleGetFunction", kernel),
	FUNCTION("cuFuncGetAttribute", attribute),
	FUNCTION("cuLaunchKernel", run),
};
#undef FUNCTION

static const struct tt_library library = {
	.variable = "TUTTI_CUDA_LIBRARY",
	.names = { "libcuda.so.1" },
	.expected = "the driver of CUDA 12 or newer",
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded, is_open;
static _Thread_local char why[TT_LIBRARY_WHY];

const char *gpu_error(void)
{
	return why;
}

/* True if there is none. */
static bool succeeded(const char *what, int error)
{
	const char *text = NULL;

	if (!error)
		return true;
	cu.error_string(error, &text);
	snprintf(why, sizeof(why), "%s: %s (CUDA's error %d)", what, text ? text : "no text",
		 error);
	return false;
}

/* Called with the lock. */
static bool load(void)
{
	is_loaded = is_loaded || tt_library_open(&library, &cu, why);
	return is_loaded;
}

bool gpu_load(void)
{
	pthread_mutex_lock(&lock);
	const bool loaded = load();
	pthread_mutex_unlock(&lock);
	return loaded;
}

bool gpu_open(void)
{
	pthread_mutex_lock(&lock);
	is_open = is_open || (load() && succeeded("cuInit", cu.init(0)));
	const bool opened = is_open;
	pthread_mutex_unlock(&lock);
	return opened;
}

int gpu_count(void)
{
	int count = 0;

	return gpu_open() && succeeded("cuDeviceGetCount", cu.count(&count)) ? count : 0;
}

const char *gpu_name(int device)
{
	static _Thread_local char name[128];
	int handle;

	return gpu_open() && succeeded("cuDeviceGet", cu.device(&handle, device)) &&
			       succeeded("cuDeviceGetName", cu.name(name, sizeof(name), handle))
		       ? name
		       : NULL;
}

bool gpu_enter(int device)
{
	gpu_context_t context;
	int handle;

	/* the primary context, as CUDA's runtime has it, is kept until the process ends */
	return gpu_open() && succeeded("cuDeviceGet", cu.device(&handle, device)) &&
	       succeeded("cuDevicePrimaryCtxRetain", cu.primary(&context, handle)) &&
	       gpu_return(context);
}

gpu_context_t gpu_current(void)
{
	gpu_context_t context;

	return succeeded("cuCtxGetCurrent", cu.get_current(&context)) ? context : NULL;
}

bool gpu_return(gpu_context_t context)
{
	return succeeded("cuCtxSetCurrent", cu.set_current(context));
}

/* ---- memory */

void *gpu_alloc(size_t bytes)
{
	address memory;

	return succeeded("cuMemAlloc", cu.alloc(&memory, bytes)) ? (void *)(size_t)memory : NULL;
}

void *gpu_alloc_managed(size_t bytes)
{
	address memory;

	return succeeded("cuMemAllocManaged", cu.alloc_managed(&memory, bytes, ATTACH_GLOBAL))
		       ? (void *)(size_t)memory
		       : NULL;
}

void *gpu_alloc_pinned(size_t bytes)
{
	void *memory;

	return succeeded("cuMemHostAlloc", cu.alloc_host(&memory, bytes, 0)) ? memory : NULL;
}

bool gpu_free(void *memory)
{
	return succeeded("cuMemFree", cu.release((address)(size_t)memory));
}

bool gpu_free_pinned(void *memory)
{
	return succeeded("cuMemFreeHost", cu.release_host(memory));
}

/* ---- streams */

gpu_stream_t gpu_stream(void)
{
	gpu_stream_t stream;

	return succeeded("cuStreamCreate", cu.stream(&stream, NON_BLOCKING)) ? stream : NULL;
}

bool gpu_stream_free(gpu_stream_t stream)
{
	return succeeded("cuStreamDestroy", cu.stream_free(stream));
}

bool gpu_copy(void *dst, const void *src, size_t bytes, gpu_stream_t stream)
{
	return bytes == 0 ||
	       succeeded("cuMemcpyAsync",
			 cu.copy((address)(size_t)dst, (address)(size_t)src, bytes, stream));
}

bool gpu_fill(void *dst, unsigned char byte, size_t bytes, gpu_stream_t stream)
{
	return bytes == 0 ||
	       succeeded("cuMemsetD8Async", cu.fill((address)(size_t)dst, byte, bytes, stream));
}

bool gpu_finish(gpu_stream_t stream)
{
	return succeeded("cuStreamSynchronize", cu.synchronize(stream));
}

bool gpu_is_done(gpu_stream_t stream)
{
	const int error = cu.query(stream);

	return error != NOT_READY && succeeded("cuStreamQuery", error);
}

/* ---- events */

gpu_event_t gpu_event(void)
{
	gpu_event_t event;

	return succeeded("cuEventCreate", cu.event(&event, 0)) ? event : NULL;
}

bool gpu_event_free(gpu_event_t event)
{
	return succeeded("cuEventDestroy", cu.event_free(event));
}

bool gpu_record(gpu_event_t event, gpu_stream_t stream)
{
	return succeeded("cuEventRecord", cu.record(event, stream));
}

bool gpu_wait(gpu_event_t event)
{
	return succeeded("cuEventSynchronize", cu.event_wait(event));
}

bool gpu_follow(gpu_stream_t stream, gpu_event_t event)
{
	return succeeded("cuStreamWaitEvent", cu.wait_event(stream, event, 0));
}

double gpu_seconds(gpu_event_t from, gpu_event_t to)
{
	float ms;

	return succeeded("cuEventElapsedTime", cu.elapsed(&ms, from, to)) ? ms * 1e-3 : -1;
}

/* ---- graphs */

bool gpu_capture(gpu_stream_t stream)
{
	return succeeded("cuStreamBeginCapture", cu.capture(stream, CAPTURE_OWN));
}

gpu_graph_t gpu_captured(gpu_stream_t stream)
{
	struct CUgraph_st *graph;
	gpu_graph_t exec;

	if (!succeeded("cuStreamEndCapture", cu.end_capture(stream, &graph)))
		return NULL;
	const bool made = succeeded("cuGraphInstantiate", cu.instantiate(&exec, graph, 0));
	cu.graph_free(graph);
	return made ? exec : NULL;
}

bool gpu_launch(gpu_graph_t graph, gpu_stream_t stream)
{
	return succeeded("cuGraphLaunch", cu.launch(graph, stream));
}

bool gpu_graph_free(gpu_graph_t graph)
{
	return succeeded("cuGraphExecDestroy", cu.exec_free(graph));
}

/* ---- kernels */

gpu_module_t gpu_module(const void *image)
{
	gpu_module_t module;

	return succeeded("cuModuleLoadData", cu.module(&module, image)) ? module : NULL;
}

bool gpu_module_free(gpu_module_t module)
{
	return succeeded("cuModuleUnload", cu.module_free(module));
}

char *gpu_read_image(const char *path)
{
	FILE *file = fopen(path, "re");
	long bytes = -1;
	char *text = NULL;

	if (!file)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 &&
	    fseek(file, 0, SEEK_SET) == 0)
		text = calloc(1, (size_t)bytes + 1);
	if (text && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

gpu_kernel_t gpu_kernel(gpu_module_t module, const char *name)
{
	gpu_kernel_t kernel;
	int bytes;

	if (!succeeded(name, cu.kernel(&kernel, module, name)))
		return NULL;
	return succeeded(name, cu.attribute(&bytes, LOCAL_BYTES, kernel))
		       ? kernel
		       : NULL; /* the question is what loads it */
}

bool gpu_run(gpu_kernel_t kernel, unsigned blocks, unsigned threads, void **arguments,
	     gpu_stream_t stream)
{
	return succeeded("cuLaunchKernel",
			 cu.run(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL));
}
