/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the primary context of each GPU, and which of them are current in which thread. */
#include "standin.h"

#include <string.h>

#define STACK 64

static struct CUctx_st contexts[DEVICES_MAX];
static _Thread_local struct {
	struct CUctx_st *stack[STACK];
	int n;
} here;

bool context_is_one(const struct CUctx_st *context)
{
	return context >= contexts && context < contexts + DEVICES_MAX;
}

cuda_result context_current(struct CUctx_st **out)
{
	struct CUctx_st *const context = here.n ? here.stack[here.n - 1] : NULL;

	if (!context)
		return CUDA_INVALID_CONTEXT;
	if (!context->retained)
		return CONTEXT_IS_DESTROYED;
	*out = context;
	return context->broken;
}

API cuda_result cuDevicePrimaryCtxRetain(struct CUctx_st **context, cuda_device device)
{
	cuda_result error = standin_enter(__func__);

	if (!error && !context)
		error = CUDA_INVALID_VALUE;
	if (!error && (device < 0 || device >= standin_devices()))
		error = INVALID_DEVICE;
	if (!error) {
		*context = &contexts[device];
		(*context)->device = device;
		(*context)->retained++;
	}
	return standin_leave(error);
}

/* All that was made in it goes with it. */
static void end_context(struct CUctx_st *context)
{
	stream_drain(context, NULL);
	stream_end_context(context);
	event_end_context(context);
	module_end_context(context);
	memory_end_context(context);
	memset(context->peers, 0, sizeof(context->peers));
	context->broken = 0;
}

API cuda_result cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
	cuda_result error = standin_enter(__func__);

	if (!error && (device < 0 || device >= standin_devices()))
		error = INVALID_DEVICE;
	if (!error && !contexts[device].retained)
		error = CUDA_INVALID_CONTEXT;
	if (!error && --contexts[device].retained == 0)
		end_context(&contexts[device]);
	return standin_leave(error);
}

API cuda_result cuCtxGetCurrent(struct CUctx_st **context)
{
	const cuda_result error = standin_enter(__func__);

	if (!error && context)
		*context = here.n ? here.stack[here.n - 1] : NULL;
	return standin_leave(error || context ? error : CUDA_INVALID_VALUE);
}

static cuda_result usable(const struct CUctx_st *context)
{
	return !context_is_one(context) ? CUDA_INVALID_CONTEXT
	       : context->retained	? 0
					: CONTEXT_IS_DESTROYED;
}

API cuda_result cuCtxPushCurrent_v2(struct CUctx_st *context)
{
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = usable(context);
	if (!error && here.n == STACK)
		error = CUDA_OUT_OF_MEMORY;
	if (!error)
		here.stack[here.n++] = context;
	return standin_leave(error);
}

API cuda_result cuCtxPopCurrent_v2(struct CUctx_st **context)
{
	cuda_result error = standin_enter(__func__);

	if (!error && !here.n)
		error = CUDA_INVALID_CONTEXT;
	if (!error) {
		here.n--;
		if (context)
			*context = here.stack[here.n];
	}
	return standin_leave(error);
}

/* Takes the place of the current one. */
API cuda_result cuCtxSetCurrent(struct CUctx_st *context)
{
	cuda_result error = standin_enter(__func__);

	if (!error && context)
		error = usable(context);
	if (!error && here.n)
		here.n--;
	if (!error && context)
		here.stack[here.n++] = context;
	return standin_leave(error);
}

API cuda_result cuCtxGetDevice(cuda_device *device)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error && !device)
		error = CUDA_INVALID_VALUE;
	if (!error)
		*device = context->device;
	return standin_leave(error);
}

API cuda_result cuCtxSynchronize(void)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error)
		error = capture_forbids();
	if (!error) {
		stream_drain(context, NULL);
		error = context->broken;
	}
	return standin_leave(error);
}

API cuda_result cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned flags)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error)
		error = usable(peer);
	if (!error && (flags || peer == context))
		error = flags ? CUDA_INVALID_VALUE : CUDA_INVALID_CONTEXT;
	if (!error && !standin_reaches(context->device, peer->device))
		error = PEER_UNSUPPORTED;
	if (!error && context->peers[peer->device])
		error = CUDA_PEER_ACCESS_ALREADY_ENABLED;
	if (!error)
		context->peers[peer->device] = true;
	return standin_leave(error);
}
