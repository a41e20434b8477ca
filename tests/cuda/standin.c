/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for CUDA's driver where none is, as a library that TUTTI_CUDA_LIBRARY names: GPUs of host memory. STANDIN_DEVICES says how many
 * (2), STANDIN_FAILS which function fails, and STANDIN_ERROR with which error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* they are of <cuda.h>, which need not be there */

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_SUPPORTED = 801, UNKNOWN = 999 };

static int initialized;

static int devices(void)
{
	const char *count = getenv("STANDIN_DEVICES");

	return count ? atoi(count) : 2;
}

static int failing(const char *function)
{
	const char *fails = getenv("STANDIN_FAILS"), *error = getenv("STANDIN_ERROR");

	return fails && strcmp(fails, function) == 0 ? error ? atoi(error) : UNKNOWN : 0;
}

/* What every function of the driver begins with. */
static int check(const char *function, int device)
{
	const int error = failing(function);

	if (error || !initialized)
		return error ? error : NOT_INITIALIZED;
	return device < 0 || device >= devices() ? INVALID_DEVICE : 0;
}

int cuInit(unsigned flags)
{
	const int error = failing(__func__);

	initialized = !error && devices() > 0;
	return error ? error : devices() > 0 ? 0 : NO_DEVICE;
}

int cuGetErrorName(int error, const char **name)
{
	*name = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : error == UNKNOWN ? "CUDA_ERROR_UNKNOWN" : NULL;
	return *name ? 0 : INVALID_VALUE;
}

int cuGetErrorString(int error, const char **text)
{
	*text = error == NO_DEVICE ? "no CUDA-capable device is detected" : error == UNKNOWN ? "unknown error" : NULL;
	return *text ? 0 : INVALID_VALUE;
}

int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return failing(__func__);
}

int cuDeviceGetCount(int *count)
{
	*count = devices();
	return check(__func__, 0);
}

int cuDeviceGet(int *device, int number)
{
	*device = number;
	return check(__func__, number);
}

int cuDeviceGetName(char *name, int room, int device)
{
	snprintf(name, (size_t)room, "Stand-in %d", device);
	return check(__func__, device);
}

int cuDeviceGetUuid(unsigned char uuid[16], int device)
{
	for (int i = 0; i < 16; i++)
		uuid[i] = (unsigned char)(0x10 * device + i);
	return check(__func__, device);
}

int cuDeviceGetPCIBusId(char *id, int room, int device)
{
	snprintf(id, (size_t)room, "0000:%02x:00.0", 0x17 + device);
	return check(__func__, device);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	*bytes = (size_t)1 << 30;
	return check(__func__, device);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	switch (attribute) {
	case 16: *value = 132; break;
	case 20: *value = device == 1 ? 3 : 0; break; /* of exclusive process */
	case 75: *value = 9; break;
	case 76: *value = 0; break;
	case 124: *value = device == 0; break;
	default: return INVALID_VALUE;
	}
	return check(__func__, device);
}

/* Each reaches the one before it. */
int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device == peer + 1;
	return check(__func__, device);
}

/* What the driver has and the stand-in cannot do yet. */
#define MISSING(function) int function(void) { return failing(#function) ? failing(#function) : NOT_SUPPORTED; }

MISSING(cuDevicePrimaryCtxRetain)
MISSING(cuDevicePrimaryCtxRelease_v2)
MISSING(cuCtxGetCurrent)
MISSING(cuCtxPushCurrent_v2)
MISSING(cuCtxPopCurrent_v2)
MISSING(cuCtxGetDevice)
MISSING(cuCtxEnablePeerAccess)
MISSING(cuMemAlloc_v2)
MISSING(cuMemFree_v2)
MISSING(cuMemGetAddressRange_v2)
MISSING(cuMemHostAlloc)
MISSING(cuMemFreeHost)
MISSING(cuMemcpyAsync)
MISSING(cuMemsetD8Async)
MISSING(cuPointerGetAttributes)
MISSING(cuIpcGetMemHandle)
MISSING(cuIpcOpenMemHandle_v2)
MISSING(cuIpcCloseMemHandle)
MISSING(cuStreamCreate)
MISSING(cuStreamDestroy_v2)
MISSING(cuStreamSynchronize)
MISSING(cuStreamQuery)
MISSING(cuStreamGetCtx)
MISSING(cuStreamIsCapturing)
MISSING(cuStreamWaitEvent)
MISSING(cuStreamBatchMemOp_v2)
MISSING(cuEventCreate)
MISSING(cuEventDestroy_v2)
MISSING(cuEventRecord)
MISSING(cuEventQuery)
MISSING(cuModuleLoadData)
MISSING(cuModuleUnload)
MISSING(cuModuleGetFunction)
MISSING(cuFuncGetAttribute)
MISSING(cuLaunchKernel)
