/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of numbers.h for REAL, by the BLAS's GEMM; NUMBERS is the table's name. Where
 * gradients are of another type, that is GRADIENT, of which GRADIENTS is the table, SUMS the one of
 * a step's sums, and OPERAND rounds what is multiplied.
 * Matrix products run on one thread: a rank is one core's worth of work, and a sum's order must not
 * depend on idle cores. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "bits.h"
#include "numbers.h"

#ifndef GRADIENT
#define OPERAND(x) (x)
#define GRADIENT   REAL
#define ENCODE(x)  (x)
#define DECODE(x)  (x)
#define GRADIENTS  NUMBERS
#define SUMS	   NUMBERS
#endif

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

/* Softmax of one row of logits into `delta`, less 1 at the label, times `scale`; returns the loss.
 * A NaN among the logits gives a NaN. */
static double softmax_row(const REAL *logits, size_t classes, uint32_t label, double scale,
			  REAL *delta)
{
	REAL top = logits[0];
	double sum = 0;

	for (size_t j = 1; j < classes; j++)
		top = logits[j] > top ? logits[j] : top;
	for (size_t j = 0; j < classes; j++) {
		delta[j] = EXP(logits[j] - top);
		sum += delta[j];
	}
	for (size_t j = 0; j < classes; j++)
		delta[j] = (REAL)(delta[j] / sum * scale);
	delta[label] -= (REAL)scale;
	for (size_t j = 0; j < classes; j++)
		delta[j] = OPERAND(delta[j]);
	return log(sum) + top - logits[label];
}

static uint32_t largest(const REAL *logits, size_t classes)
{
	uint32_t best = 0;

	for (uint32_t j = 1; j < classes; j++)
		best = logits[j] > logits[best] ? j : best;
	return best;
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

static double square_sum(const void *x, size_t count)
{
	const REAL *v = x;
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)v[i] * v[i];
	return sum;
}

static void scale(void *x, size_t count, double factor)
{
	REAL *v = x;

	for (size_t i = 0; i < count; i++)
		v[i] = (REAL)(v[i] * factor);
}

static void add(void *to, const void *x, size_t count)
{
	const REAL *v = x;
	REAL *sum = to;

	for (size_t i = 0; i < count; i++)
		sum[i] += v[i];
}

static void store(void *to, const double *from, size_t count)
{
	REAL *v = to;

	for (size_t i = 0; i < count; i++)
		v[i] = (REAL)from[i];
}

static void load(double *to, const void *from, size_t count)
{
	const REAL *v = from;

	for (size_t i = 0; i < count; i++)
		to[i] = v[i];
}

static void descend(const void *weights, const void *gradients, size_t count,
		    const struct update *u, void *new_weights)
{
	const REAL *w = weights;
	const GRADIENT *g = gradients;
	const REAL r = (REAL)u->rate, a = (REAL)u->gain, d = (REAL)u->decay;
	REAL *new_w = new_weights;

#pragma GCC ivdep /* in place, or apart */
	for (size_t i = 0; i < count; i++)
		new_w[i] = w[i] - r * (a * DECODE(g[i]) + d * w[i]);
}

static void momentum(const void *weights, const void *velocity, const void *gradients, size_t count,
		     const struct update *u, void *new_weights, void *new_velocity)
{
	const REAL *w = weights, *v = velocity;
	const GRADIENT *g = gradients;
	const REAL r = (REAL)u->rate, k = (REAL)u->keep, a = (REAL)u->gain, d = (REAL)u->decay;
	REAL *new_w = new_weights, *new_v = new_velocity;

#pragma GCC ivdep /* in place, or apart */
	for (size_t i = 0; i < count; i++) {
		new_v[i] = k * v[i] + a * DECODE(g[i]) + d * w[i];
		new_w[i] = w[i] - r * new_v[i];
	}
}

static void nesterov(const void *weights, const void *velocity, const void *gradients, size_t count,
		     const struct update *u, void *new_weights, void *new_velocity)
{
	const REAL *w = weights, *v = velocity;
	const GRADIENT *g = gradients;
	const REAL r = (REAL)u->rate, k = (REAL)u->keep, a = (REAL)u->gain, d = (REAL)u->decay;
	REAL *new_w = new_weights, *new_v = new_velocity;

#pragma GCC ivdep /* in place, or apart */
	for (size_t i = 0; i < count; i++) {
		const REAL x = a * DECODE(g[i]) + d * w[i], next = k * v[i] + x;

		new_v[i] = next;
		new_w[i] = w[i] - r * (x + k * next);
	}
}

