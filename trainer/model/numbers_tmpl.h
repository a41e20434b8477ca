/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of numbers.h for REAL, by the BLAS's GEMM; NUMBERS is the table's name. Where
 * gradients are of another type, that is GRADIENT, of which GRADIENTS is the table, SUMS the one of
 * a step's sums, and OPERAND rounds what is multiplied.
 * Matrix products run on one thread: a rank is one core's worth of work, and a sum's order must not
 * depend on idle cores. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "numbers.h"

#define FUNCTION static inline
#ifndef GRADIENT
#define OPERAND(x) (x)
#define GRADIENT   REAL
#define ENCODE(x)  (x)
#define DECODE(x)  (x)
#define GRADIENTS  NUMBERS
#define SUMS	   NUMBERS
#endif

#include "each_tmpl.h"

static void *take(size_t bytes)
{
	return calloc(1, bytes);
}

static void operands(struct shape shape, const void *weights, void *to)
{
	const size_t count = shape.in * shape.out;
	const REAL *w = weights;
	REAL *out = to;

	for (size_t i = 0; i < count; i++)
		out[i] = OPERAND(w[i]);
	memcpy(out + count, w + count, shape.out * sizeof(*out));
}

static void round_gradients(const void *x, size_t count, void *gradients)
{
	const REAL *v = x;
	GRADIENT *g = gradients;

	for (size_t i = 0; i < count; i++)
		g[i] = ENCODE(v[i]);
}

/* Box and Muller's pair, of which one number is used. */
static double random_normal(uint64_t *state)
{
	const double radius = sqrt(-2 * log(random_unit(state)));

	return radius * cos(2 * M_PI * random_unit(state));
}

static void draw(void *weights, struct shape shape, double deviation, uint64_t *state)
{
	const size_t count = shape.in * shape.out;
	REAL *w = weights;

	for (size_t i = 0; i < count; i++)
		w[i] = (REAL)(deviation * random_normal(state));
	memset(w + count, 0, shape.out * sizeof(*w));
}

static void gather(void *to, const float *x, size_t stride, size_t features, const uint32_t *rows,
		   size_t count)
{
	REAL *out = to;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < features; j++)
			out[i * features + j] = OPERAND(x[rows[i] * stride + j]);
}

static void forward(struct shape shape, const void *weights, const void *input, size_t rows,
		    void *output)
{
	const REAL *w = weights, *b = w + shape.in * shape.out;
	const int m = (int)rows, n = (int)shape.out, k = (int)shape.in;
	REAL *out = output;

	for (size_t i = 0; i < rows; i++)
		memcpy(out + i * shape.out, b, shape.out * sizeof(*b));
	GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, input, k, w, k, 1, out, n);
}

static void open_above(void *x, size_t count)
{
	REAL *v = x;

	for (size_t i = 0; i < count; i++)
		v[i] = v[i] > 0 ? OPERAND(v[i]) : 0;
}

static void loss(const void *logits, const uint32_t *labels, size_t rows, size_t classes,
		 double scale, void *delta, struct sums *sums)
{
	const REAL *from = logits;
	REAL *to = delta;

	for (size_t i = 0; i < rows; i++) {
		sums->loss += softmax_row(from + i * classes, classes, labels[i], scale,
					  to + i * classes);
		sums->correct += largest(from + i * classes, classes) == labels[i];
	}
	sums->samples += (double)rows;
}

static void choose(const void *logits, size_t rows, size_t classes, uint32_t *labels)
{
	const REAL *from = logits;

	for (size_t i = 0; i < rows; i++)
		labels[i] = largest(from + i * classes, classes);
}

/* The column sums are made row by row: no vector of ones is needed, and any number of rows goes. */
static void backward(struct shape shape, const void *delta, const void *input, size_t rows, int add,
		     void *unrounded)
{
	const int m = (int)shape.out, n = (int)shape.in, k = (int)rows;
	const REAL *d = delta;
	REAL *dw = unrounded, *db = dw + shape.in * shape.out;

	if (!add)
		memset(db, 0, shape.out * sizeof(*db));
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < shape.out; j++)
			db[j] += d[i * shape.out + j];
	if (rows > 0)
		GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1, d, m, input, n, add, dw,
		     n);
	else if (!add)
		memset(dw, 0, shape.in * shape.out * sizeof(*dw));
}

static void below(struct shape shape, const void *delta, const void *weights, size_t rows,
		  const void *output, void *to)
{
	const int m = (int)rows, n = (int)shape.in, k = (int)shape.out;
	const REAL *was = output;
	REAL *out = to;

	GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, delta, k, weights, n, 0, out,
	     n);
	for (size_t i = 0; i < rows * shape.in; i++)
		out[i] = was[i] > 0 ? OPERAND(out[i]) : 0;
}

#define ELEMENT	     REAL
#define VECTOR(name) name
#define READ(x)	     (x)
#define WRITE(x)     ((REAL)(x))
#include "vectors_tmpl.h"

/* Weights are moved in place, or apart. */
#define MOVE(name, velocities)                                                                     \
	static void name##_all(const struct update *u, struct trained from, const void *gradients, \
			       size_t count, struct trained to)                                    \
	{                                                                                          \
		const struct scales k = scales_of(u);                                              \
		const REAL *w = from.weights, *v = from.velocity[0], *s = from.velocity[1];        \
		const GRADIENT *g = gradients;                                                     \
		REAL *new_w = to.weights, *new_v = to.velocity[0], *new_s = to.velocity[1];        \
                                                                                                   \
		_Pragma("GCC ivdep") for (size_t i = 0; i < count; i++) MOVE_ONE(name, velocities) \
	}

MOVE(descend, 0)
MOVE(momentum, 1)
MOVE(nesterov, 1)
MOVE(adagrad, 1)
MOVE(adam, 2)

static void move(enum move by, const struct update *u, struct trained from, const void *gradients,
		 size_t count, struct trained to)
{
	static void (*const all[MOVES])(const struct update *, struct trained, const void *, size_t,
					struct trained) = { [MOVE_DESCEND] = descend_all,
							    [MOVE_MOMENTUM] = momentum_all,
							    [MOVE_NESTEROV] = nesterov_all,
							    [MOVE_ADAGRAD] = adagrad_all,
							    [MOVE_ADAM] = adam_all };

	all[by](u, from, gradients, count, to);
}

static double adam_squares(const struct update *u, struct trained from, const void *gradients,
			   size_t count)
{
	const struct scales k = scales_of(u);
	const REAL *w = from.weights, *v = from.velocity[0], *s = from.velocity[1];
	const GRADIENT *g = gradients;
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		const struct one was = { w[i], v[i], s[i] };
		const double way =
			adam_way(&k, adam_means(&k, was, k.gain * DECODE(g[i]) + k.decay * was.w));

		sum += way * way;
	}
	return sum;
}

const struct numbers NUMBERS = {
	.name = NAME,
	.size = sizeof(REAL),
	.dtype = DTYPE,
	.gradients = &GRADIENTS,
	.sums = &SUMS,
	.take = take,
	.give = free,
	.operands = operands,
	.round = round_gradients,
	.draw = draw,
	.gather = gather,
	.forward = forward,
	.open = open_above,
	.loss = loss,
	.choose = choose,
	.backward = backward,
	.below = below,
	.square_sum = square_sum,
	.scale = scale,
	.add = add,
	.store = store,
	.load = load,
	.move = move,
	.adam_squares = adam_squares,
};
