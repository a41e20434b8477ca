/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of CUDA's driver API that is used, opened at run time: the same library runs on
 * machines without it. The driver's library alone, and not the runtime's (libcudart): it is
 * there wherever a GPU can be used, its interface does not change from version to version, and
 * what it makes, the runtime's users can use. Declared here, as <cuda.h> does, so that CUDA need
 * not be there to build either; tests/cuda/abi.c compares the two where it is. */
#ifndef TT_CUDA_DRIVER_H
#define TT_CUDA_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

typedef unsigned cuda_result; /* CUresult, an enum, and as such compatible with this; 0: success */
typedef int cuda_device;      /* CUdevice */
typedef unsigned long long cuda_address; /* CUdeviceptr: with unified addressing a pointer like
					  * any other */
struct CUuuid_st;			 /* of 16 bytes */
struct CUctx_st;			 /* CUcontext points to one … */
struct CUstream_st;			 /* … CUstream, which cudaStream_t is … */
struct CUevent_st;			 /* … CUevent … */
struct CUmod_st;			 /* … CUmodule … */
struct CUfunc_st;			 /* … and CUfunction */
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
	CUDA_UNIFIED_ADDRESSING = 41,
	CUDA_CAPABILITY_MAJOR = 75,
	CUDA_CAPABILITY_MINOR = 76,
	CUDA_STREAM_OPS_64_BIT = 122, /* stream memory operations on 64 bits */
	CUDA_STREAM_OPS_FLUSH = 98,   /* waits may flush what other devices wrote */
	CUDA_DMA_BUF = 124,	      /* CUDA 11.7 */
};
enum { CUDA_MODE_DEFAULT = 0 }; /* CUcomputemode: any number of processes */
enum {
	CUDA_POINTER_MEMORY_TYPE = 2,
	CUDA_POINTER_IS_MANAGED = 8,
	CUDA_POINTER_DEVICE = 9
}; /* CUpointer_attribute */
enum {
	CUDA_MEMORY_HOST = 1,
	CUDA_MEMORY_DEVICE = 2
}; /* CUmemorytype; 0: CUDA does not know the pointer */
enum {
	CUDA_MEM_OP_WRITE_32 = 2,
	CUDA_MEM_OP_WAIT_64 = 4,
	CUDA_MEM_OP_WRITE_64 = 5
}; /* CUstreamBatchMemOpType */
enum {
	CUDA_WAIT_AT_LEAST = 0,
	CUDA_WAIT_EQUAL = 1,
	CUDA_WAIT_FLUSH = 1 << 30
}; /* CUstreamWaitValue_flags */
enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_EVENT_NO_TIMING = 2 };
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_MAPPED = 2 }; /* of mem_host_alloc() */
enum { CUDA_IPC_LAZY_PEER_ACCESS = 1 };
enum {
	CUDA_CAPTURE_NONE = 0,
	CUDA_CAPTURE_ACTIVE = 1,
	CUDA_CAPTURE_INVALIDATED = 2
};				    /* CUstreamCaptureStatus */
enum { CUDA_CAPTURE_RELAXED = 2 };  /* CUstreamCaptureMode */
enum { CUDA_FUNCTION_THREADS = 0 }; /* CUfunction_attribute */

/* CUDA's IPC shares whole blocks of memory: what is shorter lies in one with other allocations,
 * which are shared with it, and two of one block are opened as one (CUDA C++ Programming Guide,
 * "Interprocess Communication"). */
#define CUDA_BLOCK ((size_t)2 << 20)

static inline size_t cuda_whole_blocks(size_t bytes)
{
	return (bytes + CUDA_BLOCK - 1) / CUDA_BLOCK * CUDA_BLOCK;
}

struct cuda_driver {
	cuda_result (*init)(unsigned flags);
	cuda_result (*get_error_name)(cuda_result error, const char **name);
	cuda_result (*get_error_string)(cuda_result error, const char **text);
	cuda_result (*driver_get_version)(int *version);
	cuda_result (*device_get_count)(int *count);
	cuda_result (*device_get)(cuda_device *device, int number);
	cuda_result (*device_get_name)(char *name, int room, cuda_device device);
	cuda_result (*device_get_uuid)(struct CUuuid_st *uuid, cuda_device device);
	cuda_result (*device_get_pci_bus_id)(char *id, int room, cuda_device device);
	cuda_result (*device_total_mem)(size_t *bytes, cuda_device device);
	cuda_result (*device_get_attribute)(int *value, unsigned attribute, cuda_device device);
	cuda_result (*device_can_access_peer)(int *can, cuda_device device, cuda_device peer);

