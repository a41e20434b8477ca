/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns CUDA's driver library: where it is, that it is started once, and what its errors are
 * called. */
#include "driver.h"

#include <pthread.h>

#include "library.h"
#include "device_table.h"
#include "log.h"

static const struct tt_function functions[] = {
	{ "cuInit", offsetof(struct cuda_driver, init) },
	{ "cuGetErrorName", offsetof(struct cuda_driver, get_error_name) },
	{ "cuGetErrorString", offsetof(struct cuda_driver, get_error_string) },
	{ "cuDriverGetVersion", offsetof(struct cuda_driver, driver_get_version) },
	{ "cuDeviceGetCount", offsetof(struct cuda_driver, device_get_count) },
	{ "cuDeviceGet", offsetof(struct cuda_driver, device_get) },
	{ "cuDeviceGetName", offsetof(struct cuda_driver, device_get_name) },
	{ "cuDeviceGetUuid", offsetof(struct cuda_driver, device_get_uuid) },
	{ "cuDeviceGetPCIBusId", offsetof(struct cuda_driver, device_get_pci_bus_id) },
	{ "cuDeviceTotalMem_v2", offsetof(struct cuda_driver, device_total_mem) },
	{ "cuDeviceGetAttribute", offsetof(struct cuda_driver, device_get_attribute) },
	{ "cuDeviceCanAccessPeer", offsetof(struct cuda_driver, device_can_access_peer) },
	{ "cuDevicePrimaryCtxRetain", offsetof(struct cuda_driver, primary_retain) },
	{ "cuDevicePrimaryCtxRelease_v2", offsetof(struct cuda_driver, primary_release) },
	{ "cuCtxGetCurrent", offsetof(struct cuda_driver, context_get_current) },
	{ "cuCtxPushCurrent_v2", offsetof(struct cuda_driver, context_push) },
	{ "cuCtxPopCurrent_v2", offsetof(struct cuda_driver, context_pop) },
	{ "cuCtxGetDevice", offsetof(struct cuda_driver, context_get_device) },
	{ "cuCtxEnablePeerAccess", offsetof(struct cuda_driver, context_enable_peer) },
	{ "cuMemAlloc_v2", offsetof(struct cuda_driver, mem_alloc) },
	{ "cuMemFree_v2", offsetof(struct cuda_driver, mem_free) },
	{ "cuMemGetAddressRange_v2", offsetof(struct cuda_driver, mem_get_range) },
	{ "cuMemHostAlloc", offsetof(struct cuda_driver, mem_host_alloc) },
	{ "cuMemFreeHost", offsetof(struct cuda_driver, mem_host_free) },
	{ "cuMemcpyAsync", offsetof(struct cuda_driver, mem_copy) },
	{ "cuMemsetD8Async", offsetof(struct cuda_driver, mem_set) },
	{ "cuPointerGetAttributes", offsetof(struct cuda_driver, pointer_get_attributes) },
	{ "cuIpcGetMemHandle", offsetof(struct cuda_driver, ipc_get) },
	{ "cuIpcOpenMemHandle_v2", offsetof(struct cuda_driver, ipc_open) },
	{ "cuIpcCloseMemHandle", offsetof(struct cuda_driver, ipc_close) },
	{ "cuStreamCreate", offsetof(struct cuda_driver, stream_create) },
	{ "cuStreamCreateWithPriority", offsetof(struct cuda_driver, stream_create_urgent) },
	{ "cuCtxGetStreamPriorityRange", offsetof(struct cuda_driver, context_get_priorities) },
	{ "cuThreadExchangeStreamCaptureMode", offsetof(struct cuda_driver, thread_capture_mode) },
	{ "cuStreamDestroy_v2", offsetof(struct cuda_driver, stream_destroy) },
	{ "cuStreamSynchronize", offsetof(struct cuda_driver, stream_synchronize) },
	{ "cuStreamQuery", offsetof(struct cuda_driver, stream_query) },
	{ "cuStreamGetCtx", offsetof(struct cuda_driver, stream_get_context) },
	{ "cuStreamIsCapturing", offsetof(struct cuda_driver, stream_is_capturing) },
	{ "cuStreamWaitEvent", offsetof(struct cuda_driver, stream_wait_event) },
	{ "cuStreamBatchMemOp_v2", offsetof(struct cuda_driver, stream_mem_ops) },
	{ "cuEventCreate", offsetof(struct cuda_driver, event_create) },
	{ "cuEventDestroy_v2", offsetof(struct cuda_driver, event_destroy) },
	{ "cuEventRecord", offsetof(struct cuda_driver, event_record) },
	{ "cuEventQuery", offsetof(struct cuda_driver, event_query) },
	{ "cuModuleLoadData", offsetof(struct cuda_driver, module_load) },
	{ "cuModuleUnload", offsetof(struct cuda_driver, module_unload) },
	{ "cuModuleGetFunction", offsetof(struct cuda_driver, module_get_function) },
	{ "cuFuncGetAttribute", offsetof(struct cuda_driver, function_get_attribute) },
	{ "cuLaunchKernel", offsetof(struct cuda_driver, launch) },
};

