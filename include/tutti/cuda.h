/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What tutti does with CUDA: the GPUs of a process, and collectives on their memory in the order
 * of a stream. This header and the library need nothing of CUDA's to be built or linked: the
 * driver's library is opened when one of these functions is called.
 */
#ifndef TUTTI_CUDA_H
#define TUTTI_CUDA_H

#include <stddef.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A GPU, as CUDA's driver shows it to this process (CUDA_VISIBLE_DEVICES counts). What it points
 * to is valid during the call that shows it. */
typedef struct tutti_cuda_device {
	int number;	     /**< as cudaSetDevice() takes it, from 0 */
	const char *name;    /**< such as "NVIDIA H200" */
	const char *pci;     /**< where it is: "0000:17:00.0" */
	const char *uuid;    /**< "GPU-" and 32 hexadecimal digits in groups, the same in all
			      * processes */
	int cuda_version;    /**< the newest CUDA that the driver has, 13000 for 13.0 */
	int major;	     /**< compute capability: before the point */
	int minor;	     /**< and behind it */
	int multiprocessors; /**< how many */
	size_t memory_bytes; /**< of the GPU, in all */
	int shared; /**< 1: several processes may use it; 0: its compute mode forbids that */
	int dmabuf; /**< 1: its memory can be exported as dma-bufs, which RDMA devices can
		     * register; else 0 */
	unsigned long long peers; /**< as bits, the numbers of the GPUs whose memory it reaches
				   * directly */
} tutti_cuda_device_t;

/** Is shown one GPU after the other. */
typedef void (*tutti_cuda_device_fn_t)(const tutti_cuda_device_t *device, void *context);

/**
 * Show `each` every GPU that CUDA has for this process, by number. The first call of a process
 * starts CUDA's driver, which may take a second. Any thread; needs no communicator.
 * TUTTI_ERR_UNSUPPORTED: there is no driver, or no GPU for this process, and none was shown;
 * TUTTI_ERR_SYSTEM: the driver failed, those shown before are good. tutti_last_error(NULL) says
 * why, with CUDA's text.
 */
TUTTI_API tutti_result_t tutti_cuda_devices(tutti_cuda_device_fn_t each, void *context);

/* ---------------------------------------------------------------- collectives on streams */

/** A `cudaStream_t` or `CUstream`; NULL is the legacy default stream, also in programs that are
 * compiled with default streams of their own for each thread: those pass cudaStreamPerThread. */
typedef struct CUstream_st *tutti_cuda_stream_t;
typedef struct tutti_cuda_window *tutti_cuda_window_t; /**< memory that all ranks have registered */

/**
 * Bind the communicator to GPU `device` of this process, numbered as cudaSetDevice() does it,
 * -1: the one that is current. All ranks call, each with a device of its own or with one that
 * others have, too; a communicator is bound once. After that the functions below can be called
 * on it, and the plain ones as before. Blocks, as the ranks exchange handles of 36 MiB of memory
 * on the GPU each, and 1 MiB more for each peer; that may wait for all that runs on the GPU, so
 * nothing there should wait for another rank meanwhile.
 *
 * Where GPUs cannot reach each other (ranks on several hosts or more than 32, no peer access, no
 * CUDA IPC as in some containers, processes that share a GPU without NVIDIA's MPS, a library
 * without kernels for the GPU), operations go through pinned memory and the plain collectives;
 * long ones are first combined on those GPUs of a host that can (docs/reference/gpu.md). Where
 * that is for another reason than that there are several hosts, rank 0 warns of it and says why.
 *
 * TUTTI_ERR_INVALID: no such device, bound already, or this thread has a group open on it;
 * nothing was sent, the other ranks wait until their deadline. TUTTI_ERR_UNSUPPORTED: a rank has
 * no driver or no GPU; TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM: these three on all ranks, with the
 * error message of the lowest one that failed. The communicator is as before, and not bound.
 */
TUTTI_API tutti_result_t tutti_cuda_bind(tutti_comm_t comm, int device);
/** The number of the GPU to which the communicator is bound, -1 where it is not. */
TUTTI_API int tutti_cuda_bound(tutti_comm_t comm);

