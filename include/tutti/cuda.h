/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What tutti does with CUDA. The library needs nothing of CUDA's to be built or linked: the driver's library is opened when one
 * of these functions is called.
 */
#ifndef TUTTI_CUDA_H
#define TUTTI_CUDA_H

#include <stddef.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A GPU, as CUDA's driver shows it to this process (CUDA_VISIBLE_DEVICES counts). What it points to is valid during the call that shows it. */
typedef struct tutti_cuda_device {
	int number;		  /**< as cudaSetDevice() takes it, from 0 */
	const char *name;	  /**< such as "NVIDIA H200" */
	const char *pci;	  /**< where it is: "0000:17:00.0" */
	const char *uuid;	  /**< "GPU-" and 32 hexadecimal digits in groups, the same in all processes */
	int cuda_version;	  /**< the newest CUDA that the driver has, 13000 for 13.0 */
	int major, minor;	  /**< compute capability */
	int multiprocessors;	  /**< how many */
	size_t memory_bytes;	  /**< of the GPU, in all */
	int shared;		  /**< 1: several processes may use it at once; 0: its compute mode forbids that */
	int dmabuf;		  /**< 1: its memory can be exported as dma-bufs, which RDMA devices can register; else 0 */
	unsigned long long peers; /**< as bits, the numbers of the GPUs whose memory it reaches directly */
} tutti_cuda_device_t;

/** Is shown one GPU after the other. */
typedef void (*tutti_cuda_device_fn_t)(const tutti_cuda_device_t *device, void *context);

/**
 * Show `each` every GPU that CUDA has for this process, by number. The first call of a process starts CUDA's driver, which may take a second.
 * Any thread; needs no communicator. TUTTI_ERR_UNSUPPORTED: there is no driver, or no GPU for this process, and none was shown;
 * TUTTI_ERR_SYSTEM: the driver failed, those shown before are good. tutti_last_error(NULL) says why, with CUDA's text.
 */
TUTTI_API tutti_result_t tutti_cuda_devices(tutti_cuda_device_fn_t each, void *context);

#ifdef __cplusplus
}
#endif
#endif