static const struct tt_library library = {
	.variable = "TUTTI_CUDA_LIBRARY",
	.names = { "libcuda.so.1" },
	.before = "CUDA's driver cannot be opened: ",
	.after = ": NVIDIA's driver brings it, and into containers docker run --gpus all",
	.expected = "the driver of CUDA 12 or newer",
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

static struct {
	pthread_mutex_t lock;
	struct cuda_driver driver;
	bool open, started;
} cuda = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* It stays open, as programs may use it, too. */
static void note_open(void)
{
	cuda.open = true;
	atomic_store_explicit(&tt_device_is_there, true,
			      memory_order_release); /* pairs with the acquire in
						      * tt_cuda_opened() */
	tt_log(DEBUG, CUDA, "%s is CUDA's driver", tt_library_name(&library));
}

static tutti_result_t open_library(void)
{
	char why[TT_LIBRARY_WHY];

	if (!tt_library_open(&library, &cuda.driver, why))
		return tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA, "%s", why);
	note_open();
	return TUTTI_OK;
}

void tt_cuda_probe(void)
{
	if (tt_cuda_opened() ||
	    pthread_mutex_trylock(&cuda.lock) !=
		    0) /* somebody is opening it; or was when this process was forked */
		return;
	if (!cuda.open && tt_library_find(&library, &cuda.driver))
		note_open();
	pthread_mutex_unlock(&cuda.lock);
}

const struct cuda_driver *tt_cuda_opened(void)
{
	/* acquire: pairs with the release in note_open() */
	return atomic_load_explicit(&tt_device_is_there, memory_order_acquire) ? &cuda.driver
									       : NULL;
}

static tutti_result_t start(void)
{
	const cuda_result error = cuda.driver.init(0);

	cuda.started = error == 0;
	if (error == CUDA_NO_DEVICE)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"CUDA has no GPU for this process: there is none, or CUDA_VISIBLE_DEVICES or the container leaves it out");
	return error ? tt_cuda_fail(&cuda.driver, "start CUDA's driver", error) : TUTTI_OK;
}

tutti_result_t tt_cuda_driver(const struct cuda_driver **out)
{
	tutti_result_t result = TUTTI_OK;

	pthread_mutex_lock(&cuda.lock);
	if (!cuda.open)
		result = open_library();
	if (!result && !cuda.started)
		result = start();
	pthread_mutex_unlock(&cuda.lock);
	*out = result ? NULL : &cuda.driver;
	return result;
}

tutti_result_t tt_cuda_fail(const struct cuda_driver *driver, const char *what, cuda_result error)
{
	const char *name = NULL, *text = NULL;

	/* of an error that it does not know the driver leaves them as they are, or sets NULL */
	driver->get_error_name(error, &name);
	driver->get_error_string(error, &text);
	return tt_fail(TUTTI_ERR_SYSTEM, CUDA, "%s: %s (%s, %u)", what,
		       text ? text : "an error that this driver has no text for",
		       name ? name : "no name", error);
}
