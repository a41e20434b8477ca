/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of addresses: segments that are mapped into them, and multicast objects. */
#include <unistd.h>

#include "claims.h"
#include "scene.h"

/* Its segments lie one behind the other, and are the same memory wherever they are mapped. */
static void segments_are_mapped_into_ranges(void **state)
{
	const struct CUmemAllocationProp_st wanted = { CUDA_ALLOCATION_PINNED,
						       CUDA_HANDLE_DESCRIPTOR,
						       { CUDA_LOCATION_DEVICE, 0 } };
	const struct CUmemAccessDesc_st access = { wanted.location, CUDA_ACCESS_READ_WRITE };
	struct CUmemAllocationProp_st properties;
	struct CUipcMemHandle_st handle;
	cuda_allocation segment[2], again;
	cuda_address range, second, base;
	size_t unit, bytes;
	int fd;

	assert_success(cu->segment_granularity(&unit, &wanted, CUDA_GRANULARITY_MINIMUM));
	assert_int_equal(cu->segment_create(&again, unit + 1, &wanted, 0), CUDA_INVALID_VALUE);
	assert_success(cu->range_reserve(&range, 2 * unit, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		assert_success(cu->segment_create(&segment[i], unit, &wanted, 0));
		assert_success(cu->range_map(range + i * unit, unit, 0, segment[i], 0));
	}
	assert_int_equal(cu->range_map(range, unit, 0, segment[0], 0), CUDA_INVALID_VALUE);
	assert_success(cu->range_set_access(range, 2 * unit, &access, 1));
	assert_success(cu->mem_get_range(&base, &bytes, range + unit + 5));
	assert_true(base == range + unit && bytes == unit);
	assert_int_equal(cu->ipc_get(&handle, range), CUDA_INVALID_VALUE);
	assert_success(cu->mem_set(range + unit - 8, 7, 16, stream)); /* of both */
	assert_success(cu->segment_retain(&again, (void *)(uintptr_t)(range + unit + 5)));
	assert_success(cu->segment_properties(&properties, again));
	assert_int_equal(properties.requestedHandleTypes, CUDA_HANDLE_DESCRIPTOR);
	assert_success(cu->segment_export(&fd, again, CUDA_HANDLE_DESCRIPTOR, 0));
	assert_success(cu->segment_release(again));
	assert_success(cu->segment_import(&again, (void *)(intptr_t)fd, CUDA_HANDLE_DESCRIPTOR));
	close(fd);
	assert_success(cu->range_reserve(&second, unit, 0, 0, 0));
	assert_success(cu->range_map(second, unit, 0, again, 0));
	assert_success(cu->range_set_access(second, unit, &access, 1));
	assert_success(cu->segment_release(again));
	assert_success(cu->mem_copy(address_of(words), second, 8, stream));
	synchronize();
	assert_true(read_word(words) == 0x0707070707070707);
	assert_int_equal(cu->mem_free(second), CUDA_INVALID_VALUE);
	assert_int_equal(cu->range_free(second, unit), CUDA_INVALID_VALUE); /* it is mapped */
	assert_success(cu->range_unmap(second, unit));
	assert_success(cu->range_free(second, unit));
	assert_int_equal(cu->range_unmap(range, unit + 1), CUDA_INVALID_VALUE);
	assert_success(cu->range_unmap(range, unit));
	assert_success(cu->range_unmap(range + unit, unit));
	assert_success(cu->range_free(range, 2 * unit));
	for (int i = 0; i < 2; i++)
		assert_success(cu->segment_release(segment[i]));
	assert_int_equal(cu->segment_release(segment[0]), CUDA_INVALID_VALUE);
}

/* Nothing is bound before all GPUs are there; and only multimem instructions use what is mapped. */
static void multicast_objects_wait_for_all_gpus(void **state)
{
	const struct CUmulticastObjectProp_st two = { 2, 2 << 20, CUDA_HANDLE_DESCRIPTOR, 0 },
					      odd = { 2, 100, 0, 0 };
	const struct CUmemAllocationProp_st wanted = { CUDA_ALLOCATION_PINNED,
						       CUDA_HANDLE_DESCRIPTOR,
						       { CUDA_LOCATION_DEVICE, 0 } };
	const size_t unit = 2 << 20;
	cuda_allocation multicast, segment;
	cuda_address range, window;
	size_t bytes;

	assert_int_equal(cu->multicast_create(&multicast, &odd), CUDA_INVALID_VALUE);
	assert_success(cu->multicast_granularity(&bytes, &two, CUDA_GRANULARITY_MINIMUM));
	assert_int_equal(bytes, unit);
	assert_success(cu->multicast_create(&multicast, &two));
	assert_success(cu->segment_create(&segment, unit, &wanted, 0));
	assert_success(cu->range_reserve(&range, unit, 0, 0, 0));
	assert_success(cu->range_map(range, unit, 0, segment, 0));
	assert_success(cu->multicast_add_device(multicast, 0));
	assert_int_equal(cu->multicast_bind(multicast, 0, range, unit, 0), ILLEGAL_STATE);
	assert_success(cu->multicast_add_device(multicast, 1));
	assert_int_equal(cu->multicast_add_device(multicast, 1), CUDA_INVALID_VALUE);
	assert_int_equal(cu->multicast_bind(multicast, unit, range, unit, 0), CUDA_INVALID_VALUE);
	assert_int_equal(cu->multicast_bind(segment, 0, range, unit, 0), CUDA_INVALID_VALUE);
	assert_success(cu->multicast_bind(multicast, 0, range, unit, 0));
	assert_success(cu->range_reserve(&window, unit, unit, 0, 0));
	assert_success(cu->range_map(window, unit, 0, multicast, 0));
	assert_success(cu->range_unmap(window, unit));
	assert_success(cu->range_free(window, unit));
	assert_success(cu->multicast_unbind(multicast, 0, 0, unit));
	assert_success(cu->segment_release(multicast));
	assert_success(cu->range_unmap(range, unit));
	assert_success(cu->range_free(range, unit));
	assert_success(cu->segment_release(segment));
}

int claims_on_ranges(void)
{
	const struct CMUnitTest tests[] = {
		TEST(segments_are_mapped_into_ranges),
		TEST(multicast_objects_wait_for_all_gpus),
	};

	return cmocka_run_group_tests_name("ranges", tests, open_it, NULL);
}
