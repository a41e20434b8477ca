/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is told of the links between the GPUs of this process. CUDA numbers the GPUs, NVML knows their links; PCI addresses say which is which. */
#include "tutti/cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "log.h"
#include "nvml.h"

#define GPUS_MAX  64 /* bits of `peers` in tutti_cuda_device_t */
#define LINKS_MAX 36 /* of a GPU, NVML_NVLINK_MAX_LINKS: an older NVML says of those it does not know that they are invalid */

struct gpu {
	char pci[32];
	unsigned domain, bus, device; /* the same as numbers */
	struct nvmlDevice_st *handle;
	/* NVLinks that are up */
	int to_gpu[GPUS_MAX], to_switch;
	unsigned version; /* of the first, as NVML numbers them; 0: not known */
};

/* nvmlNvlinkVersion_t */
static const char *version_name(unsigned version)
{
	static const char *const names[] = { NULL, "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0" };

	return version < sizeof(names) / sizeof(names[0]) ? names[version] : NULL;
}

/* By the words of nvidia-smi topo -m, and ours. */
static const struct level {
	unsigned level;
	const char *topo, *pcie;
} levels[] = {
	{ NVML_INTERNAL, "PIX", "one board" },
	{ NVML_SINGLE, "PIX", "one PCIe switch" },
	{ NVML_MULTIPLE, "PXB", "several PCIe switches" },
	{ NVML_HOSTBRIDGE, "PHB", "a host bridge" },
	{ NVML_NODE, "NODE", "host bridges of one NUMA node" },
	{ NVML_SYSTEM, "SYS", "several NUMA nodes" },
};

static const struct level *level_of(unsigned level)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (levels[i].level == level)
			return &levels[i];
	return NULL;
}

/* ---- what NVML says of a GPU */

/* Where the link ends. The switches of a virtual machine may be hidden from it: then their addresses are none that PCI could have. */
static void count_link(struct gpu *gpus, int count, struct gpu *gpu, unsigned kind, const struct nvmlPciInfo_st *far)
{
	if (kind == NVML_KIND_SWITCH || (kind != NVML_KIND_GPU && far->bus > 0xff)) {
		gpu->to_switch++;
		return;
	}
	for (int i = 0; i < count; i++)
		if (gpus[i].domain == far->domain && gpus[i].bus == far->bus && gpus[i].device == far->device)
			gpu->to_gpu[i]++;
}

static tutti_result_t read_link(const struct nvml *nvml, struct gpu *gpus, int count, struct gpu *gpu, unsigned link)
{
	struct nvmlPciInfo_st far = { .bus = ~0u };
	unsigned state = 0, kind = 0;
	char what[64];

	nvml_result error = nvml->link_get_state(gpu->handle, link, &state);
	if (error == NVML_INVALID || error == NVML_NOT_SUPPORTED || (!error && state != NVML_ENABLED)) /* there is no such link, or it is down */
		return TUTTI_OK;
	if (!error)
		error = nvml->link_get_remote_kind(gpu->handle, link, &kind);
	if (!error && kind != NVML_KIND_SWITCH)
		error = nvml->link_get_remote_pci(gpu->handle, link, &far);
	if (error) {
		snprintf(what, sizeof(what), "ask about NVLink %u of GPU %s", link, gpu->pci);
		return tt_nvml_fail(nvml, what, error);
	}
	if (!gpu->version && nvml->link_get_version(gpu->handle, link, &gpu->version))
		gpu->version = 0;
	count_link(gpus, count, gpu, kind, &far);
	return TUTTI_OK;
}

static tutti_result_t read_links(const struct nvml *nvml, struct gpu *gpus, int count, struct gpu *gpu)
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

/* Between GPUs that both hang on switches there is what the one that has fewer links has: each switch reaches all GPUs. */
static int by_switches(const struct gpu *a, const struct gpu *b)
{
	return a->to_switch < b->to_switch ? a->to_switch : b->to_switch;
}

static tutti_result_t show(const struct nvml *nvml, const struct gpu *gpus, int device, int peer, tutti_cuda_link_fn_t each, void *context)
{
	const struct gpu *a = &gpus[device], *b = &gpus[peer];
	const int direct = a->to_gpu[peer];
	tutti_cuda_link_t link = { .device = device, .peer = peer, .nvlinks = direct ? direct : by_switches(a, b) };
	const struct level *between = NULL;
	unsigned level = 0;
	char text[64];

	const nvml_result error = nvml->get_common_ancestor(a->handle, b->handle, &level);
	if (error && error != NVML_NOT_SUPPORTED) { /* as in virtual machines that do not show their bridges */
		snprintf(text, sizeof(text), "ask what is between GPUs %s and %s", a->pci, b->pci);
		return tt_nvml_fail(nvml, text, error);
	}
	if (!error)
		between = level_of(level);
	link.pcie = between ? between->pcie : NULL;
	link.topo = between ? between->topo : NULL;
	if (link.nvlinks) {
		snprintf(text, sizeof(text), "NV%d", link.nvlinks);
		link.topo = text;
		link.nvswitch = !direct;
		link.nvlink_version = version_name(a->version);
	}
	each(&link, context);
	return TUTTI_OK;
}

static tutti_result_t show_all(const struct nvml *nvml, struct gpu *gpus, int count, tutti_cuda_link_fn_t each, void *context)
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
			return tt_fail(TUTTI_ERR_SYSTEM, CUDA, "CUDA says that GPU %d is at \"%s\", expected an address of PCI such as 0000:17:00.0", i, gpu->pci);
	}
	return TUTTI_OK;
}

static tutti_result_t show_links(const struct cuda_driver *driver, int count, tutti_cuda_link_fn_t each, void *context)
{
	struct gpu *gpus = calloc((size_t)count, sizeof(*gpus));
	struct nvml nvml;

	if (!gpus)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for the links of %d GPUs", count);
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
		return tt_fail(TUTTI_ERR_INVALID, CUDA, "tutti_cuda_links: each is NULL, expected a function");
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
