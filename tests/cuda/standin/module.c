/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns modules and their functions: whatever the image, they are the kernels that are compiled
 * into this library. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 1024
#define SHARED_MAX  49152

struct CUfunc_st {
	struct made made;
	struct CUmod_st *module;
	struct standin_kernel kernel;
	bool loaded; /* by a look at it, or its first launch */
};

struct CUmod_st {
	struct made made;
};

CALL_OUTSIDE(cuModuleLoadData, (module, image), struct CUmod_st **module, const void *image)
{
	if (!module || !image)
		return CUDA_INVALID_VALUE;
	stream_drain(context_here(), NULL); /* as the driver may */
	*module = make(MODULES, sizeof(**module), context_here());
	return 0;
}

CALL_OUTSIDE(cuModuleUnload, (module), struct CUmod_st *module)
{
	if (!is_made(MODULES, module))
		return INVALID_HANDLE;
	for (struct CUfunc_st *function = next_made(FUNCTIONS, NULL), *next; function;
	     function = next) {
		next = next_made(FUNCTIONS, function);
		if (function->module == module)
			unmake(function);
	}
	unmake(module);
	return 0;
}

CALL(cuModuleGetFunction, (function, module, name), struct CUfunc_st **function,
     struct CUmod_st *module, const char *name)
{
	struct standin_kernel kernel;

	if (!function || !name)
		return CUDA_INVALID_VALUE;
	if (!is_made(MODULES, module))
		return INVALID_HANDLE;
	if (!standin_kernel_named(name, &kernel))
		return NOT_FOUND;
	*function = make(FUNCTIONS, sizeof(**function), module->made.context);
	(*function)->module = module;
	(*function)->kernel = kernel;
	return 0;
}

/* As drivers do that load lazily: what the GPU was given before is done first. */
static void load(struct CUfunc_st *function)
{
	if (!function->loaded)
		stream_drain(function->made.context, NULL);
	function->loaded = true;
}

CALL(cuFuncGetAttribute, (value, attribute, function), int *value, unsigned attribute,
     struct CUfunc_st *function)
{
	if (!is_made(FUNCTIONS, function))
		return INVALID_HANDLE;
	if (!value || attribute > 4)
		return CUDA_INVALID_VALUE;
	load(function);
	*value = attribute == CUDA_FUNCTION_THREADS ? THREADS_MAX
		 : attribute == 4		    ? 32
						    : 0; /* 4: registers; else bytes of memories */
	return 0;
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

/* Blocks of the largest grid of the library's kernels, for tests. */
static unsigned most_blocks;

API unsigned standin_blocks(int to, int from)
{
	return __atomic_load_n(&most_blocks, __ATOMIC_RELAXED);
}

CALL_HERE(cuLaunchKernel,
	  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, handle,
	   parameters, extra),
	  struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
	  struct CUstream_st *handle, void **parameters, void **extra)
{
	const unsigned grid[] = { grid_x, grid_y, grid_z }, block[] = { block_x, block_y, block_z };
	const struct CUctx_st *const context = context_here();
	const cuda_result error = stream_usable(handle);

	if (!is_made(FUNCTIONS, function))
		return INVALID_HANDLE;
	if (error)
		return error;
	struct CUstream_st *const stream = stream_of(handle);
	if (stream->made.context != context || function->made.context != context)
		return INVALID_HANDLE;
	if (!fits(grid, block, shared_bytes) || !all_there(function, parameters) || extra)
		return CUDA_INVALID_VALUE;
	load(function);
	if (function->kernel.library == STANDIN_PROGRAM &&
	    grid_x > __atomic_load_n(&most_blocks, __ATOMIC_RELAXED))
		__atomic_store_n(&most_blocks, grid_x, __ATOMIC_RELAXED);
	return stream_append(stream, work_of(function, grid, block, parameters));
}
