/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the kernels, a handle of cuBLAS, and what sums need beside their operands. What needs a sum
 * over samples (biases, losses) is a product with a vector of ones, so that it is cuBLAS's. */
#include "numbers_cuda.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "library.h"
#include "why.h"

#ifdef TRAIN_CUDA_IMAGE /* which build_image makes where CUDA's compiler is */
extern const char train_cuda_image[], train_cuda_image_codes[];
#else
static const char train_cuda_image[] = "", train_cuda_image_codes[] = "";
#endif

/* ---- cuBLAS, opened at run time as CUDA's driver is */

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

static const struct tt_function blas_functions[] = {
	{ "cublasGetStatusString", offsetof(struct cublas, text), false },
	{ "cublasCreate_v2", offsetof(struct cublas, create), false },
	{ "cublasDestroy_v2", offsetof(struct cublas, destroy), false },
	{ "cublasSetStream_v2", offsetof(struct cublas, set_stream), false },
	{ "cublasSgemm_v2", offsetof(struct cublas, multiply_f32), false },
	{ "cublasDgemm_v2", offsetof(struct cublas, multiply_f64), false },
};

static const struct tt_library blas_library = {
	.variable = "TUTTI_CUBLAS_LIBRARY",
	.names = { "libcublas.so.13", "libcublas.so.12" },
	.before = "cuBLAS was not found: ",
	.after =
		"; expected libcublas.so of CUDA 12 or 13, where the dynamic linker finds it (LD_LIBRARY_PATH) or named by TUTTI_CUBLAS_LIBRARY",
	.expected = "cuBLAS of CUDA 12 or 13",
	.functions = blas_functions,
	.count = sizeof(blas_functions) / sizeof(blas_functions[0]),
};

/* ---- what is open */

/* Those of enum move, and others, in the order of their names. */
enum kernel { FILL = MOVES, STORE, COUNT, GATHER, LABELS, BIAS, OPEN, CLOSE, LOSS, KERNELS };
static const char *const names[] = { "descend", "momentum", "nesterov", "adagrad", "adam",
				     "fill",	"store",    "count",	"gather",  "labels",
				     "bias",	"open",	    "close",	"loss" };
static_assert(sizeof(names) / sizeof(names[0]) == KERNELS, "each has a name");

static struct {
	struct numbers table; /* that is open */
	gpu_stream_t stream;
	struct cublas blas;
	cublas_t cublas;
	gpu_module_t module;
	gpu_kernel_t kernel[KERNELS];
	bool failed;
	void *ones;  /* owned, [rows_max]; and behind them … */
	void *terms; /* [SUMS_NUMBERS][rows_max]: what each sample adds to the sums … */
	void *added; /* [SUMS_NUMBERS]: and all of them do */
} gpu;

/* ---- the first failure is kept */

static void keep(bool done)
{
	if (!done && !gpu.failed)
		gpu.failed = !why_set(TUTTI_ERR_SYSTEM, "the GPU failed: %s", gpu_error());
}

/* `arguments` are pointers to the kernel's. */
static void run(int kernel, size_t count, void **arguments)
{
	if (!gpu.failed)
		keep(gpu_run(gpu.kernel[kernel], count, arguments, gpu.stream));
}

static bool blas_did(const char *what, int status)
{
	return !status ||
	       why_set(TUTTI_ERR_SYSTEM, "cuBLAS failed to %s: %s", what, gpu.blas.text(status));
}

/* A matrix, row after row. */
struct matrix {
	const void *numbers;
	size_t width;	 /* from one row to the next */
	bool transposed; /* what is meant is its transpose */
};

/* The m × n matrix `c` = a × b, of which `a` has k columns; added to what is there if `add`. cuBLAS
 * has columns where we have rows: to it each matrix is its transpose, and cᵀ = bᵀ × aᵀ. In float32,
 * too, its products are of full precision: TF32 is off unless somebody asks for it. */
