/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the use of cuBLAS. In float64 its products are of full precision unless somebody asks otherwise; TF32 is for float32 alone. */
#include "cublas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct {
	int (*create)(cublas_t *);
	int (*destroy)(cublas_t);
	int (*set_stream)(cublas_t, gpu_stream_t);
	int (*multiply)(cublas_t, int, int, int, int, int, const double *, const double *, int, const double *, int, const double *, double *, int);
	const char *(*text)(int);
} blas;

static const struct {
	const char *name;
	void *at;
} functions[] = {
	{ "cublasCreate_v2", &blas.create },	   { "cublasDestroy_v2", &blas.destroy },	  { "cublasSetStream_v2", &blas.set_stream },
	{ "cublasDgemm_v2", &blas.multiply }, { "cublasGetStatusString", &blas.text },
};

static void *open_library(const char **name, struct why *why)
{
	static const char *const names[] = { "libcublas.so.13", "libcublas.so.12" };
	const char *set = getenv("TUTTI_CUBLAS_LIBRARY");
	void *library = NULL;

	*name = set && *set ? set : names[0];
	if (set && *set)
		library = dlopen(set, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !(set && *set) && !library && i < sizeof(names) / sizeof(names[0]); i++) {
		*name = names[i];
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	}
	if (!library)
		why_set(why, TUTTI_ERR_UNSUPPORTED,
			"--device cuda: cuBLAS was not found: %s; expected libcublas.so of CUDA 12 or 13, where the dynamic linker finds it (LD_LIBRARY_PATH) or named by "
			"TUTTI_CUBLAS_LIBRARY",
			dlerror());
	return library;
}

static tutti_result_t open_cublas(struct why *why)
{
	const char *name;
	void *const library = blas.create ? NULL : open_library(&name, why);

	if (!library)
		return blas.create ? TUTTI_OK : TUTTI_ERR_UNSUPPORTED;
	for (size_t i = sizeof(functions) / sizeof(functions[0]); i-- > 0;) { /* `create` comes last */
		void *const function = dlsym(library, functions[i].name);

		if (!function)
			return why_set(why, TUTTI_ERR_UNSUPPORTED, "--device cuda: %s has no %s: expected cuBLAS of CUDA 12 or 13", name, functions[i].name);
		memcpy(functions[i].at, &function, sizeof(function));
	}
	return TUTTI_OK;
}

static tutti_result_t failed(const char *what, int status, struct why *why)
{
	return status ? why_set(why, TUTTI_ERR_SYSTEM, "cuBLAS failed to %s: %s", what, blas.text(status)) : TUTTI_OK;
}

tutti_result_t cublas_create(gpu_stream_t stream, cublas_t *out, struct why *why)
{
	cublas_t cublas = NULL;
	tutti_result_t result = open_cublas(why);

	if (result == TUTTI_OK)
		result = failed("begin", blas.create(&cublas), why);
	if (result != TUTTI_OK)
		return result;
	result = failed("take a stream", blas.set_stream(cublas, stream), why);
	if (result != TUTTI_OK) {
		cublas_free(cublas);
		return result;
	}
	*out = cublas;
	return TUTTI_OK;
}

void cublas_free(cublas_t cublas)
{
	if (cublas)
		blas.destroy(cublas);
}

/* cuBLAS has columns where we have rows: to it each matrix is its transpose, and cᵀ = bᵀ × aᵀ. */
tutti_result_t cublas_multiply(cublas_t cublas, size_t m, size_t n, size_t k, struct matrix a, struct matrix b, double keep, double *c, struct why *why)
{
	static const double one = 1;

	return failed("multiply",
		      blas.multiply(cublas, b.transposed, a.transposed, (int)n, (int)m, (int)k, &one, b.numbers, (int)b.width, a.numbers, (int)a.width, &keep, c,
				    (int)n),
		      why);
}
