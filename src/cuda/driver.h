/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of CUDA's driver API that is used, opened at run time: the same library runs on machines without it. The driver's library
 * alone, and not the runtime's (libcudart): it is there wherever a GPU can be used, its interface does not change from version to version, and
 * what it makes, the runtime's users can use. Declared here, as <cuda.h> does, so that CUDA need not be there to build either;
 * tests/cuda/abi.c compares the two where it is. */
#ifndef TT_CUDA_DRIVER_H
#define TT_CUDA_DRIVER_H

#include <stddef.h>

#include "tutti/tutti.h"

typedef unsigned cuda_result; /* CUresult, an enum, and as such compatible with this; 0: success */
typedef int cuda_device;      /* CUdevice */
struct CUuuid_st;	      /* of 16 bytes */
#define CUDA_UUID_BYTES 16

enum {
	CUDA_NO_DEVICE = 100 /* CUDA_ERROR_NO_DEVICE */
};

/* CUdevice_attribute */
enum {
	CUDA_MULTIPROCESSORS = 16,
	CUDA_COMPUTE_MODE = 20,
	CUDA_CAPABILITY_MAJOR = 75,
	CUDA_CAPABILITY_MINOR = 76,
	CUDA_DMA_BUF = 124, /* CUDA 11.7 */
};
enum { CUDA_MODE_DEFAULT = 0 }; /* CUcomputemode: any number of processes */

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
};

/* Opened and started. TUTTI_ERR_UNSUPPORTED: it is not there, is too old, or has no GPU for this process; TUTTI_ERR_SYSTEM: it could not be
 * started. What failed is tried again by the next call. Any thread. */
tutti_result_t tt_cuda_driver(const struct cuda_driver **out);

/* The sentence "WHAT: CUDA's text (CUDA's name)" and TUTTI_ERR_SYSTEM. */
tutti_result_t tt_cuda_fail(const struct cuda_driver *driver, const char *what, cuda_result error);

#endif
