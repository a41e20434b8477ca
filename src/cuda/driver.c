/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns CUDA's driver library: where it is, that it is started once, and what its errors are called. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define LIBRARY "libcuda.so.1"

static const struct {
	const char *name;
	size_t at;
} functions[] = {
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
};

static struct {
	pthread_mutex_t lock;
	struct cuda_driver driver;
	bool open, started;
} cuda = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Once open it stays so: programs may use it, too. */
static tutti_result_t open_library(void)
{
	const char *set = getenv("TUTTI_CUDA_LIBRARY"), *name = set && *set ? set : LIBRARY;
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA, "CUDA's driver cannot be opened: %s: NVIDIA's driver brings it, and into containers docker run --gpus all",
			       dlerror());
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *const function = dlsym(library, functions[i].name);

		if (!function) {
			dlclose(library);
			return tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA, "%s has no %s: expected the driver of CUDA 11 or newer", name, functions[i].name);
		}
		memcpy((char *)&cuda.driver + functions[i].at, &function, sizeof(function));
	}
	cuda.open = true;
	tt_log(DEBUG, CUDA, "%s is CUDA's driver", name);
	return TUTTI_OK;
}

static tutti_result_t start(void)
{
	const cuda_result error = cuda.driver.init(0);

	cuda.started = error == 0;
	if (error == CUDA_NO_DEVICE)
		return tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA, "CUDA has no GPU for this process: there is none, or CUDA_VISIBLE_DEVICES or the container leaves it out");
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
	return tt_fail(TUTTI_ERR_SYSTEM, CUDA, "%s: %s (%s, %u)", what, text ? text : "an error that this driver has no text for", name ? name : "no name", error);
}
