/* SPDX-License-Identifier: BSD-3-Clause */
/* cuBLAS's functions, as <cublas_v2.h> has them. It is opened at run time, as CUDA's driver is. */
#ifndef TRAIN_CUBLAS_H
#define TRAIN_CUBLAS_H

#include "gpu.h"

typedef struct cublasContext *cublas_t;

/* The matrix c = alpha × a × b + beta × c, all of numbers of one type, column after column. */
typedef int cublas_multiply_t(cublas_t, int a_transposed, int b_transposed, int m, int n, int k,
			      const void *alpha, const void *a, int a_width, const void *b,
			      int b_width, const void *beta, void *c, int c_width);

struct cublas {
	int (*create)(cublas_t *);
	int (*destroy)(cublas_t);
	int (*set_stream)(cublas_t, gpu_stream_t);
	cublas_multiply_t *multiply_f32, *multiply_f64;
	const char *(*text)(int);
};

/* NULL: why says why. */
const struct cublas *cublas_open(void);

#endif
