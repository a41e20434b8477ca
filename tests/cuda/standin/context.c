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

struct CUctx_st *context_here(void)
{
	return here.n ? here.stack[here.n - 1] : NULL;
}

cuda_result context_error(void)
{
	const struct CUctx_st *const context = context_here();

	return !context		   ? CUDA_INVALID_CONTEXT
	       : context->retained ? context->broken
				   : CONTEXT_IS_DESTROYED;
}

CALL_AFTER(standin_has(device) ? 0 : INVALID_DEVICE, cuDevicePrimaryCtxRetain, (context, device),
	   struct CUctx_st **context, cuda_device device)
{
	if (!context)
		return CUDA_INVALID_VALUE;
	*context = &contexts[device];
	(*context)->device = device;
	(*context)->retained++;
	return 0;
}

/* All that was made in it goes with it. */
static void end_context(struct CUctx_st *context)
{
	stream_drain(context, NULL);
	stream_end_context(context);
	unmake_all_of(context, EVENTS, event_forget);
	unmake_all_of(context, FUNCTIONS, unmake);
	unmake_all_of(context, MODULES, unmake);
	unmake_all_of(context, MEMORIES, memory_forget);
	memset(context->peers, 0, sizeof(context->peers));
	context->broken = 0;
}

CALL_AFTER(standin_has(device) ? 0 : INVALID_DEVICE, cuDevicePrimaryCtxRelease_v2, (device),
	   cuda_device device)
{
	struct CUctx_st *const context = &contexts[device];

	if (!context->retained)
		return CUDA_INVALID_CONTEXT;
	if (--context->retained == 0)
		end_context(context);
	return 0;
}

CALL(cuCtxGetCurrent, (context), struct CUctx_st **context)
{
	if (!context)
		return CUDA_INVALID_VALUE;
	*context = context_here();
	return 0;
}

static cuda_result usable(const struct CUctx_st *context)
{
	return context < contexts || context >= contexts + DEVICES_MAX ? CUDA_INVALID_CONTEXT
	       : context->retained				       ? 0
								       : CONTEXT_IS_DESTROYED;
}

CALL_AFTER(usable(context), cuCtxPushCurrent_v2, (context), struct CUctx_st *context)
{
	if (here.n == STACK)
		return CUDA_OUT_OF_MEMORY;
	here.stack[here.n++] = context;
	return 0;
}

CALL(cuCtxPopCurrent_v2, (context), struct CUctx_st **context)
{
	if (!here.n)
		return CUDA_INVALID_CONTEXT;
	here.n--;
	if (context)
		*context = here.stack[here.n];
	return 0;
}

/* Takes the place of the current one. */
CALL_AFTER(context ? usable(context) : 0, cuCtxSetCurrent, (context), struct CUctx_st *context)
{
	if (here.n)
		here.n--;
	if (context)
		here.stack[here.n++] = context;
	return 0;
}

CALL_HERE(cuCtxGetDevice, (device), cuda_device *device)
{
	if (!device)
		return CUDA_INVALID_VALUE;
	*device = context_here()->device;
	return 0;
}

CALL_OUTSIDE(cuCtxSynchronize, (), void)
{
	stream_drain(context_here(), NULL);
	return context_here()->broken;
}

CALL_HERE(cuCtxEnablePeerAccess, (peer, flags), struct CUctx_st *peer, unsigned flags)
{
	struct CUctx_st *const context = context_here();
	const cuda_result error = usable(peer);

	if (error)
		return error;
	if (flags || peer == context)
		return flags ? CUDA_INVALID_VALUE : CUDA_INVALID_CONTEXT;
	if (!standin_reaches(context->device, peer->device))
		return PEER_UNSUPPORTED;
	if (context->peers[peer->device])
		return CUDA_PEER_ACCESS_ALREADY_ENABLED;
	context->peers[peer->device] = true;
	return 0;
}
