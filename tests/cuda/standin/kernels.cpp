// SPDX-License-Identifier: BSD-3-Clause
// Owns the library's kernels, compiled for the host, and how a grid of them runs.
#include <dlfcn.h>

#include "cuda_shim.h"
#include "cuda/kernels.cu"

extern "C" {

typedef void standin_kernel(struct tt_cuda_part part, struct tt_cuda_sync sync);

// of the section that __global__ puts kernels into
extern const char __start_standin_kernels[] __attribute__((visibility("hidden")));
extern const char __stop_standin_kernels[] __attribute__((visibility("hidden")));

__attribute__((visibility("hidden"))) standin_kernel *standin_kernel_named(const char *name)
{
	Dl_info self;

	if (!dladdr((const void *)&standin_kernel_named, &self))
		return nullptr;
	void *const library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	const char *const found = library ? (const char *)dlsym(library, name) : nullptr;

	if (library)
		dlclose(library);
	return found >= __start_standin_kernels && found < __stop_standin_kernels ? (standin_kernel *)found : nullptr;
}

static void run_block(standin_kernel *kernel, const struct tt_cuda_part *part, const struct tt_cuda_sync *sync)
{
	for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) {
		for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) {
			for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
				kernel(*part, *sync);
		}
	}
}

__attribute__((visibility("hidden"))) void standin_kernel_run(standin_kernel *kernel, const unsigned grid[3], const unsigned block[3],
							      const struct tt_cuda_part *part, const struct tt_cuda_sync *sync)
{
	gridDim = { grid[0], grid[1], grid[2] };
	blockDim = { block[0], block[1], block[2] };
	for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) {
		for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) {
			for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
				run_block(kernel, part, sync);
		}
	}
}
}
