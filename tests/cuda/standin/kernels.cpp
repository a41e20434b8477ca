// SPDX-License-Identifier: BSD-3-Clause
// Owns the library's kernels, compiled for the host, and how a grid of any runs.
#include <dlfcn.h>
#include <string.h>

#include "cuda_shim.h"
#include "cuda/kernels.cu"
#include "kernel.h"

typedef void library_kernel(struct tt_cuda_part part, struct tt_cuda_sync sync);

extern "C" {

// of the section that __global__ puts kernels into
extern const char __start_standin_kernels[] __attribute__((visibility("hidden")));
extern const char __stop_standin_kernels[] __attribute__((visibility("hidden")));
}

// tests/gpu/probe's own
static void probe_nothing(void)
{
}

bool standin_kernel_named(const char *name, struct standin_kernel *out)
{
	Dl_info self;

	if (strcmp(name, "probe_nothing") == 0) {
		*out = standin_call<void()>::kernel(probe_nothing);
		return true;
	}
	if (standin_train_kernel_named(name, out) || standin_bench_kernel_named(name, out))
		return true;
	if (!dladdr((const void *)&standin_kernel_named, &self))
		return false;
	void *const library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	const char *const found = library ? (const char *)dlsym(library, name) : nullptr;

	if (library)
		dlclose(library);
	if (found < __start_standin_kernels || found >= __stop_standin_kernels)
		return false;
	*out = standin_call<library_kernel>::kernel((library_kernel *)found);
	out->of_library = true;
	return true;
}

static void run_block(const struct standin_kernel *kernel, const void *const *arguments)
{
	for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) {
		for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) {
			for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
				kernel->call(kernel->function, arguments);
		}
	}
}

void standin_kernel_run(const struct standin_kernel *kernel, const unsigned grid[3],
			const unsigned block[3], const char *arguments)
{
	const void *each[ARGUMENTS_MAX];
	size_t at = 0;

	for (unsigned i = 0; i < kernel->count; i++) {
		each[i] = arguments + at;
		at = standin_argument_end(at, kernel->bytes[i]);
	}
	gridDim = { grid[0], grid[1], grid[2] };
	blockDim = { block[0], block[1], block[2] };
	for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) {
		for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) {
			for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
				run_block(kernel, each);
		}
	}
}
