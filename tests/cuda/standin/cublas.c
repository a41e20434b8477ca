/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for cuBLAS, as a library that TUTTI_CUBLAS_LIBRARY names: products of matrices in
 * memory of the stand-in's GPUs, in the order of its streams, by the definition. What is wrong
 * with a call it says as cuBLAS does; CUBLAS_FAILS=1 lets no handle be made. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#pragma GCC diagnostic ignored                                                                     \
	"-Wmissing-prototypes" /* they are of <cublas_v2.h>, which need not be there */

#define API	  __attribute__((visibility("default")))
#define DONE	  0
#define NOT_READY 1 /* CUBLAS_STATUS_NOT_INITIALIZED */
#define NO_MEMORY 3
#define INVALID	  7
#define FAILED	  13

struct CUctx_st;
struct CUstream_st;
int cuCtxGetCurrent(struct CUctx_st **context);
void *standin_real(const void *address);
int cuLaunchHostFunc(struct CUstream_st *stream, void (*function)(void *), void *data);

struct handle {
	struct CUstream_st *stream;
};

struct matrix {
	const double *numbers;
	size_t row, column; /* from one to the next */
};

struct product {
	int m, n, k;
	double alpha, beta;
	struct matrix a, b;
	double *c;
	size_t ldc;
};

API int cublasCreate_v2(struct handle **out)
{
	struct CUctx_st *context = NULL;

	if (getenv("CUBLAS_FAILS") || cuCtxGetCurrent(&context) || !context)
		return NOT_READY;
	*out = calloc(1, sizeof(**out));
	return *out ? DONE : NO_MEMORY;
}

API int cublasDestroy_v2(struct handle *handle)
{
	free(handle);
	return handle ? DONE : NOT_READY;
}

API int cublasSetStream_v2(struct handle *handle, struct CUstream_st *stream)
{
	if (!handle)
		return NOT_READY;
	handle->stream = stream;
	return DONE;
}

API const char *cublasGetStatusString(int status)
{
	switch (status) {
	case DONE: return "CUBLAS_STATUS_SUCCESS";
	case NOT_READY: return "CUBLAS_STATUS_NOT_INITIALIZED";
	case NO_MEMORY: return "CUBLAS_STATUS_ALLOC_FAILED";
	case INVALID: return "CUBLAS_STATUS_INVALID_VALUE";
	default: return "CUBLAS_STATUS_EXECUTION_FAILED";
	}
}

static void multiply(void *product_as_void)
{
	struct product *p = product_as_void;

	for (int j = 0; j < p->n; j++)
		for (int i = 0; i < p->m; i++) {
			const double *a = p->a.numbers + (size_t)i * p->a.row,
				     *b = p->b.numbers + (size_t)j * p->b.column;
			double *c = p->c + (size_t)i + (size_t)j * p->ldc, sum = 0;

			for (int l = 0; l < p->k; l++)
				sum += a[(size_t)l * p->a.column] * b[(size_t)l * p->b.row];
			*c = p->alpha * sum +
			     (p->beta == 0 ? 0 : p->beta * *c); /* with 0 nothing of `c` is read */
		}
	free(p);
}

/* Columns follow each other, `ld` apart; op 0: as it is, 1: the other way round. */
static struct matrix matrix_of(const double *numbers, int ld, int op)
{
	return op ? (struct matrix){ standin_real(numbers), (size_t)ld, 1 }
		  : (struct matrix){ standin_real(numbers), 1, (size_t)ld };
}

API int cublasDgemm_v2(struct handle *handle, int op_a, int op_b, int m, int n, int k,
		       const double *alpha, const double *a, int lda, const double *b, int ldb,
		       const double *beta, double *c, int ldc)
{
	if (!handle)
		return NOT_READY;
	if (op_a < 0 || op_a > 1 || op_b < 0 || op_b > 1 || m < 0 || n < 0 || k < 0 ||
	    lda < (op_a ? k : m) || ldb < (op_b ? n : k) || ldc < m || lda < 1 || ldb < 1 ||
	    ldc < 1 || !alpha || !beta)
		return INVALID;
	struct product *const product = malloc(sizeof(*product));

	if (!product)
		return NO_MEMORY;
	*product = (struct product){ m,
				     n,
				     k,
				     *alpha,
				     *beta,
				     matrix_of(a, lda, op_a),
				     matrix_of(b, ldb, op_b),
				     standin_real(c),
				     (size_t)ldc };
	if (cuLaunchHostFunc(handle->stream, multiply, product) == 0)
		return DONE;
	free(product);
	return FAILED;
}
