/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns NVML: where it is, and what its errors are called. */
#include "nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static const struct tt_function functions[] = {
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

static const struct tt_library library = {
	.variable = "TUTTI_NVML_LIBRARY",
	.names = { "libnvidia-ml.so.1" },
	.before = "NVML cannot be opened: ",
	.after =
		": NVIDIA's driver brings it (Debian: libnvidia-ml1), and into containers NVIDIA_DRIVER_CAPABILITIES that has utility",
	.expected = "NVML of CUDA 12 or newer",
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

bool nvml_open(struct nvml *nvml, char why[TT_LIBRARY_WHY])
{
	nvml->library = tt_library_open(&library, nvml, why);
	if (!nvml->library)
		return false;
	const nvml_result error = nvml->init();
	if (!error)
		return true;
	nvml_fail(nvml, why, "start NVML", error);
	dlclose(nvml->library);
	return false;
}

void nvml_close(const struct nvml *nvml)
{
	nvml->shutdown();
	dlclose(nvml->library);
}

bool nvml_fail(const struct nvml *nvml, char why[TT_LIBRARY_WHY], const char *what,
	       nvml_result error)
{
	const char *text = nvml->error_string(error);

	snprintf(why, TT_LIBRARY_WHY, "%s: %s (NVML, %u)", what,
		 text ? text : "an error that it has no text for", error);
	return false;
}
