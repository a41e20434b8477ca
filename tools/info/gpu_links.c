/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said of the links between the GPUs of this process. CUDA numbers the GPUs, NVML
 * knows their links; PCI addresses say which is which. */
#include "gpu_links.h"

#include <stdio.h>
#include <stdlib.h>

#include "nvml.h"

#define LINKS_MAX                                                                                  \
	36 /* of a GPU, NVML_NVLINK_MAX_LINKS: an older NVML says of those it does not know that
	    * they are invalid */

struct gpu {
	char pci[32];
	unsigned domain, bus, device; /* the same as numbers */
	struct nvmlDevice_st *handle;
	/* NVLinks that are up; of `untold` NVML does not say where they end, as in some virtual
	 * machines */
	int to_gpu[GPU_LINKS_GPUS], to_switch, untold;
	unsigned version; /* of the first, as NVML numbers them; 0: not known */
};

/* What is shown, to whom, and where an error goes. */
struct view {
	const struct nvml *nvml;
	struct gpu *gpus;
	int count;
	void (*each)(const struct gpu_link *link, void *context);
	void *context;
	char *why;
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
static nvml_result find_end(const struct view *v, struct gpu *gpu, unsigned link)
{
	struct nvmlPciInfo_st far = { .bus = ~0u };
	unsigned kind = 0;
	nvml_result error = v->nvml->link_get_remote_kind(gpu->handle, link, &kind);

	if (error == NVML_NOT_SUPPORTED)
		kind = NVML_KIND_UNKNOWN;
	else if (error)
		return error;
	if (kind == NVML_KIND_SWITCH) {
		gpu->to_switch++;
		return 0;
	}
	error = v->nvml->link_get_remote_pci(gpu->handle, link, &far);
	if (error && error != NVML_NOT_SUPPORTED)
		return error;
	count_link(v->gpus, v->count, gpu, kind, error ? NULL : &far);
	return 0;
}

static bool read_link(const struct view *v, struct gpu *gpu, unsigned link)
{
	unsigned state = 0;
	char what[64];

	nvml_result error = v->nvml->link_get_state(gpu->handle, link, &state);
	if (error == NVML_INVALID || error == NVML_NOT_SUPPORTED ||
	    (!error && state != NVML_ENABLED)) /* there is no such link, or it is down */
		return true;
	if (!error)
		error = find_end(v, gpu, link);
	if (error) {
		snprintf(what, sizeof(what), "ask about NVLink %u of GPU %s", link, gpu->pci);
		return nvml_fail(v->nvml, v->why, what, error);
	}
	if (!gpu->version && v->nvml->link_get_version(gpu->handle, link, &gpu->version))
		gpu->version = 0;
	return true;
}

static bool read_links(const struct view *v, struct gpu *gpu)
{
	bool good = true;

	for (unsigned link = 0; link < LINKS_MAX && good; link++)
		good = read_link(v, gpu, link);
	return good;
}

static bool get_handle(const struct view *v, struct gpu *gpu)
{
	const nvml_result error = v->nvml->get_handle(gpu->pci, &gpu->handle);
	char what[64];

	snprintf(what, sizeof(what), "find GPU %s", gpu->pci);
	return error ? nvml_fail(v->nvml, v->why, what, error) : true;
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

static bool show(const struct view *v, int device, int peer)
{
	const struct gpu *a = &v->gpus[device], *b = &v->gpus[peer];
	const int between_them = direct(v->gpus, device, peer);
	struct gpu_link link = { .device = device,
				 .peer = peer,
				 .nvlinks = between_them ? between_them : by_switches(a, b) };
	const struct level *between = NULL;
	unsigned level = 0;
	char text[96];

	const nvml_result error = v->nvml->get_common_ancestor(a->handle, b->handle, &level);
	if (error && error != NVML_NOT_SUPPORTED) { /* as in virtual machines that do not show
						     * their bridges */
		snprintf(text, sizeof(text), "ask what is between GPUs %s and %s", a->pci, b->pci);
		return nvml_fail(v->nvml, v->why, text, error);
	}
	if (!error)
		between = level_of(level);
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
	v->each(&link, v->context);
	return true;
}

static bool show_all(const struct view *v)
{
	bool good = true;

	for (int i = 0; i < v->count && good; i++)
		good = get_handle(v, &v->gpus[i]) && read_links(v, &v->gpus[i]);
	for (int i = 0; i < v->count && good; i++)
		for (int j = i + 1; j < v->count && good; j++)
			good = show(v, i, j);
	return good;
}

/* ---- the GPUs as CUDA numbers them */

static bool read_addresses(const char *const *pci, int count, struct gpu *gpus, char *why)
{
	for (int i = 0; i < count; i++) {
		struct gpu *gpu = &gpus[i];

		snprintf(gpu->pci, sizeof(gpu->pci), "%s", pci[i]);
		if (sscanf(gpu->pci, "%x:%x:%x", &gpu->domain, &gpu->bus, &gpu->device) != 3) {
			snprintf(
				why, TT_LIBRARY_WHY,
				"CUDA says that GPU %d is at \"%s\", expected an address of PCI such as 0000:17:00.0",
				i, gpu->pci);
			return false;
		}
	}
	return true;
}

bool gpu_links(const char *const *pci, int count,
	       void (*each)(const struct gpu_link *link, void *context), void *context,
	       char why[TT_LIBRARY_WHY])
{
	struct gpu *gpus;
	struct nvml nvml;
	bool good;

	if (count < 2)
		return true;
	gpus = calloc((size_t)count, sizeof(*gpus));
	if (!gpus) {
		snprintf(why, TT_LIBRARY_WHY, "no memory for the links of %d GPUs", count);
		return false;
	}
	good = read_addresses(pci, count, gpus, why) && nvml_open(&nvml, why);
	if (good) {
		const struct view view = { &nvml, gpus, count, each, context, why };

		good = show_all(&view);
		nvml_close(&nvml);
	}
	free(gpus);
	return good;
}
