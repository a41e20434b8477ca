/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the programs' use of CUDA's driver. */
#include "gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_functions.h"

enum { THREADS = 256, BLOCKS_MAX = 4096 };

static struct cuda_driver cu;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded, is_open;
static _Thread_local char why[TT_LIBRARY_WHY];

const char *gpu_error(void)
{
	return why;
}

/* True if there is none. */
static bool succeeded(const char *what, cuda_result error)
{
	const char *text = NULL;

	if (!error)
		return true;
	cu.get_error_string(error, &text);
	snprintf(why, sizeof(why), "%s: %s (CUDA's error %u)", what, text ? text : "no text",
		 error);
	return false;
}

/* Called with the lock. */
static bool load(void)
{
	is_loaded = is_loaded || tt_library_open(&tt_cuda_library, &cu, why);
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

	return gpu_open() && succeeded("cuDeviceGetCount", cu.device_get_count(&count)) ? count : 0;
}

const char *gpu_name(int device)
{
	static _Thread_local char name[128];
	int handle;

	return gpu_open() && succeeded("cuDeviceGet", cu.device_get(&handle, device)) &&
			       succeeded("cuDeviceGetName",
					 cu.device_get_name(name, sizeof(name), handle))
		       ? name
		       : NULL;
}

bool gpu_enter(int device)
{
	gpu_context_t context;
	int handle;

	/* the primary context, as CUDA's runtime has it, is kept until the process ends */
	return gpu_open() && succeeded("cuDeviceGet", cu.device_get(&handle, device)) &&
	       succeeded("cuDevicePrimaryCtxRetain", cu.primary_retain(&context, handle)) &&
	       gpu_return(context);
}

gpu_context_t gpu_current(void)
{
	gpu_context_t context;

	return succeeded("cuCtxGetCurrent", cu.context_get_current(&context)) ? context : NULL;
}

bool gpu_return(gpu_context_t context)
{
	return succeeded("cuCtxSetCurrent", cu.context_set(context));
}

/* ---- memory */

void *gpu_alloc(size_t bytes)
{
	cuda_address memory;

	return succeeded("cuMemAlloc", cu.mem_alloc(&memory, bytes)) ? (void *)(size_t)memory
								     : NULL;
}

void *gpu_alloc_managed(size_t bytes)
{
	cuda_address memory;

	return succeeded("cuMemAllocManaged",
			 cu.mem_alloc_managed(&memory, bytes, CUDA_MANAGED_GLOBAL))
		       ? (void *)(size_t)memory
		       : NULL;
}

void *gpu_alloc_pinned(size_t bytes)
{
	void *memory;

	return succeeded("cuMemHostAlloc", cu.mem_host_alloc(&memory, bytes, 0)) ? memory : NULL;
}

/* ---- memory in segments */

#define BEFORE_END 4096 /* of the first, where the memory begins */

struct segments {
	cuda_address base;
	size_t first, second; /* bytes of each */
};

static bool plan_segments(size_t bytes, struct CUmemAllocationProp_st *wanted, struct segments *out)
{
	size_t unit;
	int device;

	if (!succeeded("cuCtxGetDevice", cu.context_get_device(&device)))
		return false;
	*wanted = (struct CUmemAllocationProp_st){ .type = CUDA_ALLOCATION_PINNED,
						   .requestedHandleTypes = CUDA_HANDLE_DESCRIPTOR,
						   .location = { CUDA_LOCATION_DEVICE, device } };
	if (!succeeded("cuMemGetAllocationGranularity",
		       cu.segment_granularity(&unit, wanted, CUDA_GRANULARITY_MINIMUM)))
		return false;
	*out = (struct segments){ 0, unit, (bytes + unit - 1) / unit * unit };
	return true;
}

static bool map_segment(cuda_address at, size_t bytes, const struct CUmemAllocationProp_st *wanted)
{
	cuda_allocation allocation;

	if (!succeeded("cuMemCreate", cu.segment_create(&allocation, bytes, wanted, 0)))
		return false;
	const bool mapped = succeeded("cuMemMap", cu.range_map(at, bytes, 0, allocation, 0));

	return succeeded("cuMemRelease", cu.segment_release(allocation)) && mapped;
}

void *gpu_alloc_segments(size_t bytes)
{
	struct CUmemAllocationProp_st wanted;
	struct segments s;

	if (!plan_segments(bytes, &wanted, &s) ||
	    !succeeded("cuMemAddressReserve",
		       cu.range_reserve(&s.base, s.first + s.second, 0, 0, 0)))
		return NULL;
	const struct CUmemAccessDesc_st access = { wanted.location, CUDA_ACCESS_READ_WRITE };
	if (!map_segment(s.base, s.first, &wanted) ||
	    !map_segment(s.base + s.first, s.second, &wanted) ||
	    !succeeded("cuMemSetAccess",
		       cu.range_set_access(s.base, s.first + s.second, &access, 1)))
		return NULL;
	return (void *)(size_t)(s.base + s.first - BEFORE_END);
}

bool gpu_free_segments(void *memory, size_t bytes)
{
	struct CUmemAllocationProp_st wanted;
	struct segments s;

	if (!plan_segments(bytes, &wanted, &s))
		return false;
	s.base = (cuda_address)(size_t)memory + BEFORE_END - s.first;
	return succeeded("cuMemUnmap", cu.range_unmap(s.base, s.first)) &&
	       succeeded("cuMemUnmap", cu.range_unmap(s.base + s.first, s.second)) &&
	       succeeded("cuMemAddressFree", cu.range_free(s.base, s.first + s.second));
}

bool gpu_free(void *memory)
{
	return succeeded("cuMemFree", cu.mem_free((cuda_address)(size_t)memory));
}

