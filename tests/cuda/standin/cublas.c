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

/* In bytes, from one row and column to the next. */
struct matrix {
	char *numbers;
	size_t row, column;
};

struct product {
	bool f64;
	int m, n, k;
	double alpha, beta;
	struct matrix a, b, c;
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

static void *place(const struct matrix *matrix, int row, int column)
{
	return matrix->numbers + (size_t)row * matrix->row + (size_t)column * matrix->column;
}

static double read(const struct product *p, const void *number)
{
	return p->f64 ? *(const double *)number : (double)*(const float *)number;
}

/* With sums of double numbers, as float32's are of more bits than its own on a GPU, too. */
static void multiply_one(const struct product *p, int i, int j)
{
	void *const c = place(&p->c, i, j);
	double sum = 0;

	for (int l = 0; l < p->k; l++)
		sum += read(p, place(&p->a, i, l)) * read(p, place(&p->b, l, j));
	/* with 0 nothing of `c` is read */
	sum = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * read(p, c));
	if (p->f64)
		*(double *)c = sum;
	else
		*(float *)c = (float)sum;
}

static void multiply(void *product_as_void)
{
	struct product *p = product_as_void;

	for (int j = 0; j < p->n; j++)
		for (int i = 0; i < p->m; i++)
			multiply_one(p, i, j);
	free(p);
}

/* Columns follow each other, `ld` apart; op 0: as it is, 1: the other way round. */
static struct matrix matrix_of(const void *numbers, size_t ld, int op, size_t size)
{
	return (struct matrix){ standin_real(numbers), size * (op ? ld : 1), size * (op ? 1 : ld) };
}

static int enqueue(struct handle *handle, struct product p, int op_a, int op_b, const void *a,
		   int lda, const void *b, int ldb, void *c, int ldc)
{
	const size_t size = p.f64 ? sizeof(double) : sizeof(float);

	if (op_a < 0 || op_a > 1 || op_b < 0 || op_b > 1 || p.m < 0 || p.n < 0 || p.k < 0 ||
	    lda < (op_a ? p.k : p.m) || ldb < (op_b ? p.n : p.k) || ldc < p.m || lda < 1 ||
	    ldb < 1 || ldc < 1)
		return INVALID;
	struct product *const product = malloc(sizeof(*product));

	if (!product)
		return NO_MEMORY;
	p.a = matrix_of(a, (size_t)lda, op_a, size);
	p.b = matrix_of(b, (size_t)ldb, op_b, size);
	p.c = matrix_of(c, (size_t)ldc, 0, size);
	*product = p;
	if (cuLaunchHostFunc(handle->stream, multiply, product) == 0)
		return DONE;
	free(product);
	return FAILED;
}

#define GEMM(name, real, is_f64)                                                                   \
	API int name(struct handle *handle, int op_a, int op_b, int m, int n, int k,               \
		     const real *alpha, const real *a, int lda, const real *b, int ldb,            \
		     const real *beta, real *c, int ldc)                                           \
	{                                                                                          \
		if (!handle || !alpha || !beta)                                                    \
			return handle ? INVALID : NOT_READY;                                       \
		return enqueue(handle,                                                             \
			       (struct product){                                                   \
				       .f64 = is_f64, m, n, k, .alpha = *alpha, .beta = *beta },   \
			       op_a, op_b, a, lda, b, ldb, c, ldc);                                \
	}

GEMM(cublasSgemm_v2, float, false)
GEMM(cublasDgemm_v2, double, true)
