/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the one place where contributions are combined: built-in operations by kernels, a user's
 * by its function. */
#include <string.h>

#include "callback.h"
#include "plan.h"

#define CHUNK_BYTES 4096

/* In several steps, averages of so many ranks travel where sums of the type would overflow soon. */
void tt_combine_choose(const struct tt_kernels *kernels, struct tt_plan *plan)
{
	const tutti_op_t op = plan->call.op;
	const tutti_dtype_t dtype = plan->call.dtype;
	const struct tt_narrow_kernels *narrow = &kernels->narrow[plan->wire];

	plan->partial_averages = op == TUTTI_AVG && !plan->algorithm->one_fold &&
				 (plan->wire || kernels->mean[dtype]);
	if (plan->wire) {
		plan->reduce = narrow->sum;
		plan->average = op == TUTTI_AVG ? narrow->average : NULL;
		return;
	}
	if (plan->user_op && !plan->user_op->function)
		plan->reduce = kernels->reduce[TUTTI_SUM][dtype];
	else if (op >= 0 && op < TUTTI_OP_COUNT)
		plan->reduce = kernels->reduce[op][dtype];
	if (op != TUTTI_AVG)
		return;
	plan->average = kernels->average[dtype];
	if (plan->partial_averages)
		plan->mean = kernels->mean[dtype];
}

static const void *aligned(const void *src, void *copy, size_t element, size_t bytes)
{
	if ((uintptr_t)src % element == 0)
		return src;
	memcpy(copy, src, bytes); /* a user's function may rely on alignment; arrived bytes have
				   * none */
	return copy;
}

static void call_user(const struct tt_user_op *user, void *inout, const void *in, size_t count,
		      tutti_dtype_t dtype)
{
	TT_CALLBACK callback =
		tt_callback_begin_alone("an operation of tutti_op_create()", user->calls);

	user->function(inout, in, count, dtype, user->context);
	tt_callback_end(&callback);
}

static void combine_user(const struct tt_plan *plan, uint8_t *dst, const void *const *src,
			 unsigned nsrc, size_t elements)
{
	_Alignas(64) uint8_t sum[CHUNK_BYTES], in[CHUNK_BYTES];
	const struct tt_user_op *user = plan->user_op;
	const size_t element = plan->element, step = CHUNK_BYTES / element;

	for (size_t done = 0; done < elements; done += step) {
		const size_t n = elements - done < step ? elements - done : step;

		memcpy(sum, (const uint8_t *)src[0] + done * element, n * element);
		for (unsigned i = 1; i < nsrc; i++)
			call_user(user, sum,
				  aligned((const uint8_t *)src[i] + done * element, in, element,
					  n * element),
				  n, plan->call.dtype);
		memcpy(dst + done * element, sum, n * element);
	}
}

/* The incoming operand of a message is the left or the right one. */
static void combine_means(const struct tt_plan *plan, const struct tt_step *step, void *dst,
			  const void *const *src, size_t elements)
{
	const double ranks = (double)step->mine + step->theirs;
	const float mine = (float)(step->mine / ranks), theirs = (float)(step->theirs / ranks);
	const float share[2] = { step->left ? theirs : mine, step->left ? mine : theirs };

	plan->mean(dst, src, share, elements);
}

static void combine_average(const struct tt_plan *plan, int ranks, const struct tt_step *step,
			    void *dst, const void *const *src, unsigned nsrc, size_t elements)
{
	if (plan->mean && step->kind == TT_STEP_RECV_REDUCE)
		combine_means(plan, step, dst, src, elements);
	else if (plan->partial_averages && nsrc > 1) /* each is of as many ranks */
		plan->average(dst, src, nsrc, elements, nsrc);
	else if (step->final)
		plan->average(dst, src, nsrc, elements, (unsigned)ranks);
	else
		plan->reduce(dst, src, nsrc, elements);
}

void tt_combine(const struct tt_plan *plan, int ranks, const struct tt_step *step, void *dst,
		const void *const *src, unsigned nsrc, size_t elements)
{
	if (plan->average)
		combine_average(plan, ranks, step, dst, src, nsrc, elements);
	else if (plan->reduce)
		plan->reduce(dst, src, nsrc, elements);
	else
		combine_user(plan, dst, src, nsrc, elements);
}
