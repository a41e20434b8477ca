/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for NVML where none is, as a library of its own that TUTTI_NVML_LIBRARY names: it joins
 * the GPUs of the stand-in of CUDA's driver, which are at 0000:17:00.0 and on the buses behind
 * that.
 *
 * STANDIN_LINKS   who is joined, separated by commas: "A-B:N", N NVLinks between the GPUs A and
 * B; "A-S:N", between A and switches; "A-H:N", switches that a virtual machine does not show;
 * "A-X:N", a GPU that CUDA does not show; "A-D:N", nobody: these are down; "A-U:N", it is not
 * told with whom, and with "A>B:N" A alone is told that (none) STANDIN_ANCESTOR     what is
 * between any two on PCIe, as nvmlGpuTopologyLevel_t numbers it (50) STANDIN_VERSION      of
 * NVLinks, as nvmlNvlinkVersion_t numbers them (6) STANDIN_NVML_FAILS  the function that fails,
 * and after ":" with which error */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info/nvml.h"

#pragma GCC diagnostic ignored                                                                     \
	"-Wmissing-prototypes" /* they are of <nvml.h>, which need not be there */

#define API   __attribute__((visibility("default")))
#define GPUS  64
#define LINKS 18   /* of a GPU: others are invalid */
#define BUS   0x17 /* of GPU 0 */

enum { UNINITIALIZED = 1, NOT_FOUND = 6, UNKNOWN = 999 };

struct nvmlDevice_st {
	int number;
};

static struct nvmlDevice_st devices[GPUS];
static unsigned started;

static int number_of(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text && *text ? atoi(text) : otherwise;
}

static nvml_result failing(const char *function)
{
	const char *fails = getenv("STANDIN_NVML_FAILS"),
		   *colon = fails ? strchr(fails, ':') : NULL;
	const size_t length = strlen(function);

	if (!colon || (size_t)(colon - fails) != length || strncmp(fails, function, length) != 0)
		return 0;
	return (nvml_result)atoi(colon + 1);
}

static nvml_result enter(const char *function, const void *out)
{
	if (!started)
		return UNINITIALIZED;
	return out ? failing(function) : NVML_INVALID;
}

API nvml_result nvmlInit_v2(void)
{
	const nvml_result error = failing(__func__);

	if (!error)
		started++;
	return error;
}

API nvml_result nvmlShutdown(void)
{
	if (!started)
		return UNINITIALIZED;
	started--;
	return 0;
}

/* With less care than NVML: it has a text for all numbers. */
API const char *nvmlErrorString(nvml_result error)
{
	switch (error) {
	case NVML_INVALID: return "Invalid Argument";
	case NVML_NOT_SUPPORTED: return "Not Supported";
	case NOT_FOUND: return "Not Found";
	case UNKNOWN: return "Unknown Error";
	default: return NULL;
	}
}

API nvml_result nvmlDeviceGetHandleByPciBusId_v2(const char *pci, struct nvmlDevice_st **device)
{
	unsigned domain, bus, slot;
	const nvml_result error = enter(__func__, device);

	if (error)
		return error;
	if (!pci || sscanf(pci, "%x:%x:%x", &domain, &bus, &slot) != 3)
		return NVML_INVALID;
	if (domain || slot || bus < BUS || bus >= BUS + GPUS)
		return NOT_FOUND;
	*device = &devices[bus - BUS];
	(*device)->number = (int)(bus - BUS);
	return 0;
}

API nvml_result nvmlDeviceGetTopologyCommonAncestor(struct nvmlDevice_st *device,
						    struct nvmlDevice_st *peer, unsigned *level)
{
	const nvml_result error = enter(__func__, level);

	if (!error)
		*level = (unsigned)number_of("STANDIN_ANCESTOR", NVML_SYSTEM);
	return error || (device && peer) ? error : NVML_INVALID;
}

/* The far end of the device's link of that number: a GPU's number in digits, or a letter; 0:
 * there is no such link. */
static char far_end(const struct nvmlDevice_st *device, unsigned link, int *gpu)
{
	const char *at = getenv("STANDIN_LINKS");
	char text[512], *rest, *next;
	unsigned first = 0;

	snprintf(text, sizeof(text), "%s", at ? at : "");
	for (char *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
		const int one = (int)strtol(part, &next, 10);
		const char kind = next[1];
		const bool pair = kind >= '0' && kind <= '9';
		const int other = pair ? atoi(next + 1) : -1;
		const unsigned n = (unsigned)atoi(strchr(part, ':') + 1);

		if (one != device->number && other != device->number)
			continue;
		*gpu = one == device->number ? other : one;
		if (link >= first && link < first + n)
			return !pair ? kind : *next == '>' && one != device->number ? 'U' : 'G';
		first += n;
	}
	return 0;
}

static nvml_result find_link(const char *function, const struct nvmlDevice_st *device,
			     unsigned link, const void *out, char *far, int *gpu)
{
	const nvml_result error = enter(function, out);

	if (error)
		return error;
	*far = device && link < LINKS ? far_end(device, link, gpu) : 0;
	return *far ? 0 : NVML_INVALID;
}

API nvml_result nvmlDeviceGetNvLinkState(struct nvmlDevice_st *device, unsigned link,
					 unsigned *state)
{
	char far;
	int gpu;
	const nvml_result error = find_link(__func__, device, link, state, &far, &gpu);

	if (!error)
		*state = far == 'D' ? 0 : NVML_ENABLED;
	return error;
}

API nvml_result nvmlDeviceGetNvLinkVersion(struct nvmlDevice_st *device, unsigned link,
					   unsigned *version)
{
	char far;
	int gpu;
	const nvml_result error = find_link(__func__, device, link, version, &far, &gpu);

	if (!error)
		*version = (unsigned)number_of("STANDIN_VERSION", 6);
	return error;
}

API nvml_result nvmlDeviceGetNvLinkRemoteDeviceType(struct nvmlDevice_st *device, unsigned link,
						    unsigned *kind)
{
	char far;
	int gpu;
	const nvml_result error = find_link(__func__, device, link, kind, &far, &gpu);

	if (error || far == 'U')
		return error ? error : NVML_NOT_SUPPORTED;
	*kind = far == 'S' ? NVML_KIND_SWITCH : far == 'H' ? NVML_KIND_UNKNOWN : NVML_KIND_GPU;
	return 0;
}

API nvml_result nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvmlDevice_st *device, unsigned link,
						    struct nvmlPciInfo_st *pci)
{
	char far;
	int gpu;
	const nvml_result error = find_link(__func__, device, link, pci, &far, &gpu);

	if (error || far == 'U')
		return error ? error : NVML_NOT_SUPPORTED;
	memset(pci, 0, sizeof(*pci));
	pci->bus = BUS + (unsigned)gpu;
	if (far == 'H')
		*pci = (struct nvmlPciInfo_st){ .domain = ~0u, .bus = 0xffff, .device = 0xff };
	else if (far != 'G') /* somewhere else */
		pci->domain = 1;
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus,
		 pci->device);
	return 0;
}