bool gpu_free_pinned(void *memory)
{
	return succeeded("cuMemFreeHost", cu.mem_host_free(memory));
}

/* ---- streams */

gpu_stream_t gpu_stream(void)
{
	gpu_stream_t stream;

	return succeeded("cuStreamCreate", cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING))
		       ? stream
		       : NULL;
}

bool gpu_stream_free(gpu_stream_t stream)
{
	return succeeded("cuStreamDestroy", cu.stream_destroy(stream));
}

bool gpu_copy(void *dst, const void *src, size_t bytes, gpu_stream_t stream)
{
	return bytes == 0 ||
	       succeeded("cuMemcpyAsync", cu.mem_copy((cuda_address)(size_t)dst,
						      (cuda_address)(size_t)src, bytes, stream));
}

bool gpu_fill(void *dst, unsigned char byte, size_t bytes, gpu_stream_t stream)
{
	return bytes == 0 || succeeded("cuMemsetD8Async",
				       cu.mem_set((cuda_address)(size_t)dst, byte, bytes, stream));
}

bool gpu_finish(gpu_stream_t stream)
{
	return succeeded("cuStreamSynchronize", cu.stream_synchronize(stream));
}

bool gpu_is_done(gpu_stream_t stream)
{
	const cuda_result error = cu.stream_query(stream);

	return error != CUDA_NOT_READY && succeeded("cuStreamQuery", error);
}

/* ---- events */

gpu_event_t gpu_event(void)
{
	gpu_event_t event;

	return succeeded("cuEventCreate", cu.event_create(&event, 0)) ? event : NULL;
}

bool gpu_event_free(gpu_event_t event)
{
	return succeeded("cuEventDestroy", cu.event_destroy(event));
}

bool gpu_record(gpu_event_t event, gpu_stream_t stream)
{
	return succeeded("cuEventRecord", cu.event_record(event, stream));
}

bool gpu_wait(gpu_event_t event)
{
	return succeeded("cuEventSynchronize", cu.event_synchronize(event));
}

bool gpu_follow(gpu_stream_t stream, gpu_event_t event)
{
	return succeeded("cuStreamWaitEvent", cu.stream_wait_event(stream, event, 0));
}

double gpu_seconds(gpu_event_t from, gpu_event_t to)
{
	float ms;

	return succeeded("cuEventElapsedTime", cu.event_elapsed(&ms, from, to)) ? ms * 1e-3 : -1;
}

/* ---- graphs */

bool gpu_capture(gpu_stream_t stream)
{
	/* other threads go on as they like */
	return succeeded("cuStreamBeginCapture",
			 cu.stream_begin_capture(stream, CUDA_CAPTURE_THREAD_LOCAL));
}

gpu_graph_t gpu_captured(gpu_stream_t stream)
{
	struct CUgraph_st *graph;
	gpu_graph_t exec;

	if (!succeeded("cuStreamEndCapture", cu.stream_end_capture(stream, &graph)))
		return NULL;
	const bool made = succeeded("cuGraphInstantiate", cu.graph_instantiate(&exec, graph, 0));
	cu.graph_destroy(graph);
	return made ? exec : NULL;
}

bool gpu_launch(gpu_graph_t graph, gpu_stream_t stream)
{
	return succeeded("cuGraphLaunch", cu.graph_launch(graph, stream));
}

bool gpu_graph_free(gpu_graph_t graph)
{
	return succeeded("cuGraphExecDestroy", cu.graph_exec_destroy(graph));
}

/* ---- kernels */

bool gpu_module_free(gpu_module_t module)
{
	return succeeded("cuModuleUnload", cu.module_unload(module));
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

static gpu_module_t load_module(const char *name, const void *code, const char *codes)
{
	gpu_module_t module;
	char text[sizeof(why)];

	if (succeeded("cuModuleLoadData", cu.module_load(&module, code)))
		return module;
	memcpy(text, why, sizeof(text));
	snprintf(why, sizeof(why),
		 "the kernels of %.200s, which are for %s, cannot be loaded into this GPU: %.200s",
		 name, codes, text);
	return NULL;
}

gpu_module_t gpu_module(const struct gpu_image *image, bool *unread)
{
	const char *set = getenv(image->variable);
	gpu_module_t module = NULL;
	char *read;

	*unread = false;
	if (set && *set) {
		read = gpu_read_image(set);
		*unread = !read;
		if (read)
			module = load_module(set, read, "whatever GPUs that file was made for");
		else
			snprintf(why, sizeof(why), "%s is \"%.200s\", which cannot be read: %s",
				 image->variable, set, strerror(errno));
		free(read);
	} else if (*image->codes) {
		module = load_module(image->program, image->code, image->codes);
	} else {
		snprintf(
			why, sizeof(why),
			"%s was built without CUDA's compiler and has no kernels for GPUs: build it "
			"where nvcc is (-Dcuda=enabled), or let %s name a fat binary or PTX of them",
			image->program, image->variable);
	}
	return module;
}

gpu_kernel_t gpu_kernel(gpu_module_t module, const char *name)
{
	gpu_kernel_t kernel;
	int bytes;

	if (!succeeded(name, cu.module_get_function(&kernel, module, name)))
		return NULL;
	return succeeded(name, cu.function_get_attribute(&bytes, CUDA_FUNCTION_LOCAL_BYTES, kernel))
		       ? kernel
		       : NULL; /* the question is what loads it */
}

bool gpu_run(gpu_kernel_t kernel, size_t count, void **arguments, gpu_stream_t stream)
{
	const size_t blocks = (count + THREADS - 1) / THREADS,
		     most = blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;

	return count == 0 ||
	       succeeded("cuLaunchKernel", cu.launch(kernel, (unsigned)most, 1, 1, THREADS, 1, 1, 0,
						     stream, arguments, NULL));
}
