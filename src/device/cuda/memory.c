/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns memory of GPUs that peers can map, for callers. */
#include <stdint.h>

#include "log.h"
#include "segments.h"
#include "tutti/cuda.h"

/* One segment, which others may have a descriptor of. */
static cuda_result take_segment(cuda_device device, size_t bytes, cuda_address *out)
{
	const struct CUmemAllocationProp_st wanted = {
		.type = CUDA_ALLOCATION_PINNED,
		.requestedHandleTypes = CUDA_HANDLE_DESCRIPTOR,
		.location = { CUDA_LOCATION_DEVICE, device },
	};
	cuda_allocation segment;
	cuda_result error = tt_cu.segment_create(&segment, bytes, &wanted, 0);

	if (error)
		return error;
	error = tt_cuda_map(device, segment, bytes, 0, out);
	tt_cu.segment_release(segment); /* the mapping keeps it */
	return error;
}

/* Where a switch joins GPUs a segment, as its windows go by the switch then. */
static cuda_result take(size_t bytes, cuda_address *out)
{
	cuda_device device;
	const cuda_result error = tt_cu.context_get_device(&device);

	if (error)
		return error;
	return tt_cuda_attribute(CUDA_MULTICAST, device) && take_segment(device, bytes, out) == 0
		       ? 0
		       : tt_cu.mem_alloc(out, bytes);
}

static cuda_result give(cuda_address memory)
{
	cuda_allocation segment;
	cuda_address base;
	size_t bytes;

	if (tt_cu.segment_retain(&segment, cuda_pointer(memory)) != 0)
		return tt_cu.mem_free(memory);
	tt_cu.segment_release(segment);
	cuda_result error = tt_cu.mem_get_range(&base, &bytes, memory);
	if (!error)
		error = base == memory ? tt_cu.range_unmap(base, bytes) : CUDA_INVALID_VALUE;
	return error ? error : tt_cu.range_free(base, bytes);
}

TUTTI_API tutti_result_t tutti_cuda_mem_alloc(size_t bytes, void **memory)
{
	cuda_address address;

	if (!memory)
		return tt_fail(TUTTI_ERR_INVALID, CUDA, "tutti_cuda_mem_alloc: memory is NULL");
	*memory = NULL;
	if (bytes == 0)
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "tutti_cuda_mem_alloc: 0 bytes, expected 1 or more");
	const tutti_result_t result = tt_cuda_driver();
	if (result)
		return result;
	const cuda_result error = bytes > SIZE_MAX - CUDA_BLOCK
					  ? CUDA_OUT_OF_MEMORY
					  : take(cuda_whole_blocks(bytes), &address);
	if (error == CUDA_INVALID_CONTEXT)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"tutti_cuda_mem_alloc: the thread has no current GPU: call cudaSetDevice() first");
	if (error) {
		tt_cuda_check(error, "take %zu bytes of memory of the GPU", bytes);
		return error == CUDA_OUT_OF_MEMORY ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_SYSTEM;
	}
	*memory = cuda_pointer(address);
	return TUTTI_OK;
}

TUTTI_API void tutti_cuda_mem_free(void *memory)
{

	if (!memory || tt_cuda_driver())
		return;
	const cuda_result error = give(cuda_at(memory));
	if (error) {
		tt_cuda_check(error, "tutti_cuda_mem_free");
		tt_log(ERROR, CUDA,
		       "%s; the pointer was %p, expected one of tutti_cuda_mem_alloc()",
		       tt_thread_error(), memory);
	}
}
