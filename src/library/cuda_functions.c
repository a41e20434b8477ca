/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns where CUDA's driver is found, and what its functions are called there. */
#include "cuda_functions.h"

static const struct tt_function functions[] = {
#define FUNCTION(member, symbol, parameters) { #symbol, offsetof(struct cuda_driver, member) },
	TT_CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

const struct tt_library tt_cuda_library = {
	.variable = "TUTTI_CUDA_LIBRARY",
	.names = { "libcuda.so.1" },
	.before = "CUDA's driver cannot be opened: ",
	.after = ": NVIDIA's driver brings it, and into containers docker run --gpus all",
	.expected = "the driver of CUDA 12.1 or newer",
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};
