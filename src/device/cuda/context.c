/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the thread's CUDA context for the time of a call: that of the communicator's device,
 * which CUDA's runtime uses, too. */
#include "bound.h"
#include "log.h"

cuda_result tt_cuda_enter(struct CUctx_st *context, struct tt_cuda_entered *entered)
{
	const cuda_result error = tt_cu.context_push(context);

	*entered = (struct tt_cuda_entered){ !error, CUDA_CAPTURE_RELAXED };
	if (!error)
		tt_cu.thread_capture_mode(&entered->mode); /* exchanges them */
	return error;
}

void tt_cuda_leave(struct tt_cuda_entered *entered)
{
	struct CUctx_st *popped;

	if (!entered->there)
		return;
	tt_cu.thread_capture_mode(&entered->mode);
	tt_cu.context_pop(&popped);
}

static tutti_result_t refuse_context(const struct tt_cuda *cuda, const char *call)
{
	cuda_device device;

	if (tt_cu.context_get_device(&device) == 0 && device != cuda->device)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"%s: the thread's current GPU is %d, the communicator is bound to GPU %d: call cudaSetDevice(%d) first",
			call, (int)device, cuda->number, cuda->number);
	return tt_fail(
		TUTTI_ERR_INVALID, CUDA,
		"%s: the thread's current context of GPU %d is not the primary one, which the communicator uses: call cudaSetDevice(%d), or "
		"cuCtxSetCurrent() with what cuDevicePrimaryCtxRetain() gives",
		call, cuda->number, cuda->number);
}

tutti_result_t tt_cuda_enter_for(const struct tt_cuda *cuda, const char *call,
				 struct CUstream_st *stream, struct tt_cuda_entered *entered)
{
	struct CUctx_st *current = NULL, *of = NULL;
	cuda_result error = tt_cu.context_get_current(&current);

	entered->there = false;
	if (!error && current && current != cuda->context)
		return refuse_context(cuda, call);
	if (!error && !current)
		error = tt_cuda_enter(cuda->context, entered);
	if (!error && stream)
		error = tt_cu.stream_get_context(stream, &of);
	if (error) {
		tt_cuda_leave(entered);
		return tt_cuda_check(error, "query the stream's context");
	}
	if (!stream || of == cuda->context)
		return TUTTI_OK;
	tt_cuda_leave(entered);
	return tt_fail(
		TUTTI_ERR_INVALID, CUDA,
		"%s: the stream is of another device or context, expected one of GPU %d, to which the communicator is bound",
		call, cuda->number);
}

cuda_result tt_cuda_copy_now(const struct tt_cuda *cuda, cuda_address dst, cuda_address src,
			     size_t bytes)
{
	const cuda_result error = tt_cu.mem_copy(dst, src, bytes, cuda->setup);

	return error ? error : tt_cu.stream_synchronize(cuda->setup);
}
