/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of CUDA's driver API that is used, opened at run time: the same library and programs run
 * on machines without it. The driver's library alone, and not the runtime's (libcudart): it is
 * there wherever a GPU can be used, its interface does not change from version to version, and
 * what it makes, the runtime's users can use. Declared here, as <cuda.h> does, so that CUDA need
 * not be there to build either; tests/cuda/abi.c compares the two where it is. */
#ifndef TT_CUDA_FUNCTIONS_H
#define TT_CUDA_FUNCTIONS_H

#include <stddef.h>

#include "library.h"

typedef unsigned cuda_result; /* CUresult, an enum, and as such compatible with this; 0: success */
typedef int cuda_device;      /* CUdevice */
typedef unsigned long long cuda_allocation; /* CUmemGenericAllocationHandle */
typedef unsigned long long cuda_address;    /* CUdeviceptr: with unified addressing a pointer like
					  * any other */
struct CUuuid_st;			    /* of 16 bytes */
struct CUctx_st;			    /* CUcontext points to one … */
struct CUstream_st;			    /* … CUstream, which cudaStream_t is … */
struct CUevent_st;			    /* … CUevent … */
struct CUmod_st;			    /* … CUmodule … */
struct CUfunc_st;			    /* … CUfunction … */
struct CUgraph_st;			    /* … CUgraph … */
struct CUgraphExec_st;			    /* … and CUgraphExec */
#define CUDA_UUID_BYTES 16

#ifndef CUDA_VERSION /* <cuda.h> is not included */
struct CUipcMemHandle_st {
	char reserved[64];
};
union CUstreamBatchMemOpParams_union {
	unsigned operation;
	struct {
		unsigned operation;
		cuda_address address;
		unsigned long long value64;
		unsigned flags;
		cuda_address alias; /* the driver's own */
	} waitValue;
	struct {
		unsigned operation;
		cuda_address address;
		unsigned long long value64;
		unsigned flags;
		cuda_address alias;
	} writeValue;
	unsigned long long pad[6];
};
struct CUmemLocation_st {
	int type; /* CUDA_LOCATION_DEVICE */
	int id;
};
struct CUmemAllocationProp_st {
	int type;		       /* CUDA_ALLOCATION_PINNED */
	unsigned requestedHandleTypes; /* CUDA_HANDLE_DESCRIPTOR, … */
	struct CUmemLocation_st location;
	void *win32HandleMetaData;
	unsigned char allocFlags[8];
};
struct CUmulticastObjectProp_st {
	unsigned numDevices;
	size_t size;
	unsigned long long handleTypes, flags;
};
struct CUmemAccessDesc_st {
	struct CUmemLocation_st location;
	int flags; /* CUDA_ACCESS_READ_WRITE */
};
#endif

/* CUresult */
enum {
	CUDA_INVALID_VALUE = 1,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_NOT_INITIALIZED = 3,
	CUDA_DEINITIALIZED = 4,
	CUDA_STUB_LIBRARY = 34, /* it stands in for the driver when programs are linked */
	CUDA_NO_DEVICE = 100,
	CUDA_INVALID_CONTEXT = 201,
	CUDA_NO_BINARY_FOR_GPU = 209,
	CUDA_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_NOT_FOUND = 500,
	CUDA_NOT_READY = 600,
	CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_NOT_SUPPORTED = 801,
	CUDA_CAPTURE_UNSUPPORTED = 900,	   /* from here … */
	CUDA_CAPTURE_CAPTURED_EVENT = 907, /* … to here: a stream is being captured */
};

