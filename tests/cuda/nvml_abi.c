/* SPDX-License-Identifier: BSD-3-Clause */
/* What tools/info/nvml.h declares is what NVML's own header does: compiled, not run. */
#include <nvml.h>
#include <stddef.h>

#include "info/nvml.h"

#define SAME(member, function)                                                                     \
	_Static_assert(__builtin_types_compatible_p(__typeof__(((struct nvml *)0)->member),        \
						    __typeof__(&function)),                        \
		       #function " is declared otherwise")

SAME(init, nvmlInit_v2);
SAME(shutdown, nvmlShutdown);
SAME(error_string, nvmlErrorString);
SAME(get_handle, nvmlDeviceGetHandleByPciBusId_v2);
SAME(get_common_ancestor, nvmlDeviceGetTopologyCommonAncestor);
SAME(link_get_state, nvmlDeviceGetNvLinkState);
SAME(link_get_version, nvmlDeviceGetNvLinkVersion);
SAME(link_get_remote_kind, nvmlDeviceGetNvLinkRemoteDeviceType);
SAME(link_get_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2);
_Static_assert(sizeof(nvmlPciInfo_t) == 68 && offsetof(nvmlPciInfo_t, domain) == 16 &&
		       offsetof(nvmlPciInfo_t, bus) == 20 &&
		       offsetof(nvmlPciInfo_t, device) == 24 &&
		       offsetof(nvmlPciInfo_t, busId) == 36,
	       "nvmlPciInfo_t is laid out otherwise");

#define EQUAL(ours, theirs) _Static_assert((int)ours == (int)theirs, #theirs " has another value")

EQUAL(0, NVML_SUCCESS);
EQUAL(NVML_INVALID, NVML_ERROR_INVALID_ARGUMENT);
EQUAL(NVML_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED);
EQUAL(NVML_ENABLED, NVML_FEATURE_ENABLED);
EQUAL(NVML_KIND_GPU, NVML_NVLINK_DEVICE_TYPE_GPU);
EQUAL(NVML_KIND_SWITCH, NVML_NVLINK_DEVICE_TYPE_SWITCH);
EQUAL(NVML_KIND_UNKNOWN, NVML_NVLINK_DEVICE_TYPE_UNKNOWN);
EQUAL(NVML_INTERNAL, NVML_TOPOLOGY_INTERNAL);
EQUAL(NVML_SINGLE, NVML_TOPOLOGY_SINGLE);
EQUAL(NVML_MULTIPLE, NVML_TOPOLOGY_MULTIPLE);
EQUAL(NVML_HOSTBRIDGE, NVML_TOPOLOGY_HOSTBRIDGE);
EQUAL(NVML_NODE, NVML_TOPOLOGY_NODE);
EQUAL(NVML_SYSTEM, NVML_TOPOLOGY_SYSTEM);
