/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of NVML that is used: NVIDIA's library that tells how a machine is built, which
 * CUDA's driver does not. Opened at run time, and only while somebody asks; nothing that moves
 * bytes needs it. Declared here, as <nvml.h> does, so that it need not be there to build;
 * tests/cuda/nvml_abi.c compares the two where it is. */
#ifndef INFO_NVML_H
#define INFO_NVML_H

#include <stdbool.h>

#include "library.h"

typedef unsigned nvml_result; /* nvmlReturn_t, an enum, and as such compatible with this; 0:
			       * success */
struct nvmlDevice_st;	      /* nvmlDevice_t points to one */

#ifndef NVML_API_VERSION /* <nvml.h> is not included */
struct nvmlPciInfo_st {
	char busIdLegacy[16];
	unsigned domain, bus, device;
	unsigned pciDeviceId, pciSubSystemId;
	char busId[32];
};
#endif

enum { NVML_INVALID = 2, NVML_NOT_SUPPORTED = 3 }; /* nvmlReturn_t */
enum { NVML_ENABLED = 1 };			   /* nvmlEnableState_t */
enum {
	NVML_KIND_GPU = 0,
	NVML_KIND_SWITCH = 2,
	NVML_KIND_UNKNOWN = 0xff
}; /* nvmlIntNvLinkDeviceType_t */
enum {
	NVML_INTERNAL = 0,
	NVML_SINGLE = 10,
	NVML_MULTIPLE = 20,
	NVML_HOSTBRIDGE = 30,
	NVML_NODE = 40,
	NVML_SYSTEM = 50
}; /* nvmlGpuTopologyLevel_t */

struct nvml {
	void *library;
	nvml_result (*init)(void);
	nvml_result (*shutdown)(void);
	const char *(*error_string)(nvml_result error);
	nvml_result (*get_handle)(const char *pci, struct nvmlDevice_st **device);
	nvml_result (*get_common_ancestor)(struct nvmlDevice_st *device, struct nvmlDevice_st *peer,
					   unsigned *level);
	nvml_result (*link_get_state)(struct nvmlDevice_st *device, unsigned link, unsigned *state);
	nvml_result (*link_get_version)(struct nvmlDevice_st *device, unsigned link,
					unsigned *version);
	nvml_result (*link_get_remote_kind)(struct nvmlDevice_st *device, unsigned link,
					    unsigned *kind);
	nvml_result (*link_get_remote_pci)(struct nvmlDevice_st *device, unsigned link,
					   struct nvmlPciInfo_st *pci);
};

/* Opened and started, until it is closed. False: it is not there, too old, or could not be
 * started; `why` says which. */
bool nvml_open(struct nvml *nvml, char why[TT_LIBRARY_WHY]);
void nvml_close(const struct nvml *nvml);
/* "WHAT: NVML's text (NVML's number)" into `why`; gives false. */
bool nvml_fail(const struct nvml *nvml, char why[TT_LIBRARY_WHY], const char *what,
	       nvml_result error);

#endif
