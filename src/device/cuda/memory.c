/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns memory of GPUs that peers can map, for callers. */
#include <stdint.h>
#include <stdio.h>

#include "driver.h"
#include "log.h"
#include "tutti/cuda.h"

TUTTI_API tutti_result_t tutti_cuda_mem_alloc(size_t bytes, void **memory)
{
	const struct cuda_driver *driver;
	cuda_address address;
	char what[64];

	if (!memory)
		return tt_fail(TUTTI_ERR_INVALID, CUDA, "tutti_cuda_mem_alloc: memory is NULL");
	*memory = NULL;
	if (bytes == 0)
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "tutti_cuda_mem_alloc: 0 bytes, expected 1 or more");
	const tutti_result_t result = tt_cuda_driver(&driver);
	if (result)
		return result;
	const cuda_result error = bytes > SIZE_MAX - CUDA_BLOCK
					  ? CUDA_OUT_OF_MEMORY
					  : driver->mem_alloc(&address, cuda_whole_blocks(bytes));
	if (error == CUDA_INVALID_CONTEXT)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"tutti_cuda_mem_alloc: the thread has no current GPU: call cudaSetDevice() first");
	if (error) {
		snprintf(what, sizeof(what), "take %zu bytes of memory of the GPU", bytes);
		tt_cuda_fail(driver, what, error);
		return error == CUDA_OUT_OF_MEMORY ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_SYSTEM;
	}
	*memory = (void *)(uintptr_t)address;
	return TUTTI_OK;
}

TUTTI_API void tutti_cuda_mem_free(void *memory)
{
	const struct cuda_driver *driver;

	if (!memory || tt_cuda_driver(&driver))
		return;
	const cuda_result error = driver->mem_free((cuda_address)(uintptr_t)memory);
	if (error) {
		tt_cuda_fail(driver, "tutti_cuda_mem_free", error);
		tt_log(ERROR, CUDA,
		       "%s; the pointer was %p, expected one of tutti_cuda_mem_alloc()",
		       tt_thread_error(), memory);
	}
}