/**
 * @name Collectives, sends and receives in the order of a stream
 *
 * As the functions of tutti.h without `cuda_`, but that they return as soon as CUDA has taken
 * what they put on the stream (32 MiB at a time, of messages 1 MiB): the operation is there,
 * behind what is there, and what comes to the stream later comes after it. Buffers are memory of
 * the communicator's GPU or managed memory; they are used when the stream comes to the
 * operation. Tables of counts are copied by the call. A communicator's operations on streams
 * follow each other in the order of the calls, whatever their streams; that order, and the
 * arguments, must be the same on all ranks. The plain calls of the communicator have an order of
 * their own. In a group (tutti_group_begin()) the calls are put on their streams by
 * tutti_group_end(), sends and receives together: none waits for another, where each has 1 MiB
 * at most or the peers call theirs in one group as well (longer ones take turns, chunk by chunk:
 * a peer that waits for a third rank between two of its calls would hold up all); these must
 * have one stream. Sends and receives without a group may wait for their peers' when they have
 * more than 1 MiB, or go through pinned memory.
 *
 * Operations of different communicators on different streams come in any order on the GPU: let
 * them come in the same order on all ranks (one stream, or events), or they may wait for each
 * other for ever. Ranks that are threads of one process and share a GPU need streams of their
 * own: the default stream (NULL) would be one for all of them.
 *
 * The thread's current device must be the communicator's, or none. Results, on the host: 0, the
 * call is on the stream. TUTTI_ERR_INVALID and TUTTI_ERR_UNSUPPORTED: nothing was put there, and
 * tutti_last_error() says why (such as a pointer or a stream of another device). Any other ends the
 * communicator. A fault that occurs while the operation runs (ranks that called different
 * operations, a rank that was lost, a deadline, be it that of tutti_next_call(), which counts from
 * when the stream came to wait for other ranks, anew for each such wait of a long operation and
 * each launch of a graph) is told by the next call and by tutti_comm_error(); streams that waited
 * go on, what they wrote is undefined, and nothing hangs. (A rank that is a thread of the same
 * process, or has this one's window, may read the input and write into the result until its own
 * stream has ended: free neither before.) Where GPUs of several cliques work together
 * (docs/reference/gpu.md), a rank that stops in the middle of an operation is told after up to 1.75
 * times the deadline. A caller that has waited for the stream's end
 * (cudaStreamSynchronize()) learns at once that ranks called different collectives there, unless
 * it only sends (as the root of a broadcast) through pinned memory. Where ranks are reached by a
 * network, the next call waits until all know, and tutti_comm_error() does not.
 *
 * A stream that is being captured records the operation in its graph, which may be launched any
 * number of times, by all ranks alike. It is ordered after what its own stream had before;
 * against other operations of the communicator the caller has to order it. The communicator has
 * to outlive the graph, and streams where it was launched are to be synchronized before
 * tutti_comm_destroy(), also after a fault.
 *
 * Operations made by tutti_op_create() run on the host only: TUTTI_ERR_UNSUPPORTED, after which
 * the communicator is as before.
 * @{
 */
