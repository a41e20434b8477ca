/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the one place where contributions are combined: built-in operations by kernels, a user's by its function. */
#include <string.h>

#include "op.h"

#define CHUNK_BYTES 4096

static const void *aligned(const void *src, void *copy, size_t element, size_t bytes)
{
	if ((uintptr_t)src % element == 0)
		return src;
	memcpy(copy, src, bytes); /* a user's function may rely on alignment; arrived bytes have none */
	return copy;
}

static void combine_user(const struct tt_op *op, uint8_t *dst, const void *const *src, unsigned nsrc,
			 size_t elements)
{
	_Alignas(64) uint8_t sum[CHUNK_BYTES], in[CHUNK_BYTES];
	const struct tt_user_op *user = op->plan->user_op;
	const size_t element = op->element, step = CHUNK_BYTES / element;

	for (size_t done = 0; done < elements; done += step) {
		const size_t n = elements - done < step ? elements - done : step;

		memcpy(sum, (const uint8_t *)src[0] + done * element, n * element);
		for (unsigned i = 1; i < nsrc; i++)
			user->function(sum,
				       aligned((const uint8_t *)src[i] + done * element, in, element,
					       n * element),
				       n, op->plan->call.dtype, user->context);
		memcpy(dst + done * element, sum, n * element);
	}
}

void tt_combine(const struct tt_op *op, void *dst, const void *const *src, unsigned nsrc,
		size_t elements, bool final)
{
	const struct tt_plan *plan = op->plan;

	if (plan->reduce)
		plan->reduce(dst, src, nsrc, elements);
	else
		combine_user(op, dst, src, nsrc, elements);
	if (final && plan->call.op == TUTTI_AVG)
		op->comm->kernels->divide[plan->call.dtype](dst, dst, elements, (unsigned)op->comm->size);
}
