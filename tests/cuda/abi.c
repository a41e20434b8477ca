/* SPDX-License-Identifier: BSD-3-Clause */
/* What src/cuda/driver.h declares is what CUDA's own header does: compiled, not run. */
#include <cuda.h>

#include "cuda/driver.h"

#define SAME(member, function)                                                                                                           \
	_Static_assert(__builtin_types_compatible_p(__typeof__(((struct cuda_driver *)0)->member), __typeof__(&function)),              \
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
_Static_assert(sizeof(struct CUuuid_st) == CUDA_UUID_BYTES, "CUuuid has another size");
_Static_assert((int)CUDA_NO_DEVICE == CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE");
_Static_assert((int)CUDA_MULTIPROCESSORS == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT");
_Static_assert((int)CUDA_COMPUTE_MODE == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE");
_Static_assert((int)CUDA_CAPABILITY_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR");
_Static_assert((int)CUDA_CAPABILITY_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR");
_Static_assert((int)CUDA_DMA_BUF == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED");
_Static_assert((int)CUDA_MODE_DEFAULT == CU_COMPUTEMODE_DEFAULT, "CU_COMPUTEMODE_DEFAULT");
