/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns cuBLAS's functions. */
#include "cublas.h"

#include <stddef.h>

#include "library.h"
#include "why.h"

static const struct tt_function functions[] = {
	{ "cublasGetStatusString", offsetof(struct cublas, text), false },
	{ "cublasCreate_v2", offsetof(struct cublas, create), false },
	{ "cublasDestroy_v2", offsetof(struct cublas, destroy), false },
	{ "cublasSetStream_v2", offsetof(struct cublas, set_stream), false },
	{ "cublasSgemm_v2", offsetof(struct cublas, multiply_f32), false },
	{ "cublasDgemm_v2", offsetof(struct cublas, multiply_f64), false },
};

static const struct tt_library library = {
	.variable = "TUTTI_CUBLAS_LIBRARY",
	.names = { "libcublas.so.13", "libcublas.so.12" },
	.before = "cuBLAS was not found: ",
	.after =
		"; expected libcublas.so of CUDA 12 or 13, where the dynamic linker finds it (LD_LIBRARY_PATH) or named by TUTTI_CUBLAS_LIBRARY",
	.expected = "cuBLAS of CUDA 12 or 13",
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

const struct cublas *cublas_open(void)
{
	static struct cublas cublas;
	static bool open;
	char trouble[TT_LIBRARY_WHY];

	open = open || tt_library_open(&library, &cublas, trouble) ||
	       why_set(TUTTI_ERR_UNSUPPORTED, "--device cuda: %s", trouble);
	return open ? &cublas : NULL;
}