/* CUdevice_attribute */
enum {
	CUDA_MULTIPROCESSORS = 16,
	CUDA_COMPUTE_MODE = 20,
	CUDA_CAPABILITY_MAJOR = 75,
	CUDA_CAPABILITY_MINOR = 76,
	CUDA_DMA_BUF = 124,   /* CUDA 11.7 */
	CUDA_MULTICAST = 132, /* by the switch between GPUs */
	CUDA_MPS = 133,	      /* contexts of several processes run side by side */
};
enum { CUDA_MODE_DEFAULT = 0 }; /* CUcomputemode: any number of processes */
enum {
	CUDA_POINTER_MEMORY_TYPE = 2,
	CUDA_POINTER_IS_MANAGED = 8,
	CUDA_POINTER_DEVICE = 9,
	CUDA_POINTER_IS_IPC_CAPABLE = 10 /* cudaMalloc() has it, and cuMemMap() has not */
};					 /* CUpointer_attribute */
enum {
	CUDA_MEMORY_HOST = 1,
	CUDA_MEMORY_DEVICE = 2
}; /* CUmemorytype; 0: CUDA does not know the pointer */
enum { CUDA_MEM_OP_WAIT_64 = 4, CUDA_MEM_OP_WRITE_64 = 5 }; /* CUstreamBatchMemOpType */
enum { CUDA_WAIT_AT_LEAST = 0 };			    /* CUstreamWaitValue_flags */
enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_EVENT_NO_TIMING = 2 };
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_MAPPED = 2 }; /* of mem_host_alloc() */
enum { CUDA_IPC_LAZY_PEER_ACCESS = 1 };
/* of the virtual memory API: CUmemLocationType, CUmemAllocationType, CUmemAllocationHandleType,
 * CUmemAccess_flags, CUmemAllocationGranularity_flags */
enum { CUDA_LOCATION_DEVICE = 1 };
enum { CUDA_ALLOCATION_PINNED = 1 };
enum { CUDA_HANDLE_DESCRIPTOR = 1 };
enum { CUDA_ACCESS_READ_WRITE = 3 };
enum { CUDA_GRANULARITY_MINIMUM = 0 };
enum {
	CUDA_CAPTURE_NONE = 0,
	CUDA_CAPTURE_ACTIVE = 1,
	CUDA_CAPTURE_INVALIDATED = 2
};								   /* CUstreamCaptureStatus */
enum { CUDA_CAPTURE_THREAD_LOCAL = 1, CUDA_CAPTURE_RELAXED = 2 };  /* CUstreamCaptureMode */
enum { CUDA_MANAGED_GLOBAL = 1 };				   /* CUmemAttach_flags */
enum { CUDA_FUNCTION_THREADS = 0, CUDA_FUNCTION_LOCAL_BYTES = 3 }; /* CUfunction_attribute */

/* F(member, symbol, parameters) for each function, all of which the driver of CUDA 12.1 has.
 * clang-format would take the pointers for products. */
