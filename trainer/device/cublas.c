/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the use of cuBLAS. In float64 its products are of full precision unless somebody asks
 * otherwise; TF32 is for float32 alone. */
#include "cublas.h"

#include <stddef.h>

#include "library.h"

static struct blas {
	int (*create)(cublas_t *);
	int (*destroy)(cublas_t);
	int (*set_stream)(cublas_t, gpu_stream_t);
	int (*multiply)(cublas_t, int, int, int, int, int, const double *, const double *, int,
			const double *, int, const double *, double *, int);
	const char *(*text)(int);
} blas;

static const struct tt_function functions[] = {
	{ "cublasGetStatusString", offsetof(struct blas, text), false },
	{ "cublasCreate_v2", offsetof(struct blas, create), false },
	{ "cublasDestroy_v2", offsetof(struct blas, destroy), false },
	{ "cublasSetStream_v2", offsetof(struct blas, set_stream), false },
	{ "cublasDgemm_v2", offsetof(struct blas, multiply), false },
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

static bool open_cublas(void)
{
	static bool open;
	char trouble[TT_LIBRARY_WHY];

	open = open || tt_library_open(&library, &blas, trouble);
	return open || why_set(TUTTI_ERR_UNSUPPORTED, "--device cuda: %s", trouble);
}

static bool did(const char *what, int status)
{
	return !status ||
	       why_set(TUTTI_ERR_SYSTEM, "cuBLAS failed to %s: %s", what, blas.text(status));
}

bool cublas_create(gpu_stream_t stream, cublas_t *out)
{
	return open_cublas() && did("begin", blas.create(out)) &&
	       did("take a stream", blas.set_stream(*out, stream));
}

void cublas_free(cublas_t cublas)
{
	if (cublas)
		blas.destroy(cublas);
}

/* cuBLAS has columns where we have rows: to it each matrix is its transpose, and cᵀ = bᵀ × aᵀ. */
bool cublas_multiply(cublas_t cublas, size_t m, size_t n, size_t k, struct matrix a,
		     struct matrix b, double keep, double *c)
{
	static const double one = 1;

	return did("multiply", blas.multiply(cublas, b.transposed, a.transposed, (int)n, (int)m,
					     (int)k, &one, b.numbers, (int)b.width, a.numbers,
					     (int)a.width, &keep, c, (int)n));
}
