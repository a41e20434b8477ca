/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is told of the links between the GPUs of this process. CUDA numbers the GPUs, NVML
 * knows their links; PCI addresses say which is which. */
#include "tutti/cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "log.h"
#include "nvml.h"

#define GPUS_MAX 64 /* bits of `peers` in tutti_cuda_device_t */
#define LINKS_MAX                                                                                  \
	36 /* of a GPU, NVML_NVLINK_MAX_LINKS: an older NVML says of those it does not know that
	    * they are invalid */

struct gpu {
	char pci[32];
	unsigned domain, bus, device; /* the same as numbers */
	struct nvmlDevice_st *handle;
	/* NVLinks that are up; of `untold` NVML does not say where they end, as in some virtual
	 * machines */
	int to_gpu[GPUS_MAX], to_switch, untold;
	unsigned version; /* of the first, as NVML numbers them; 0: not known */
};

/* nvmlNvlinkVersion_t */
static const char *version_name(unsigned version)
{
	static const char *const names[] = { NULL,  "1.0", "2.0", "2.2", "3.0",
					     "3.1", "4.0", "5.0", "6.0" };

	return version < sizeof(names) / sizeof(names[0]) ? names[version] : NULL;
}

/* By the words of nvidia-smi topo -m, and ours. */
static const struct level {
	unsigned level;
	const char *topo, *pcie;
} hierarchy[] = {
	{ NVML_INTERNAL, "PIX", "one board" },
	{ NVML_SINGLE, "PIX", "one PCIe switch" },
	{ NVML_MULTIPLE, "PXB", "several PCIe switches" },
	{ NVML_HOSTBRIDGE, "PHB", "a host bridge" },
	{ NVML_NODE, "NODE", "host bridges of one NUMA node" },
	{ NVML_SYSTEM, "SYS", "several NUMA nodes" },
};

static const struct level *hierarchy_of(unsigned level)
{
	for (size_t i = 0; i < sizeof(hierarchy) / sizeof(hierarchy[0]); i++)
		if (hierarchy[i].level == level)
			return &hierarchy[i];
	return NULL;
}

/* ---- what NVML says of a GPU */

static int find_gpu(const struct gpu *gpus, int count, const struct nvmlPciInfo_st *at)
{
	int i = 0;

	while (i < count && !(gpus[i].domain == at->domain && gpus[i].bus == at->bus &&
			      gpus[i].device == at->device))
		i++;
	return i < count ? i : -1;
}

/* Where the link ends; far NULL: its address is not told. The switches of a virtual machine may
 * be hidden from it: then their addresses are none that PCI could have. */
static void count_link(const struct gpu *gpus, int count, struct gpu *gpu, unsigned kind,
		       const struct nvmlPciInfo_st *far)
{
	const int peer = far ? find_gpu(gpus, count, far) : -1;

	if (kind != NVML_KIND_GPU && far && far->bus > 0xff)
		gpu->to_switch++;
	else if (peer >= 0)
		gpu->to_gpu[peer]++;
	else if (kind == NVML_KIND_UNKNOWN || (kind == NVML_KIND_GPU && !far))
		gpu->untold++;
}

/* NVML may not say of a link that is up what it leads to, or where that is: what it says is
 * used, and the other end may say more. */
static nvml_result find_end(const struct nvml *nvml, const struct gpu *gpus, int count,
			    struct gpu *gpu, unsigned link)
{
	struct nvmlPciInfo_st far = { .bus = ~0u };
	unsigned kind = 0;
	nvml_result error = nvml->link_get_remote_kind(gpu->handle, link, &kind);

	if (error == NVML_NOT_SUPPORTED)
		kind = NVML_KIND_UNKNOWN;
	else if (error)
		return error;
	if (kind == NVML_KIND_SWITCH) {
		gpu->to_switch++;
		return 0;
	}
	error = nvml->link_get_remote_pci(gpu->handle, link, &far);
	if (error && error != NVML_NOT_SUPPORTED)
		return error;
	count_link(gpus, count, gpu, kind, error ? NULL : &far);
	return 0;
}

static tutti_result_t read_link(const struct nvml *nvml, struct gpu *gpus, int count,
				struct gpu *gpu, unsigned link)
{
	unsigned state = 0;
	char what[64];

	nvml_result error = nvml->link_get_state(gpu->handle, link, &state);
	if (error == NVML_INVALID || error == NVML_NOT_SUPPORTED ||
	    (!error && state != NVML_ENABLED)) /* there is no such link, or it is down */
		return TUTTI_OK;
	if (!error)
		error = find_end(nvml, gpus, count, gpu, link);
	if (error) {
		snprintf(what, sizeof(what), "ask about NVLink %u of GPU %s", link, gpu->pci);
		return tt_nvml_fail(nvml, what, error);
	}
	if (!gpu->version && nvml->link_get_version(gpu->handle, link, &gpu->version))
		gpu->version = 0;
	return TUTTI_OK;
}

static tutti_result_t read_links(const struct nvml *nvml, struct gpu *gpus, int count,
				 struct gpu *gpu)
{
	tutti_result_t result = TUTTI_OK;

	for (unsigned link = 0; link < LINKS_MAX && !result; link++)
		result = read_link(nvml, gpus, count, gpu, link);
	return result;
}

