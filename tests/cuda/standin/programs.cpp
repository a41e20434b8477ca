// SPDX-License-Identifier: BSD-3-Clause
// Owns the kernels of tutti-train and tutti-bench, compiled for the host.
#include <string.h>

#include "cuda_shim.h"
#include "kernel.h"
#include "trainer/device/kernels.cu"
using namespace f32;
using namespace f64;
#undef EACH // each has one of its own
#include "bench/check.cu"

#define NAMED(name)                                                                                \
	{                                                                                          \
#name, standin_call < decltype(name)> ::kernel(name)                               \
	}
#define TRAIN(name) NAMED(train_##name##_f32), NAMED(train_##name##_f64)

bool standin_program_kernel_named(const char *name, struct standin_kernel *out)
{
	static const struct {
		const char *name;
		struct standin_kernel kernel;
	} all[] = {
		TRAIN(fill),	TRAIN(store),	TRAIN(count),	   TRAIN(gather),
		TRAIN(labels),	TRAIN(bias),	TRAIN(open),	   TRAIN(close),
		TRAIN(loss),	TRAIN(descend), TRAIN(momentum),   TRAIN(nesterov),
		TRAIN(adagrad), TRAIN(adam),	NAMED(bench_fill), NAMED(bench_compare),
	};

	for (const auto &one : all) {
		if (strcmp(one.name, name) == 0) {
			*out = one.kernel;
			return true;
		}
	}
	return false;
}