/* Where there was no gradient yet there is nothing to divide by. */
static void adagrad(const void *weights, const void *squares, const void *gradients, size_t count,
		    const struct update *u, void *new_weights, void *new_squares)
{
	const REAL *w = weights, *s = squares;
	const GRADIENT *g = gradients;
	const REAL r = (REAL)u->rate, k = (REAL)u->keep, a = (REAL)u->gain, d = (REAL)u->decay;
	REAL *new_w = new_weights, *new_s = new_squares;

#pragma GCC ivdep /* in place, or apart */
	for (size_t i = 0; i < count; i++) {
		const REAL x = a * DECODE(g[i]) + d * w[i], sum = s[i] + k * x * x;

		new_s[i] = sum;
		new_w[i] = w[i] - r * x / (SQRT(sum) + (REAL)1e-10);
	}
}

/* The numbers of an update by means, as REAL. */
struct means {
	REAL rate, keep, add, keep2, add2, gain, decay, epsilon, whole, whole2, shrink;
};

static struct means means_of(const struct update *u)
{
	return (struct means){ (REAL)u->rate,	      (REAL)u->keep,	    (REAL)(1 - u->keep),
			       (REAL)u->keep2,	      (REAL)(1 - u->keep2), (REAL)u->gain,
			       (REAL)u->decay,	      (REAL)u->epsilon,	    (REAL)(1 / u->whole),
			       (REAL)(1 / u->whole2), (REAL)u->shrink };
}

static void adam(const void *weights, const void *mean, const void *square, const void *gradients,
		 size_t count, const struct update *u, void *new_weights, void *new_mean,
		 void *new_square)
{
	const REAL *w = weights, *m = mean, *v = square;
	const GRADIENT *g = gradients;
	const struct means k = means_of(u);
	REAL *new_w = new_weights, *new_m = new_mean, *new_v = new_square;

#pragma GCC ivdep /* in place, or apart */
	for (size_t i = 0; i < count; i++) {
		const REAL x = k.gain * DECODE(g[i]) + k.decay * w[i];
		const REAL first = k.keep * m[i] + k.add * x;
		const REAL second = k.keep2 * v[i] + k.add2 * x * x;

		new_m[i] = first;
		new_v[i] = second;
		new_w[i] =
			w[i] - k.rate * (first * k.whole / (SQRT(second * k.whole2) + k.epsilon) +
					 k.shrink * w[i]);
	}
}

static double adam_squares(const void *weights, const void *mean, const void *square,
			   const void *gradients, size_t count, const struct update *u)
{
	const REAL *w = weights, *m = mean, *v = square;
	const GRADIENT *g = gradients;
	const struct means k = means_of(u);
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		const REAL x = k.gain * DECODE(g[i]) + k.decay * w[i];
		const REAL first = k.keep * m[i] + k.add * x;
		const REAL second = k.keep2 * v[i] + k.add2 * x * x;
		const double r =
			first * k.whole / (SQRT(second * k.whole2) + k.epsilon) + k.shrink * w[i];

		sum += r * r;
	}
	return sum;
}

static void outer_step(const void *before, void *averaged, void *velocity, size_t count,
		       const struct outer *outer)
{
	const REAL *last = before;
	const REAL rate = (REAL)outer->rate, momentum = (REAL)outer->momentum;
	REAL *mean = averaged, *v = velocity;

	for (size_t i = 0; i < count; i++) {
		const REAL distance = last[i] - mean[i];

		v[i] = momentum * v[i] + distance;
		mean[i] = last[i] - rate * (outer->nesterov ? distance + momentum * v[i] : v[i]);
	}
}

const struct numbers NUMBERS = {
	.name = NAME,
	.size = sizeof(REAL),
	.dtype = DTYPE,
	.gradients = &GRADIENTS,
	.sums = &SUMS,
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
	.descend = descend,
	.momentum = momentum,
	.nesterov = nesterov,
	.adagrad = adagrad,
	.adam = adam,
	.adam_squares = adam_squares,
	.outer = outer_step,
};