static void multiply(size_t m, size_t n, size_t k, struct matrix a, struct matrix b, bool add,
		     void *c)
{
	static const float singles[] = { 0, 1 };
	static const double doubles[] = { 0, 1 };
	const bool f64 = gpu.table.dtype == TUTTI_FLOAT64;
	cublas_multiply_t *gemm = f64 ? gpu.blas.multiply_f64 : gpu.blas.multiply_f32;
	const void *one = f64 ? (const void *)&doubles[1] : &singles[1],
		   *keep = f64 ? (const void *)&doubles[add] : &singles[add];

	if (!gpu.failed)
		gpu.failed =
			!blas_did("multiply", gemm(gpu.cublas, b.transposed, a.transposed, (int)n,
						   (int)m, (int)k, one, b.numbers, (int)b.width,
						   a.numbers, (int)a.width, keep, c, (int)n));
}

void numbers_cuda_copy(void *to, const void *from, size_t bytes)
{
	if (!gpu.failed)
		keep(gpu_copy(to, from, bytes, gpu.stream));
}

void numbers_cuda_count(struct sums *sums, const void *more, bool anew)
{
	uint32_t begins = anew;
	size_t count = SUMS_NUMBERS;

	run(COUNT, count, (void *[]){ &sums, &more, &count, &begins });
}

void numbers_cuda_labels(uint32_t *to, const uint32_t *labels, const uint32_t *rows, size_t count)
{
	run(LABELS, count, (void *[]){ &to, &labels, &rows, &count });
}

static void fill(void *x, size_t count, double value)
{
	run(FILL, count, (void *[]){ &x, &count, &value });
}

/* ---- the functions of numbers.h */

static void *take(size_t bytes)
{
	return gpu_alloc(bytes > 0 ? bytes : 1);
}

static void give(void *memory)
{
	if (memory)
		gpu_free(memory);
}

static void gather(void *to, const float *x, size_t stride, size_t features, const uint32_t *rows,
		   size_t count)
{
	run(GATHER, count * features, (void *[]){ &to, &x, &stride, &features, &rows, &count });
}

static void forward(struct shape shape, const void *weights, const void *input, size_t rows,
		    void *output)
{
	const void *bias = (const char *)weights + shape.in * shape.out * gpu.table.size;

	run(BIAS, rows * shape.out, (void *[]){ &bias, &rows, &shape.out, &output });
	multiply(rows, shape.out, shape.in, (struct matrix){ input, shape.in },
		 (struct matrix){ weights, shape.in, true }, true, output);
}

static void open_above(void *x, size_t count)
{
	run(OPEN, count, (void *[]){ &x, &count });
}

static void loss(const void *logits, const uint32_t *labels, size_t rows, size_t classes,
		 double scale, void *delta, struct sums *sums)
{
	const struct matrix ones = { gpu.ones, 1 };

	if (rows == 0)
		return;
	run(LOSS, rows,
	    (void *[]){ &logits, &labels, &rows, &classes, &scale, &delta, &gpu.terms });
	multiply(SUMS_NUMBERS, 1, rows, (struct matrix){ gpu.terms, rows }, ones, false, gpu.added);
	numbers_cuda_count(sums, gpu.added, false);
}

static void backward(struct shape shape, const void *delta, const void *input, size_t rows, int add,
		     void *gradients)
{
	const struct matrix errors = { delta, shape.out, true }, ones = { gpu.ones, 1 };

	if (rows > 0) {
		multiply(shape.out, shape.in, rows, errors, (struct matrix){ input, shape.in }, add,
			 gradients);
		multiply(shape.out, 1, rows, errors, ones, add,
			 numbers_at(&gpu.table, gradients, shape.in * shape.out));
	} else if (!add) {
		fill(gradients, (shape.in + 1) * shape.out, 0);
	}
}

