/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns NVML: where it is, and what its errors are called. */
#include "nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define LIBRARY "libnvidia-ml.so.1"

static const struct {
	const char *name;
	size_t at;
} functions[] = {
	{ "nvmlInit_v2", offsetof(struct nvml, init) },
	{ "nvmlShutdown", offsetof(struct nvml, shutdown) },
	{ "nvmlErrorString", offsetof(struct nvml, error_string) },
	{ "nvmlDeviceGetHandleByPciBusId_v2", offsetof(struct nvml, get_handle) },
	{ "nvmlDeviceGetTopologyCommonAncestor", offsetof(struct nvml, get_common_ancestor) },
	{ "nvmlDeviceGetNvLinkState", offsetof(struct nvml, link_get_state) },
	{ "nvmlDeviceGetNvLinkVersion", offsetof(struct nvml, link_get_version) },
	{ "nvmlDeviceGetNvLinkRemoteDeviceType", offsetof(struct nvml, link_get_remote_kind) },
	{ "nvmlDeviceGetNvLinkRemotePciInfo_v2", offsetof(struct nvml, link_get_remote_pci) },
};

static const char *library_name(void)
{
	const char *set = getenv("TUTTI_NVML_LIBRARY");

	return set && *set ? set : LIBRARY;
}

/* Gives the first that the library lacks, or NULL. */
static const char *take_functions(struct nvml *nvml)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *const function = dlsym(nvml->library, functions[i].name);

		if (!function)
			return functions[i].name;
		memcpy((char *)nvml + functions[i].at, &function, sizeof(function));
	}
	return NULL;
}

tutti_result_t tt_nvml_open(struct nvml *nvml)
{
	tutti_result_t result;

	nvml->library = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA,
			       "NVML cannot be opened: %s: NVIDIA's driver brings it (Debian: libnvidia-ml1), and into containers NVIDIA_DRIVER_CAPABILITIES that has utility",
			       dlerror());
	const char *lacks = take_functions(nvml);
	if (lacks) {
		result = tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA, "%s has no %s: expected NVML of CUDA 12 or newer", library_name(), lacks);
		goto close;
	}
	const nvml_result error = nvml->init();
	if (!error)
		return TUTTI_OK;
	result = tt_nvml_fail(nvml, "start NVML", error);
close:
	dlclose(nvml->library);
	return result;
}

void tt_nvml_close(const struct nvml *nvml)
{
	nvml->shutdown();
	dlclose(nvml->library);
}

tutti_result_t tt_nvml_fail(const struct nvml *nvml, const char *what, nvml_result error)
{
	const char *text = nvml->error_string(error);

	return tt_fail(TUTTI_ERR_SYSTEM, CUDA, "%s: %s (NVML, %u)", what, text ? text : "an error that it has no text for", error);
}
