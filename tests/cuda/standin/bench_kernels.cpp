// SPDX-License-Identifier: BSD-3-Clause
// Owns the kernels of tutti-bench, compiled for the host.
#include <string.h>

#include "cuda_shim.h"
#include "kernel.h"
#include "bench/check.cu"

bool standin_bench_kernel_named(const char *name, struct standin_kernel *out)
{
	if (strcmp(name, "bench_fill") == 0)
		*out = standin_call<decltype(bench_fill)>::kernel(bench_fill);
	else if (strcmp(name, "bench_compare") == 0)
		*out = standin_call<decltype(bench_compare)>::kernel(bench_compare);
	else
		return false;
	return true;
}
