/* SPDX-License-Identifier: BSD-3-Clause */
/* What joins the GPUs of this process, as NVIDIA's NVML knows it. */
#ifndef INFO_GPU_LINKS_H
#define INFO_GPU_LINKS_H

#include <stdbool.h>

#include "library.h"

#define GPU_LINKS_GPUS 64 /* at most */

/* What joins two GPUs. What it points to is valid during the call that shows it. */
struct gpu_link {
	int device, peer; /* the smaller number and the larger one */
	const char *topo; /* as nvidia-smi topo -m has it: "NV4", "PIX", "PXB", "PHB", "NODE",
			   * "SYS"; NULL: not known */
	int nvlinks;	  /* NVLinks between them that are up; 0: only PCIe; -1: both have some, and
			   * it is not known where they end; nor is `topo` then */
	bool nvswitch;	  /* these end in switches, and are as many as the GPU has that has fewer */
	const char *nvlink_version; /* such as "4.0"; NULL: there are none, or not known */
	const char *pcie; /* what is between them on PCIe: "one PCIe switch", "several NUMA
			   * nodes"; NULL: not known */
};

/* Show `each` what joins each two of the GPUs at these PCI addresses. False: NVML is not there, or
 * failed; `why` says so. Links shown before are good. */
bool gpu_links(const char *const *pci, int count,
	       void (*each)(const struct gpu_link *link, void *context), void *context,
	       char why[TT_LIBRARY_WHY]);

#endif
