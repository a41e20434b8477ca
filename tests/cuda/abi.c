/* SPDX-License-Identifier: BSD-3-Clause */
/* What src/device/cuda/driver.h declares is what CUDA's own header does: compiled, not run. */
#include <cuda.h>
#include <stddef.h>

#include "cuda/driver.h"

#define SAME(member, function)                                                                     \
	_Static_assert(__builtin_types_compatible_p(__typeof__(((struct cuda_driver *)0)->member), \
						    __typeof__(&function)),                        \
		       #function " is declared otherwise")

SAME(init, cuInit);
SAME(get_error_name, cuGetErrorName);
SAME(get_error_string, cuGetErrorString);
SAME(driver_get_version, cuDriverGetVersion);
SAME(device_get_count, cuDeviceGetCount);
SAME(device_get, cuDeviceGet);
SAME(device_get_name, cuDeviceGetName);
SAME(device_get_uuid, cuDeviceGetUuid);
SAME(device_get_pci_bus_id, cuDeviceGetPCIBusId);
SAME(device_total_mem, cuDeviceTotalMem);
SAME(device_get_attribute, cuDeviceGetAttribute);
SAME(device_can_access_peer, cuDeviceCanAccessPeer);
SAME(primary_retain, cuDevicePrimaryCtxRetain);
SAME(primary_release, cuDevicePrimaryCtxRelease);
SAME(context_get_current, cuCtxGetCurrent);
SAME(context_push, cuCtxPushCurrent);
SAME(context_pop, cuCtxPopCurrent);
SAME(context_get_device, cuCtxGetDevice);
SAME(context_enable_peer, cuCtxEnablePeerAccess);
SAME(mem_alloc, cuMemAlloc);
SAME(mem_free, cuMemFree);
SAME(mem_get_range, cuMemGetAddressRange);
SAME(mem_host_alloc, cuMemHostAlloc);
SAME(mem_host_free, cuMemFreeHost);
SAME(mem_copy, cuMemcpyAsync);
SAME(mem_set, cuMemsetD8Async);
SAME(pointer_get_attributes, cuPointerGetAttributes);
SAME(ipc_get, cuIpcGetMemHandle);
SAME(ipc_open, cuIpcOpenMemHandle);
SAME(ipc_close, cuIpcCloseMemHandle);
SAME(stream_create, cuStreamCreate);
SAME(stream_create_urgent, cuStreamCreateWithPriority);
SAME(context_get_priorities, cuCtxGetStreamPriorityRange);
SAME(thread_capture_mode, cuThreadExchangeStreamCaptureMode);
SAME(stream_destroy, cuStreamDestroy);
SAME(stream_synchronize, cuStreamSynchronize);
SAME(stream_query, cuStreamQuery);
SAME(stream_get_context, cuStreamGetCtx);
SAME(stream_is_capturing, cuStreamIsCapturing);
SAME(stream_wait_event, cuStreamWaitEvent);
SAME(stream_mem_ops, cuStreamBatchMemOp);
SAME(event_create, cuEventCreate);
SAME(event_destroy, cuEventDestroy);
SAME(event_record, cuEventRecord);
SAME(event_query, cuEventQuery);
SAME(module_load, cuModuleLoadData);
SAME(module_unload, cuModuleUnload);
SAME(module_get_function, cuModuleGetFunction);
SAME(function_get_attribute, cuFuncGetAttribute);
SAME(launch, cuLaunchKernel);
_Static_assert(sizeof(struct CUuuid_st) == CUDA_UUID_BYTES, "CUuuid has another size");
_Static_assert(sizeof(CUipcMemHandle) == 64, "CUipcMemHandle has another size");
_Static_assert(sizeof(CUstreamBatchMemOpParams) == 48 &&
		       offsetof(CUstreamBatchMemOpParams, waitValue.address) == 8 &&
		       offsetof(CUstreamBatchMemOpParams, waitValue.value64) == 16 &&
		       offsetof(CUstreamBatchMemOpParams, waitValue.flags) == 24 &&
		       offsetof(CUstreamBatchMemOpParams, writeValue.address) == 8 &&
		       offsetof(CUstreamBatchMemOpParams, writeValue.value64) == 16 &&
		       offsetof(CUstreamBatchMemOpParams, writeValue.flags) == 24,
	       "CUstreamBatchMemOpParams is laid out otherwise");

#define EQUAL(ours, theirs) _Static_assert((int)ours == (int)theirs, #theirs " has another value")

EQUAL(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
EQUAL(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
EQUAL(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
EQUAL(CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
EQUAL(CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
EQUAL(CUDA_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
EQUAL(CUDA_CAPTURE_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);
EQUAL(CUDA_STREAM_OPS_FLUSH, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
EQUAL(CUDA_WAIT_FLUSH, CU_STREAM_WAIT_VALUE_FLUSH);
EQUAL(CUDA_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
EQUAL(CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
EQUAL(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
EQUAL(CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
EQUAL(CUDA_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
EQUAL(CUDA_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
EQUAL(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
EQUAL(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
EQUAL(CUDA_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
EQUAL(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
EQUAL(CUDA_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
EQUAL(CUDA_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
EQUAL(CUDA_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
EQUAL(CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
EQUAL(CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
EQUAL(CUDA_STREAM_OPS_64_BIT, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
EQUAL(CUDA_DMA_BUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
EQUAL(CUDA_MODE_DEFAULT, CU_COMPUTEMODE_DEFAULT);
EQUAL(CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
EQUAL(CUDA_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
EQUAL(CUDA_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
EQUAL(CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
EQUAL(CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
EQUAL(CUDA_MEM_OP_WAIT_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
EQUAL(CUDA_MEM_OP_WRITE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
EQUAL(CUDA_WAIT_AT_LEAST, CU_STREAM_WAIT_VALUE_GEQ);
EQUAL(CUDA_WAIT_EQUAL, CU_STREAM_WAIT_VALUE_EQ);
EQUAL(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
EQUAL(CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
EQUAL(CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
EQUAL(CUDA_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
EQUAL(CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
EQUAL(CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
EQUAL(CUDA_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
EQUAL(CUDA_FUNCTION_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