static void below(struct shape shape, const void *delta, const void *weights, size_t rows,
		  const void *output, void *to)
{
	size_t count = rows * shape.in;

	multiply(rows, shape.in, shape.out, (struct matrix){ delta, shape.out },
		 (struct matrix){ weights, shape.in }, false, to);
	run(CLOSE, count, (void *[]){ &output, &count, &to });
}

static void store(void *to, const double *from, size_t count)
{
	run(STORE, count, (void *[]){ &to, &from, &count });
}

static void move(enum move by, const struct update *update, struct trained from,
		 const void *gradients, size_t count, struct trained to)
{
	run((int)by, count,
	    (void *[]){ (void *)update, &from.weights, &from.velocity[0], &from.velocity[1],
			&gradients, &count, &to.weights, &to.velocity[0], &to.velocity[1] });
}

/* Of either type: the rest is the open table's. */
static const struct numbers functions = {
	.take = take,
	.give = give,
	.gather = gather,
	.forward = forward,
	.open = open_above,
	.loss = loss,
	.backward = backward,
	.below = below,
	.store = store,
	.move = move,
};

/* ---- its life */

static bool find_kernels(void)
{
	static const struct gpu_image image = { "tutti-train", train_cuda_image,
						train_cuda_image_codes, "TUTTI_TRAIN_KERNELS" };
	bool unread;

	gpu.module = gpu_module(&image, &unread);
	for (int i = 0; i < KERNELS; i++) {
		char name[64];

		snprintf(name, sizeof(name), "train_%s_%s", names[i], gpu.table.name);
		gpu.kernel[i] = gpu.module ? gpu_kernel(gpu.module, name) : NULL;
		if (!gpu.kernel[i])
			return why_set(unread ? TUTTI_ERR_INVALID : TUTTI_ERR_UNSUPPORTED,
				       "--device cuda: %s", gpu_error());
	}
	return true;
}

static bool begin_blas(void)
{
	char trouble[TT_LIBRARY_WHY];

	if (!tt_library_open(&blas_library, &gpu.blas, trouble))
		return why_set(TUTTI_ERR_UNSUPPORTED, "--device cuda: %s", trouble);
	return blas_did("begin", gpu.blas.create(&gpu.cublas)) &&
	       blas_did("take a stream", gpu.blas.set_stream(gpu.cublas, gpu.stream));
}

static bool take_room(size_t rows_max)
{
	gpu.ones = take(((1 + SUMS_NUMBERS) * rows_max + SUMS_NUMBERS) * gpu.table.size);
	if (!gpu.ones)
		return why_set(TUTTI_ERR_NO_MEMORY,
			       "--device cuda: the GPU has no room for sums of %zu samples: %s; "
			       "use a smaller --batch",
			       rows_max, gpu_error());
	gpu.terms = numbers_at(&gpu.table, gpu.ones, rows_max);
	gpu.added = numbers_at(&gpu.table, gpu.terms, SUMS_NUMBERS * rows_max);
	fill(gpu.ones, rows_max, 1);
	return !gpu.failed;
}

const struct numbers *numbers_cuda_open(const struct numbers *host, size_t rows_max,
					gpu_stream_t stream)
{
	gpu.stream = stream;
	gpu.table = functions;
	gpu.table.name = host->name;
	gpu.table.size = host->size;
	gpu.table.dtype = host->dtype;
	gpu.table.gradients = gpu.table.sums = &gpu.table;
	return find_kernels() && begin_blas() && take_room(rows_max) ? &gpu.table : NULL;
}

void numbers_cuda_close(void)
{
	if (gpu.cublas)
		gpu.blas.destroy(gpu.cublas);
	give(gpu.ones);
	if (gpu.module)
		gpu_module_free(gpu.module);
	memset(&gpu, 0, sizeof(gpu));
}

bool numbers_cuda_well(void)
{
	return !gpu.failed;
}

void numbers_cuda_renew(void)
{
	gpu.failed = false;
}
