/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of this machine, if it has any, as tutti_cuda_devices() shows them. What it says of a
 * driver that is not there or fails is tutti_info's test. */
#include <stdio.h>
#include <string.h>

#include "tests.h"
#include "tutti/cuda.h"

static void count_one(const tutti_cuda_device_t *device, void *context)
{
	int *count = context;

	assert_int_equal(device->number, *count);
	assert_int_equal(strlen(device->uuid), strlen("GPU-00112233-4455-6677-8899-aabbccddeeff"));
	assert_true(device->name[0] && device->memory_bytes > 0 && device->multiprocessors > 0);
	assert_true(device->major >= 3 && device->cuda_version >= 11000);
	assert_int_equal(strlen(device->pci), strlen("0000:17:00.0"));
	assert_false(device->peers >> device->number & 1);
	++*count;
}

TEST(gpus_of_this_machine_are_shown)
{
	int count = 0;

	assert_int_equal(tutti_cuda_devices(count_one, &count), TUTTI_OK);
	assert_true(count > 0);
}

static void ignore(const tutti_cuda_device_t *device, void *context)
{
}

int main(void)
{
	if (tutti_cuda_devices(ignore, NULL) != TUTTI_ERR_UNSUPPORTED)
		return run_claims(NULL, NULL);
	puts(tutti_last_error(NULL));
	return 77;
}
