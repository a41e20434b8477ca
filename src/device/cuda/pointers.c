/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the question whose memory a pointer points to. */
#include "pointers.h"

#include <stdbool.h>
#include <stdint.h>

/* CUDA has no memory in this process: it was not started here, or before a fork(), or has ended,
 * or can do nothing; or it does not say so of a pointer that it does not know, but fails. */
static bool means_host(cuda_result error)
{
	return error == CUDA_INVALID_VALUE || error == CUDA_NOT_INITIALIZED ||
	       error == CUDA_DEINITIALIZED || error == CUDA_STUB_LIBRARY ||
	       error == CUDA_NO_DEVICE || error == CUDA_INVALID_CONTEXT;
}

tutti_result_t tt_cuda_pointer(const void *pointer, enum tt_cuda_memory *kind, int *device)
{
	unsigned attributes[] = { CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
				  CUDA_POINTER_DEVICE };
	unsigned type = 0, managed = 0; /* of what it does not know CUDA leaves or clears them */
	int number = -1;
	void *values[] = { &type, &managed, &number };
	const cuda_result error =
		tt_cuda_is_open()
			? tt_cu.pointer_get_attributes(3, attributes, values, cuda_at(pointer))
			: CUDA_NOT_INITIALIZED;

	*kind = TT_CUDA_HOST;
	*device = -1;
	if (error)
		return means_host(error) ? TUTTI_OK
					 : tt_cuda_check(error, "ask whose memory a buffer is");
	if (!managed && type != CUDA_MEMORY_DEVICE)
		return TUTTI_OK;
	*kind = managed ? TT_CUDA_MANAGED : TT_CUDA_DEVICE;
	*device = number < 0 ? 0 : number; /* managed memory may be at home with none */
	return TUTTI_OK;
}