static tutti_result_t get_handle(const struct nvml *nvml, struct gpu *gpu)
{
	const nvml_result error = nvml->get_handle(gpu->pci, &gpu->handle);
	char what[64];

	snprintf(what, sizeof(what), "find GPU %s", gpu->pci);
	return error ? tt_nvml_fail(nvml, what, error) : TUTTI_OK;
}

/* ---- pairs */

/* Between GPUs that both hang on switches there is what the one that has fewer links has: each
 * switch reaches all GPUs. */
static int by_switches(const struct gpu *a, const struct gpu *b)
{
	return a->to_switch < b->to_switch ? a->to_switch : b->to_switch;
}

/* As many as either end tells of. */
static int direct(const struct gpu *gpus, int device, int peer)
{
	const int there = gpus[device].to_gpu[peer], back = gpus[peer].to_gpu[device];

	return there > back ? there : back;
}

/* Could a link of which one end is not told be between them? */
static bool may_be_joined(const struct gpu *a, const struct gpu *b)
{
	return (a->untold && (b->untold || b->to_switch)) || (b->untold && a->to_switch);
}

static tutti_result_t show(const struct nvml *nvml, const struct gpu *gpus, int device, int peer,
			   tutti_cuda_link_fn_t each, void *context)
{
	const struct gpu *a = &gpus[device], *b = &gpus[peer];
	const int between_them = direct(gpus, device, peer);
	tutti_cuda_link_t link = { .device = device,
				   .peer = peer,
				   .nvlinks = between_them ? between_them : by_switches(a, b) };
	const struct level *between = NULL;
	unsigned level = 0;
	char text[64];

	const nvml_result error = nvml->get_common_ancestor(a->handle, b->handle, &level);
	if (error && error != NVML_NOT_SUPPORTED) { /* as in virtual machines that do not show
						     * their bridges */
		snprintf(text, sizeof(text), "ask what is between GPUs %s and %s", a->pci, b->pci);
		return tt_nvml_fail(nvml, text, error);
	}
	if (!error)
		between = hierarchy_of(level);
	link.pcie = between ? between->pcie : NULL;
	link.topo = between ? between->topo : NULL;
	if (!link.nvlinks && may_be_joined(a, b)) {
		link.nvlinks = -1;
		link.topo = NULL;
	}
	if (link.nvlinks > 0) {
		snprintf(text, sizeof(text), "NV%d", link.nvlinks);
		link.topo = text;
		link.nvswitch = !between_them;
		link.nvlink_version = version_name(a->version);
	}
	each(&link, context);
	return TUTTI_OK;
}

static tutti_result_t show_all(const struct nvml *nvml, struct gpu *gpus, int count,
			       tutti_cuda_link_fn_t each, void *context)
{
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < count && !result; i++) {
		result = get_handle(nvml, &gpus[i]);
		if (!result)
			result = read_links(nvml, gpus, count, &gpus[i]);
	}
	for (int i = 0; i < count && !result; i++)
		for (int j = i + 1; j < count && !result; j++)
			result = show(nvml, gpus, i, j, each, context);
	return result;
}

/* ---- the GPUs as CUDA numbers them */

static tutti_result_t find_gpus(const struct cuda_driver *driver, struct gpu *gpus, int count)
{
	cuda_device device;

	for (int i = 0; i < count; i++) {
		struct gpu *gpu = &gpus[i];
		cuda_result error = driver->device_get(&device, i);

		if (!error)
			error = driver->device_get_pci_bus_id(gpu->pci, sizeof(gpu->pci), device);
		if (error)
			return tt_cuda_fail(driver, "ask where the GPUs are", error);
		if (sscanf(gpu->pci, "%x:%x:%x", &gpu->domain, &gpu->bus, &gpu->device) != 3)
			return tt_fail(
				TUTTI_ERR_SYSTEM, CUDA,
				"CUDA says that GPU %d is at \"%s\", expected an address of PCI such as 0000:17:00.0",
				i, gpu->pci);
	}
	return TUTTI_OK;
}

static tutti_result_t show_links(const struct cuda_driver *driver, int count,
				 tutti_cuda_link_fn_t each, void *context)
{
	struct gpu *gpus = calloc((size_t)count, sizeof(*gpus));
	struct nvml nvml;

	if (!gpus)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for the links of %d GPUs",
			       count);
	tutti_result_t result = find_gpus(driver, gpus, count);
	if (!result)
		result = tt_nvml_open(&nvml);
	if (result)
		goto free_gpus;
	result = show_all(&nvml, gpus, count, each, context);
	tt_nvml_close(&nvml);
free_gpus:
	free(gpus);
	return result;
}

TUTTI_API tutti_result_t tutti_cuda_links(tutti_cuda_link_fn_t each, void *context)
{
	const struct cuda_driver *driver;
	int count = 0;

	if (!each)
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "tutti_cuda_links: each is NULL, expected a function");
	const tutti_result_t result = tt_cuda_driver(&driver);
	if (result)
		return result;
	const cuda_result error = driver->device_get_count(&count);
	if (error)
		return tt_cuda_fail(driver, "count the GPUs", error);
	if (count < 2)
		return TUTTI_OK;
	return show_links(driver, count < GPUS_MAX ? count : GPUS_MAX, each, context);
}
