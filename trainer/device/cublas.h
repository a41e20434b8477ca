/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of matrices on a GPU. cuBLAS is opened at run time, as CUDA's driver is. */
#ifndef TRAIN_CUBLAS_H
#define TRAIN_CUBLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu.h"
#include "why.h"

typedef struct cublasContext *cublas_t;

/* For the GPU that the thread has entered. What it does is put on `stream`. */
bool cublas_create(gpu_stream_t stream, cublas_t *out);
void cublas_free(cublas_t cublas); /* NULL is allowed */

/* A matrix in memory of the GPU, row after row. */
struct matrix {
	const double *numbers;
	size_t width;	 /* from one row to the next */
	bool transposed; /* what is meant is its transpose */
};

/* The m × n matrix `c` = a × b + `keep` × c, of which `a` has k columns. */
bool cublas_multiply(cublas_t cublas, size_t m, size_t n, size_t k, struct matrix a,
		     struct matrix b, double keep, double *c);

#endif
