/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of addresses: segments that are mapped into them, and multicast objects. */
#include "scene.h"

static const struct CUmemAllocationProp_st wanted = { CUDA_ALLOCATION_PINNED,
						      CUDA_HANDLE_DESCRIPTOR,
						      { CUDA_LOCATION_DEVICE, 0 } };

SCENE(segments_are_mapped_once_and_unmapped_before_they_go)
{
	struct CUipcMemHandle_st handle;
	cuda_allocation segment;
	cuda_address range;
	size_t unit;

	assert_success(tt_cu.segment_granularity(&unit, &wanted, CUDA_GRANULARITY_MINIMUM));
	assert_invalid(tt_cu.segment_create(&segment, unit + 1, &wanted, 0));
	assert_success(tt_cu.range_reserve(&range, 2 * unit, 0, 0, 0));
	assert_success(tt_cu.segment_create(&segment, unit, &wanted, 0));
	assert_success(tt_cu.range_map(range, unit, 0, segment, 0));
	assert_invalid(tt_cu.range_map(range, unit, 0, segment, 0));
	assert_invalid(tt_cu.ipc_get(&handle, range));
	assert_invalid(tt_cu.mem_free(range));
	assert_invalid(tt_cu.range_free(range, 2 * unit));
	assert_invalid(tt_cu.range_unmap(range, unit + 1));
	assert_success(tt_cu.range_unmap(range, unit));
	assert_success(tt_cu.range_free(range, 2 * unit));
	assert_success(tt_cu.segment_release(segment));
	assert_invalid(tt_cu.segment_release(segment));
}

/* Nothing is bound before all GPUs are there; and only multimem instructions use what is mapped. */
SCENE(multicast_objects_wait_for_all_gpus)
{
	const struct CUmulticastObjectProp_st two = { 2, 2 << 20, CUDA_HANDLE_DESCRIPTOR, 0 },
					      odd = { 2, 100, 0, 0 };
	const size_t unit = 2 << 20;
	cuda_allocation multicast, segment;
	cuda_address range, window;
	size_t bytes;

	assert_invalid(tt_cu.multicast_create(&multicast, &odd));
	assert_success(tt_cu.multicast_granularity(&bytes, &two, CUDA_GRANULARITY_MINIMUM));
	assert_int_equal(bytes, unit);
	assert_success(tt_cu.multicast_create(&multicast, &two));
	assert_success(tt_cu.segment_create(&segment, unit, &wanted, 0));
	assert_success(tt_cu.range_reserve(&range, unit, 0, 0, 0));
	assert_success(tt_cu.range_map(range, unit, 0, segment, 0));
	assert_success(tt_cu.multicast_add_device(multicast, 0));
	assert_int_equal(tt_cu.multicast_bind(multicast, 0, range, unit, 0), ILLEGAL_STATE);
	assert_success(tt_cu.multicast_add_device(multicast, 1));
	assert_invalid(tt_cu.multicast_add_device(multicast, 1));
	assert_invalid(tt_cu.multicast_bind(multicast, unit, range, unit, 0));
	assert_invalid(tt_cu.multicast_bind(segment, 0, range, unit, 0));
	assert_success(tt_cu.multicast_bind(multicast, 0, range, unit, 0));
	assert_success(tt_cu.range_reserve(&window, unit, unit, 0, 0));
	assert_success(tt_cu.range_map(window, unit, 0, multicast, 0));
	assert_success(tt_cu.range_unmap(window, unit));
	assert_success(tt_cu.range_free(window, unit));
	assert_success(tt_cu.multicast_unbind(multicast, 0, 0, unit));
	assert_success(tt_cu.segment_release(multicast));
	assert_success(tt_cu.range_unmap(range, unit));
	assert_success(tt_cu.range_free(range, unit));
	assert_success(tt_cu.segment_release(segment));
}
