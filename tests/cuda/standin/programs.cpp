// SPDX-License-Identifier: BSD-3-Clause
// Owns the kernels of tutti-train and tutti-bench, compiled for the host.
#include <string.h>

#include "cuda_shim.h"
#include "kernel.h"
#include "trainer/device/kernels.cu"
#undef EACH // each has one of its own
#include "bench/check.cu"

#define NAMED(name)                                                                                \
	{                                                                                          \
#name, standin_call < decltype(name)> ::kernel(name)                               \
	}

bool standin_program_kernel_named(const char *name, struct standin_kernel *out)
{
	static const struct {
		const char *name;
		struct standin_kernel kernel;
	} all[] = {
		NAMED(train_gather), NAMED(train_bias),	 NAMED(train_relu),
		NAMED(train_loss),   NAMED(train_close), NAMED(train_update),
		NAMED(train_count),  NAMED(bench_fill),	 NAMED(bench_compare),
	};

	for (const auto &one : all) {
		if (strcmp(one.name, name) == 0) {
			*out = one.kernel;
			return true;
		}
	}
	return false;
}
