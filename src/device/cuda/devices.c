/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is told of the GPUs of this process. */
#include "tutti/cuda.h"

#include <stdbool.h>
#include <stdio.h>

#include "callback.h"
#include "driver.h"
#include "log.h"

#define DEVICES_MAX 64 /* bits of `peers` */

struct texts {
	char name[128], pci[32], uuid[48];
};

static void write_uuid(const unsigned char uuid[CUDA_UUID_BYTES], char out[48])
{
	int at = snprintf(out, 48, "GPU");

	for (int i = 0; i < CUDA_UUID_BYTES; i++) {
		const bool begins = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;

		at += snprintf(out + at, (size_t)(48 - at), "%s%02x", begins ? "-" : "", uuid[i]);
	}
}

static unsigned long long peers_of(cuda_device device, int count)
{
	unsigned long long peers = 0;

	for (int i = 0; i < count && i < DEVICES_MAX; i++) {
		cuda_device other;
		int can = 0;

		if (tt_cu.device_get(&other, i) == 0 && other != device &&
		    tt_cu.device_can_access_peer(&can, device, other) == 0 && can)
			peers |= 1ull << i;
	}
	return peers;
}

static cuda_result read_texts(cuda_device device, struct texts *texts)
{
	unsigned char uuid[CUDA_UUID_BYTES];
	cuda_result error = tt_cu.device_get_name(texts->name, sizeof(texts->name), device);

	if (!error)
		error = tt_cu.device_get_pci_bus_id(texts->pci, sizeof(texts->pci), device);
	if (!error)
		error = tt_cu.device_get_uuid((struct CUuuid_st *)uuid, device);
	if (!error)
		write_uuid(uuid, texts->uuid);
	return error;
}

static cuda_result show(int number, int count, tutti_cuda_device_fn_t each, void *context)
{
	struct texts texts;
	tutti_cuda_device_t seen = {
		.number = number, .name = texts.name, .pci = texts.pci, .uuid = texts.uuid
	};
	cuda_device device;
	cuda_result error = tt_cu.device_get(&device, number);

	if (!error)
		error = read_texts(device, &texts);
	if (!error)
		error = tt_cu.device_total_mem(&seen.memory_bytes, device);
	if (!error)
		error = tt_cu.driver_get_version(&seen.cuda_version);
	if (error)
		return error;
	seen.major = tt_cuda_attribute(CUDA_CAPABILITY_MAJOR, device);
	seen.minor = tt_cuda_attribute(CUDA_CAPABILITY_MINOR, device);
	seen.multiprocessors = tt_cuda_attribute(CUDA_MULTIPROCESSORS, device);
	seen.shared = tt_cuda_attribute(CUDA_COMPUTE_MODE, device) == CUDA_MODE_DEFAULT;
	seen.dmabuf = tt_cuda_attribute(CUDA_DMA_BUF, device) != 0;
	seen.peers = peers_of(device, count);
	TT_CALLBACK callback = tt_callback_begin("the function of tutti_cuda_devices()");
	each(&seen, context);
	tt_callback_end(&callback);
	return 0;
}

TUTTI_API tutti_result_t tutti_cuda_devices(tutti_cuda_device_fn_t each, void *context)
{
	int count = 0;

	if (!each)
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "tutti_cuda_devices: each is NULL, expected a function");
	tutti_result_t result = tt_cuda_driver();
	if (result)
		return result;
	result = tt_cuda_check(tt_cu.device_get_count(&count), "count the GPUs");
	for (int i = 0; i < count && !result; i++)
		result = tt_cuda_check(show(i, count, each, context), "ask about GPU %d", i);
	return result;
}