/** tutti_broadcast() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_broadcast(tutti_comm_t comm, const void *send, void *recv,
					      size_t count, tutti_dtype_t dtype, int root,
					      tutti_cuda_stream_t stream);
/** tutti_reduce() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_reduce(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, tutti_op_t op,
					   int root, tutti_cuda_stream_t stream);
/** tutti_all_reduce() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_all_reduce(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype, tutti_op_t op,
					       tutti_cuda_stream_t stream);
/** tutti_reduce_scatter() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_reduce_scatter(tutti_comm_t comm, const void *send, void *recv,
						   size_t count, tutti_dtype_t dtype, tutti_op_t op,
						   tutti_cuda_stream_t stream);
/** tutti_all_gather() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_all_gather(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype,
					       tutti_cuda_stream_t stream);
/** tutti_gather() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_gather(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, int root,
					   tutti_cuda_stream_t stream);
/** tutti_scatter() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_scatter(tutti_comm_t comm, const void *send, void *recv,
					    size_t count, tutti_dtype_t dtype, int root,
					    tutti_cuda_stream_t stream);
/** tutti_all_to_all() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_all_to_all(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype,
					       tutti_cuda_stream_t stream);
/** tutti_reduce_scatter_v() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_reduce_scatter_v(tutti_comm_t comm, const void *send,
						     void *recv, const size_t *counts,
						     tutti_dtype_t dtype, tutti_op_t op,
						     tutti_cuda_stream_t stream);
/** tutti_all_gather_v() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
						 const size_t *counts, const size_t *displs,
						 tutti_dtype_t dtype, tutti_cuda_stream_t stream);
/** tutti_gather_v() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_gather_v(tutti_comm_t comm, const void *send, size_t send_count,
					     void *recv, const size_t *counts, const size_t *displs,
					     tutti_dtype_t dtype, int root,
					     tutti_cuda_stream_t stream);
/** tutti_scatter_v() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_scatter_v(tutti_comm_t comm, const void *send,
					      const size_t *counts, const size_t *displs,
					      void *recv, size_t recv_count, tutti_dtype_t dtype,
					      int root, tutti_cuda_stream_t stream);
/** tutti_all_to_all_v() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_all_to_all_v(tutti_comm_t comm, const void *send,
						 const size_t *send_counts,
						 const size_t *send_displs, void *recv,
						 const size_t *recv_counts,
						 const size_t *recv_displs, tutti_dtype_t dtype,
						 tutti_cuda_stream_t stream);
/** tutti_scan() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_scan(tutti_comm_t comm, const void *send, void *recv,
					 size_t count, tutti_dtype_t dtype, tutti_op_t op,
					 tutti_cuda_stream_t stream);
/** tutti_exscan() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_exscan(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, tutti_op_t op,
					   tutti_cuda_stream_t stream);
/** tutti_barrier() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_barrier(tutti_comm_t comm, tutti_cuda_stream_t stream);
/** tutti_send() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_send(tutti_comm_t comm, const void *send, size_t count,
					 tutti_dtype_t dtype, int peer, tutti_cuda_stream_t stream);
/** tutti_recv() in the order of `stream`. */
TUTTI_API tutti_result_t tutti_cuda_recv(tutti_comm_t comm, void *recv, size_t count,
					 tutti_dtype_t dtype, int peer, tutti_cuda_stream_t stream);
/** @} */

/**
 * Memory of the current GPU that peers can map, as tutti_cuda_register() needs it (cudaMalloc()
 * gives such, too). TUTTI_ERR_NO_MEMORY: there is not so much. tutti_cuda_mem_free() frees it;
 * windows on it must be gone.
 */
TUTTI_API tutti_result_t tutti_cuda_mem_alloc(size_t bytes, void **memory);
/** Free memory of tutti_cuda_mem_alloc(); NULL is fine. */
TUTTI_API void tutti_cuda_mem_free(void *memory);

/**
 * Make `bytes` at `memory` of each rank's GPU a window: collectives whose buffers all lie in
 * windows, at the same place of the same window on every rank, are done without copies in
 * between. (Between threads of one process most are so anyway.) All ranks call, in the same order,
 * with the same size. The memory is of cudaMalloc()
 * or tutti_cuda_mem_alloc(), or mapped by cuMemMap() from allocations that have POSIX file
 * descriptors. It stays until tutti_cuda_deregister(), which all ranks call, too, when no operation
 * uses the window any more; tutti_comm_destroy() does it for what is left. If ranks differ in
 * whether their buffers are in windows, or where, they get TUTTI_ERR_MISMATCH. Both are refused
 * with TUTTI_ERR_INVALID while this thread has a group open on the communicator. Errors as of
 * tutti_cuda_bind(); also TUTTI_ERR_INVALID: sizes differ, or the memory ends before; and
 * TUTTI_ERR_SYSTEM: the memory cannot be shared. After either nothing has changed.
 */
TUTTI_API tutti_result_t tutti_cuda_register(tutti_comm_t comm, void *memory, size_t bytes,
					     tutti_cuda_window_t *window);
/** End a window of tutti_cuda_register(); all ranks call it. */
TUTTI_API tutti_result_t tutti_cuda_deregister(tutti_cuda_window_t window);

#ifdef __cplusplus
}
#endif
#endif