/* clang-format off */
#define TT_CUDA_FUNCTIONS(F) \
	F(init, cuInit, (unsigned flags)) \
	F(get_error_name, cuGetErrorName, (cuda_result error, const char **name)) \
	F(get_error_string, cuGetErrorString, (cuda_result error, const char **text)) \
	F(driver_get_version, cuDriverGetVersion, (int *version)) \
	F(device_get_count, cuDeviceGetCount, (int *count)) \
	F(device_get, cuDeviceGet, (cuda_device *device, int number)) \
	F(device_get_name, cuDeviceGetName, (char *name, int room, cuda_device device)) \
	F(device_get_uuid, cuDeviceGetUuid, (struct CUuuid_st *uuid, cuda_device device)) \
	F(device_get_pci_bus_id, cuDeviceGetPCIBusId, (char *id, int room, cuda_device device)) \
	F(device_total_mem, cuDeviceTotalMem_v2, (size_t *bytes, cuda_device device)) \
	F(device_get_attribute, cuDeviceGetAttribute, \
	  (int *value, unsigned attribute, cuda_device device)) \
	F(device_can_access_peer, cuDeviceCanAccessPeer, \
	  (int *can, cuda_device device, cuda_device peer)) \
	F(primary_retain, cuDevicePrimaryCtxRetain, \
	  (struct CUctx_st **context, cuda_device device)) \
	F(primary_release, cuDevicePrimaryCtxRelease_v2, (cuda_device device)) \
	F(context_get_current, cuCtxGetCurrent, (struct CUctx_st **context)) \
	F(context_set, cuCtxSetCurrent, (struct CUctx_st *context)) \
	F(context_push, cuCtxPushCurrent_v2, (struct CUctx_st *context)) \
	F(context_pop, cuCtxPopCurrent_v2, (struct CUctx_st **context)) \
	F(context_get_device, cuCtxGetDevice, (cuda_device *device)) \
	F(context_enable_peer, cuCtxEnablePeerAccess, (struct CUctx_st *peer, unsigned flags)) \
	F(mem_alloc, cuMemAlloc_v2, (cuda_address *memory, size_t bytes)) \
	F(mem_alloc_managed, cuMemAllocManaged, \
	  (cuda_address *memory, size_t bytes, unsigned flags)) \
	F(mem_free, cuMemFree_v2, (cuda_address memory)) \
	F(mem_get_range, cuMemGetAddressRange_v2, \
	  (cuda_address *base, size_t *bytes, cuda_address inside)) \
	F(mem_host_alloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags)) \
	F(mem_host_free, cuMemFreeHost, (void *memory)) \
	F(mem_host_register, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags)) \
	F(mem_host_unregister, cuMemHostUnregister, (void *memory)) \
	F(mem_copy, cuMemcpyAsync, \
	  (cuda_address dst, cuda_address src, size_t bytes, struct CUstream_st *stream)) \
	F(mem_set, cuMemsetD8Async, \
	  (cuda_address dst, unsigned char byte, size_t bytes, struct CUstream_st *stream)) \
	F(pointer_get_attributes, cuPointerGetAttributes, \
	  (unsigned n, unsigned *attributes, void **values, cuda_address pointer)) \
	F(ipc_get, cuIpcGetMemHandle, (struct CUipcMemHandle_st *handle, cuda_address memory)) \
	F(ipc_open, cuIpcOpenMemHandle_v2, \
	  (cuda_address *memory, struct CUipcMemHandle_st handle, unsigned flags)) \
	F(ipc_close, cuIpcCloseMemHandle, (cuda_address memory)) \
	F(segment_create, cuMemCreate, \
	  (cuda_allocation *allocation, size_t bytes, const struct CUmemAllocationProp_st *wanted, \
	   unsigned long long flags)) \
	F(segment_retain, cuMemRetainAllocationHandle, (cuda_allocation *allocation, void *inside)) \
	F(segment_release, cuMemRelease, (cuda_allocation allocation)) \
	F(segment_properties, cuMemGetAllocationPropertiesFromHandle, \
	  (struct CUmemAllocationProp_st *out, cuda_allocation allocation)) \
	F(segment_granularity, cuMemGetAllocationGranularity, \
	  (size_t *bytes, const struct CUmemAllocationProp_st *wanted, unsigned option)) \
	F(segment_export, cuMemExportToShareableHandle, \
	  (void *handle, cuda_allocation allocation, unsigned type, unsigned long long flags)) \
	F(segment_import, cuMemImportFromShareableHandle, \
	  (cuda_allocation *allocation, void *handle, unsigned type)) \
	F(range_reserve, cuMemAddressReserve, \
	  (cuda_address *range, size_t bytes, size_t alignment, cuda_address wanted, \
	   unsigned long long flags)) \
	F(range_free, cuMemAddressFree, (cuda_address range, size_t bytes)) \
	F(range_map, cuMemMap, \
	  (cuda_address at, size_t bytes, size_t offset, cuda_allocation allocation, \
	   unsigned long long flags)) \
	F(range_unmap, cuMemUnmap, (cuda_address at, size_t bytes)) \
	F(range_set_access, cuMemSetAccess, \
	  (cuda_address range, size_t bytes, const struct CUmemAccessDesc_st *access, size_t n)) \
	F(multicast_create, cuMulticastCreate, \
	  (cuda_allocation *multicast, const struct CUmulticastObjectProp_st *wanted)) \
	F(multicast_granularity, cuMulticastGetGranularity, \
	  (size_t *bytes, const struct CUmulticastObjectProp_st *wanted, unsigned option)) \
	F(multicast_add_device, cuMulticastAddDevice, \
	  (cuda_allocation multicast, cuda_device device)) \
	F(multicast_bind, cuMulticastBindAddr, \
	  (cuda_allocation multicast, size_t offset, cuda_address memory, size_t bytes, \
	   unsigned long long flags)) \
	F(multicast_unbind, cuMulticastUnbind, \
	  (cuda_allocation multicast, cuda_device device, size_t offset, size_t bytes)) \
	F(stream_create, cuStreamCreate, (struct CUstream_st **stream, unsigned flags)) \
	F(stream_create_urgent, cuStreamCreateWithPriority, \
	  (struct CUstream_st **stream, unsigned flags, int priority)) \
	F(context_get_priorities, cuCtxGetStreamPriorityRange, (int *least, int *greatest)) \
	F(thread_capture_mode, cuThreadExchangeStreamCaptureMode, (unsigned *mode)) \
	F(stream_destroy, cuStreamDestroy_v2, (struct CUstream_st *stream)) \
	F(stream_synchronize, cuStreamSynchronize, (struct CUstream_st *stream)) \
	F(stream_query, cuStreamQuery, (struct CUstream_st *stream)) \
	F(stream_get_context, cuStreamGetCtx, \
	  (struct CUstream_st *stream, struct CUctx_st **context)) \
	F(stream_get_id, cuStreamGetId, (struct CUstream_st *stream, unsigned long long *id)) \
	F(stream_is_capturing, cuStreamIsCapturing, \
	  (struct CUstream_st *stream, unsigned *status)) \
	F(stream_wait_event, cuStreamWaitEvent, \
	  (struct CUstream_st *stream, struct CUevent_st *event, unsigned flags)) \
	F(stream_mem_ops, cuStreamBatchMemOp_v2, \
	  (struct CUstream_st *stream, unsigned n, union CUstreamBatchMemOpParams_union *ops, \
	   unsigned flags)) \
	F(stream_begin_capture, cuStreamBeginCapture_v2, \
	  (struct CUstream_st *stream, unsigned mode)) \
	F(stream_end_capture, cuStreamEndCapture, \
	  (struct CUstream_st *stream, struct CUgraph_st **graph)) \
	F(event_create, cuEventCreate, (struct CUevent_st **event, unsigned flags)) \
	F(event_destroy, cuEventDestroy_v2, (struct CUevent_st *event)) \
	F(event_record, cuEventRecord, (struct CUevent_st *event, struct CUstream_st *stream)) \
	F(event_query, cuEventQuery, (struct CUevent_st *event)) \
	F(event_synchronize, cuEventSynchronize, (struct CUevent_st *event)) \
	F(event_elapsed, cuEventElapsedTime, \
	  (float *ms, struct CUevent_st *from, struct CUevent_st *to)) \
	F(graph_instantiate, cuGraphInstantiateWithFlags, \
	  (struct CUgraphExec_st **executable, struct CUgraph_st *graph, \
	   unsigned long long flags)) \
	F(graph_launch, cuGraphLaunch, \
	  (struct CUgraphExec_st *executable, struct CUstream_st *stream)) \
	F(graph_destroy, cuGraphDestroy, (struct CUgraph_st *graph)) \
	F(graph_exec_destroy, cuGraphExecDestroy, (struct CUgraphExec_st *executable)) \
	F(module_load, cuModuleLoadData, (struct CUmod_st **module, const void *image)) \
	F(module_unload, cuModuleUnload, (struct CUmod_st *module)) \
	F(module_get_function, cuModuleGetFunction, \
	  (struct CUfunc_st **function, struct CUmod_st *module, const char *name)) \
	F(function_get_attribute, cuFuncGetAttribute, \
	  (int *value, unsigned attribute, struct CUfunc_st *function)) \
	F(launch, cuLaunchKernel, \
	  (struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
	   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
	   struct CUstream_st *stream, void **parameters, void **extra))
/* clang-format on */

struct cuda_driver {
#define MEMBER(member, symbol, parameters) cuda_result(*member) parameters;
	TT_CUDA_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Opens into a struct cuda_driver. */
extern const struct tt_library tt_cuda_library;

#endif
