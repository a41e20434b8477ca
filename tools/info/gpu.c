/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about GPUs: PCI devices that display or compute, and the drivers for them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gpu_links.h"
#include "sections.h"
#include "tutti/cuda.h"

enum { CLASS_VGA = 0x0300, CLASS_3D = 0x0302, CLASS_DISPLAY = 0x0380, CLASS_ACCELERATOR = 0x1200 };
enum { VENDOR_AMD = 0x1002, VENDOR_NVIDIA = 0x10de, VENDOR_INTEL = 0x8086 };

static const char *vendor_name(int64_t vendor)
{
	switch (vendor) {
	case VENDOR_AMD: return "AMD";
	case VENDOR_NVIDIA: return "NVIDIA";
	case VENDOR_INTEL: return "Intel";
	default: return NULL;
	}
}

static bool is_gpu(const char *device, int64_t vendor)
{
	int64_t class;

	if (!files_read_number(&class, "sys/bus/pci/devices/%s/class", device))
		return false;
	class >>= 8; /* without the programming interface */
	return class == CLASS_VGA || class == CLASS_3D || class == CLASS_DISPLAY ||
	       (class == CLASS_ACCELERATOR && vendor_name(vendor));
}

/* The driver's name for it; only NVIDIA's tells one without being opened. */
static char *model_of(const char *device)
{
	char *text = files_read("proc/driver/nvidia/gpus/%s/information", device);
	char *model = files_field(text, "Model");

	free(text);
	return model;
}

static json_t *describe(const char *device, int64_t vendor)
{
	json_t *entry = value_section();
	char *driver = files_read_link("sys/bus/pci/devices/%s/driver", device);
	int64_t node = -1;

	value_text(entry, "name", device);
	value_text(entry, "vendor", vendor_name(vendor));
	value_take_text(entry, "model", model_of(device));
	value_text(entry, "driver", driver);
	files_read_number(&node, "sys/bus/pci/devices/%s/numa_node", device);
	value_number_if(entry, "numa_node", node >= 0, node);
	if (!driver && vendor == VENDOR_NVIDIA)
		value_hint(entry, "driver",
			   "no driver has the device: install NVIDIA's (Debian: nvidia-driver) and "
			   "load it "
			   "with modprobe nvidia");
	else if (driver && strcmp(driver, "nouveau") == 0)
		value_hint(entry, "driver", "nouveau cannot run CUDA: install NVIDIA's driver");
	free(driver);
	return entry;
}

/* The first word of digits and dots in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  …".
 */
static char *nvidia_driver_version(void)
{
	char *text = files_read("proc/driver/nvidia/version");
	const char *word = text ? strstr(text, "Kernel Module") : NULL;

	/* the open module says "… Open Kernel Module for x86_64  570.86 …" */
	while (word && *word && !(isdigit((unsigned char)*word) && word[-1] == ' '))
		word++;
	char *version = word && *word ? strndup(word, strspn(word, "0123456789.")) : NULL;
	free(text);
	return version;
}

static void show(const tutti_cuda_device_t *device, void *context)
{
	json_t *cuda = context, *entry = json_object(), *peers = json_array();
	char text[32];

	snprintf(text, sizeof(text), "%d.%d", device->cuda_version / 1000,
		 device->cuda_version % 1000 / 10);
	value_text(cuda, "version", text);
	value_number(entry, "number", device->number);
	value_text(entry, "name", device->name);
	value_text(entry, "pci", device->pci);
	value_text(entry, "uuid", device->uuid);
	snprintf(text, sizeof(text), "%d.%d", device->major, device->minor);
	value_text(entry, "compute_capability", text);
	value_number(entry, "multiprocessors", device->multiprocessors);
	value_number(entry, "memory_bytes", (int64_t)device->memory_bytes);
	value_bool(entry, "several_processes", device->shared);
	value_bool(entry, "dmabuf", device->dmabuf);
	for (int i = 0; i < 64; i++)
		if (device->peers >> i & 1)
			json_array_append_new(peers, json_integer(i));
	json_object_set_new(entry, "reaches", peers);
	json_array_append_new(json_object_get(cuda, "devices"), entry);
}

static void show_link(const struct gpu_link *link, void *context)
{
	json_t *entry = value_section(), *gpus = value_list(entry, "gpus");
	const bool known = link->nvlinks >= 0;
	char name[32];

	snprintf(name, sizeof(name), "%d and %d", link->device, link->peer);
	value_text(entry, "name", name);
	json_array_append_new(gpus, json_integer(link->device));
	json_array_append_new(gpus, json_integer(link->peer));
	value_text(entry, "topo", link->topo);
	value_number_if(entry, "nvlinks", known, link->nvlinks);
	if (!known)
		value_hint(
			entry, "nvlinks",
			"both GPUs have NVLinks that are up, and NVML does not say where all of them end, as in some virtual machines: nvidia-smi topo -m on the host knows");
	value_text(entry, "nvlink_version", link->nvlink_version);
	json_object_set_new(entry, "nvswitch", known ? json_boolean(link->nvswitch) : json_null());
	value_text(entry, "pcie", link->pcie);
	json_array_append_new(context, entry);
}

/* What joins each two of the GPUs, and why that is all. */
static void put_links(json_t *cuda)
{
	json_t *list = value_list(cuda, "links"), *devices = json_object_get(cuda, "devices"),
	       *device;
	const char *pci[GPU_LINKS_GPUS];
	char reason[TT_LIBRARY_WHY] = "there are no two GPUs";
	int count = 0;
	size_t i;

	json_array_foreach(devices, i, device) {
		if (count < GPU_LINKS_GPUS)
			pci[count++] = json_string_value(json_object_get(device, "pci"));
	}
	if (gpu_links(pci, count, show_link, list, reason) && count > 1)
		snprintf(reason, sizeof(reason), "NVML shows these");
	value_text(cuda, "links_reason", reason);
}

/* What CUDA shows to processes like this one; null, with the reason, where it shows nothing. */
static void put_cuda(json_t *section)
{
	const bool here = files_are_here();
	json_t *cuda = json_object();
	const char *reason = "not asked: the devices are not of this machine";

	value_list(cuda, "devices");
	if (here)
		reason = tutti_cuda_devices(show, cuda) == TUTTI_OK ? "the driver shows these"
								    : tutti_last_error(NULL);
	json_object_set_new(section, "cuda", json_null());
	value_text(section, "cuda_reason", reason); /* before another call changes it */
	if (json_array_size(json_object_get(cuda, "devices")) > 0) {
		put_links(cuda);
		json_object_set(section, "cuda", cuda);
	}
	json_decref(cuda);
}

json_t *section_gpu(void)
{
	json_t *section = value_section();
	char **devices = files_list("sys/bus/pci/devices");
	json_t *list = value_list(section, "devices");

	value_take_text(section, "nvidia_driver_version", nvidia_driver_version());
	for (char **device = devices; device && *device; device++) {
		int64_t vendor;

		if (files_read_number(&vendor, "sys/bus/pci/devices/%s/vendor", *device) &&
		    is_gpu(*device, vendor))
			json_array_append_new(list, describe(*device, vendor));
	}
	files_free_list(devices);
	put_cuda(section);
	return section;
}