	cuda_result (*primary_retain)(struct CUctx_st **context, cuda_device device);
	cuda_result (*primary_release)(cuda_device device);
	cuda_result (*context_get_current)(struct CUctx_st **context);
	cuda_result (*context_push)(struct CUctx_st *context);
	cuda_result (*context_pop)(struct CUctx_st **context);
	cuda_result (*context_get_device)(cuda_device *device);
	cuda_result (*context_enable_peer)(struct CUctx_st *peer, unsigned flags);

	cuda_result (*mem_alloc)(cuda_address *memory, size_t bytes);
	cuda_result (*mem_free)(cuda_address memory);
	cuda_result (*mem_get_range)(cuda_address *base, size_t *bytes, cuda_address inside);
	cuda_result (*mem_host_alloc)(void **memory, size_t bytes, unsigned flags);
	cuda_result (*mem_host_free)(void *memory);
	cuda_result (*mem_copy)(cuda_address dst, cuda_address src, size_t bytes,
				struct CUstream_st *stream);
	cuda_result (*mem_set)(cuda_address dst, unsigned char byte, size_t bytes,
			       struct CUstream_st *stream);
	cuda_result (*pointer_get_attributes)(unsigned n, unsigned *attributes, void **values,
					      cuda_address pointer);
	cuda_result (*ipc_get)(struct CUipcMemHandle_st *handle, cuda_address memory);
	cuda_result (*ipc_open)(cuda_address *memory, struct CUipcMemHandle_st handle,
				unsigned flags);
	cuda_result (*ipc_close)(cuda_address memory);

	cuda_result (*stream_create)(struct CUstream_st **stream, unsigned flags);
	cuda_result (*stream_create_urgent)(struct CUstream_st **stream, unsigned flags,
					    int priority);
	cuda_result (*context_get_priorities)(int *least, int *greatest);
	cuda_result (*thread_capture_mode)(unsigned *mode);
	cuda_result (*stream_destroy)(struct CUstream_st *stream);
	cuda_result (*stream_synchronize)(struct CUstream_st *stream);
	cuda_result (*stream_query)(struct CUstream_st *stream);
	cuda_result (*stream_get_context)(struct CUstream_st *stream, struct CUctx_st **context);
	cuda_result (*stream_is_capturing)(struct CUstream_st *stream, unsigned *status);
	cuda_result (*stream_wait_event)(struct CUstream_st *stream, struct CUevent_st *event,
					 unsigned flags);
	cuda_result (*stream_mem_ops)(struct CUstream_st *stream, unsigned n,
				      union CUstreamBatchMemOpParams_union *ops, unsigned flags);
	cuda_result (*event_create)(struct CUevent_st **event, unsigned flags);
	cuda_result (*event_destroy)(struct CUevent_st *event);
	cuda_result (*event_record)(struct CUevent_st *event, struct CUstream_st *stream);
	cuda_result (*event_query)(struct CUevent_st *event);

	cuda_result (*module_load)(struct CUmod_st **module, const void *image);
	cuda_result (*module_unload)(struct CUmod_st *module);
	cuda_result (*module_get_function)(struct CUfunc_st **function, struct CUmod_st *module,
					   const char *name);
	cuda_result (*function_get_attribute)(int *value, unsigned attribute,
					      struct CUfunc_st *function);
	cuda_result (*launch)(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y,
			      unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
			      unsigned shared_bytes, struct CUstream_st *stream, void **parameters,
			      void **extra);
};

/* Opened and started. TUTTI_ERR_UNSUPPORTED: it is not there, is too old, or has no GPU for this
 * process; TUTTI_ERR_SYSTEM: it could not be started. What failed is tried again by the next
 * call. Any thread. */
tutti_result_t tt_cuda_driver(const struct cuda_driver **out);

/* Take notice of a driver that the program has loaded; says nothing if there is none. Does not
 * start it. */
void tt_cuda_probe(void);
/* The driver as it is, opened, but perhaps not started; NULL: not opened. */
const struct cuda_driver *tt_cuda_opened(void);

/* The error message "WHAT: CUDA's text (CUDA's name)" and TUTTI_ERR_SYSTEM. */
tutti_result_t tt_cuda_fail(const struct cuda_driver *driver, const char *what, cuda_result error);

#endif
