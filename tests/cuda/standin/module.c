/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns modules and their functions: whatever the image, they are the kernels that are compiled
 * into this library. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 1024
#define SHARED_MAX  49152

struct CUfunc_st {
	struct CUfunc_st *next;
	struct CUmod_st *module;
	struct standin_kernel kernel;
	bool loaded; /* by a look at it, or its first launch */
};

struct CUmod_st {
	struct CUmod_st *next;
	struct CUctx_st *context;
	struct CUfunc_st *functions;
};

static struct CUmod_st *modules;

static bool is_module(const struct CUmod_st *module)
{
	for (const struct CUmod_st *at = modules; at; at = at->next) {
		if (at == module)
			return true;
	}
	return false;
}

static bool is_function(const struct CUfunc_st *function)
{
	for (const struct CUmod_st *module = modules; module; module = module->next) {
		for (const struct CUfunc_st *at = module->functions; at; at = at->next) {
			if (at == function)
				return true;
		}
	}
	return false;
}

static void forget(struct CUmod_st **at)
{
	struct CUmod_st *const module = *at;

	*at = module->next;
	for (struct CUfunc_st *function = module->functions, *next; function; function = next) {
		next = function->next;
		free(function);
	}
	free(module);
}

void module_end_context(const struct CUctx_st *context)
{
	for (struct CUmod_st **at = &modules; *at;) {
		if ((*at)->context == context)
			forget(at);
		else
			at = &(*at)->next;
	}
}

API cuda_result cuModuleLoadData(struct CUmod_st **module, const void *image)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error)
		error = module && image ? capture_forbids() : CUDA_INVALID_VALUE;
	struct CUmod_st *const made = error ? NULL : calloc(1, sizeof(*made));

	if (!error && !made)
		error = CUDA_OUT_OF_MEMORY;
	if (!error) {
		stream_drain(context, NULL); /* as the driver may */
		*made = (struct CUmod_st){ .next = modules, .context = context };
		*module = modules = made;
	}
	return standin_leave(error);
}

API cuda_result cuModuleUnload(struct CUmod_st *module)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error)
		error = is_module(module) ? capture_forbids() : INVALID_HANDLE;
	if (!error) {
		struct CUmod_st **at = &modules;

		while (*at != module)
			at = &(*at)->next;
		forget(at);
	}
	return standin_leave(error);
}

API cuda_result cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module,
				    const char *name)
{
	cuda_result error = standin_enter(__func__);

	if (!error && (!function || !name))
		error = CUDA_INVALID_VALUE;
	if (!error && !is_module(module))
		error = INVALID_HANDLE;
	struct standin_kernel kernel;

	if (!error && !standin_kernel_named(name, &kernel))
		error = NOT_FOUND;
	struct CUfunc_st *const made = error ? NULL : calloc(1, sizeof(*made));

	if (!error && !made)
		error = CUDA_OUT_OF_MEMORY;
	if (!error) {
		*made = (struct CUfunc_st){ .next = module->functions,
					    .module = module,
					    .kernel = kernel };
		*function = module->functions = made;
	}
	return standin_leave(error);
}

/* As drivers do that load lazily: what the GPU was given before is done first. */
static void load(struct CUfunc_st *function)
{
	if (!function->loaded)
		stream_drain(function->module->context, NULL);
	function->loaded = true;
}

API cuda_result cuFuncGetAttribute(int *value, unsigned attribute, struct CUfunc_st *function)
{
	cuda_result error = standin_enter(__func__);

	if (!error && !is_function(function))
		error = INVALID_HANDLE;
	if (!error && (!value || attribute > 4))
		error = CUDA_INVALID_VALUE;
	if (!error)
		load(function);
	if (!error)
		*value = attribute == CUDA_FUNCTION_THREADS ? THREADS_MAX
			 : attribute == 4		    ? 32
					  : 0; /* 4: registers; else bytes of memories */
	return standin_leave(error);
}

static bool fits(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes)
{
	for (int i = 0; i < 3; i++) {
		if (!grid[i] || !block[i] || block[i] > THREADS_MAX ||
		    grid[i] > (i ? 65535u : 0x7fffffffu))
			return false;
	}
	return block[2] <= 64 && (uint64_t)block[0] * block[1] * block[2] <= THREADS_MAX &&
	       shared_bytes <= SHARED_MAX;
}

static struct work *work_of(const struct CUfunc_st *function, const unsigned grid[3],
			    const unsigned block[3], void **parameters)
{
	struct work *const work = work_new(WORK_KERNEL);

	if (!work)
		return NULL;
	work->launch.kernel = function->kernel;
	work->launch.spoils =
		function->kernel.library == STANDIN_PROGRAM && getenv("STANDIN_SPOILS");
	for (int i = 0; i < 3; i++) {
		work->launch.grid[i] = grid[i];
		work->launch.block[i] = block[i];
	}
	size_t at = 0;

	for (unsigned i = 0; i < function->kernel.count; i++) {
		memcpy(work->launch.arguments + at, parameters[i], function->kernel.bytes[i]);
		at = standin_argument_end(at, function->kernel.bytes[i]);
	}
	return work;
}

static bool all_there(const struct CUfunc_st *function, void **parameters)
{
	for (unsigned i = 0; i < function->kernel.count; i++) {
		if (!parameters || !parameters[i])
			return false;
	}
	return true;
}

API cuda_result cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y,
			       unsigned grid_z, unsigned block_x, unsigned block_y,
			       unsigned block_z, unsigned shared_bytes, struct CUstream_st *handle,
			       void **parameters, void **extra)
{
	const unsigned grid[] = { grid_x, grid_y, grid_z }, block[] = { block_x, block_y, block_z };
	struct CUctx_st *context;
	struct CUstream_st *stream;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error && !is_function(function))
		error = INVALID_HANDLE;
	if (!error)
		error = stream_use(handle, &stream);
	if (!error && (stream->context != context || function->module->context != context))
		error = INVALID_HANDLE;
	if (!error &&
	    (!fits(grid, block, shared_bytes) || !all_there(function, parameters) || extra))
		error = CUDA_INVALID_VALUE;
	if (!error)
		load(function);
	if (!error)
		error = stream_append(stream, work_of(function, grid, block, parameters));
	return standin_leave(error);
}
