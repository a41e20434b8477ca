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

/* ---- moves: of one weight, … */

/* An update, as REAL. */
struct scales {
	REAL rate, gain, decay, keep, add, keep2, add2, epsilon, whole, whole2, shrink;
};

static struct scales scales_of(const struct update *u)
{
	return (struct scales){ (REAL)u->rate,	       (REAL)u->gain,	    (REAL)u->decay,
				(REAL)u->keep,	       (REAL)(1 - u->keep), (REAL)u->keep2,
				(REAL)(1 - u->keep2),  (REAL)u->epsilon,    (REAL)(1 / u->whole),
				(REAL)(1 / u->whole2), (REAL)u->shrink };
}

/* A weight, and what is kept of it. */
struct one {
	REAL w, v, s;
};

static inline struct one descend(const struct scales *k, struct one o, REAL x)
{
	o.w -= k->rate * x;
	return o;
}

static inline struct one momentum(const struct scales *k, struct one o, REAL x)
{
	o.v = k->keep * o.v + x;
	o.w -= k->rate * o.v;
	return o;
}

static inline struct one nesterov(const struct scales *k, struct one o, REAL x)
{
	o.v = k->keep * o.v + x;
	o.w -= k->rate * (x + k->keep * o.v);
	return o;
}

/* Where there was no gradient yet there is nothing to divide by. */
static inline struct one adagrad(const struct scales *k, struct one o, REAL x)
{
	o.v += k->keep * x * x;
	o.w -= k->rate * x / (SQRT(o.v) + (REAL)1e-10);
	return o;
}

static inline struct one adam_means(const struct scales *k, struct one o, REAL x)
{
	o.v = k->keep * o.v + k->add * x;
	o.s = k->keep2 * o.s + k->add2 * x * x;
	return o;
}

static inline REAL adam_way(const struct scales *k, struct one o)
{
	return o.v * k->whole / (SQRT(o.s * k->whole2) + k->epsilon) + k->shrink * o.w;
}

static inline struct one adam(const struct scales *k, struct one o, REAL x)
{
	o = adam_means(k, o, x);
	o.w -= k->rate * adam_way(k, o);
	return o;
}

/* … and of all, in place, or apart. */
#define MOVE(name, velocities)                                                                     \
	static void name##_all(const struct update *u, struct trained from, const void *gradients, \
			       size_t count, struct trained to)                                    \
	{                                                                                          \
		const struct scales k = scales_of(u);                                              \
		const REAL *w = from.weights, *v = from.velocity[0], *s = from.velocity[1];        \
		const GRADIENT *g = gradients;                                                     \
		REAL *new_w = to.weights, *new_v = to.velocity[0], *new_s = to.velocity[1];        \
                                                                                                   \
		_Pragma("GCC ivdep") for (size_t i = 0; i < count; i++)                            \
		{                                                                                  \
			const struct one was = { w[i], velocities > 0 ? v[i] : 0,                  \
						 velocities > 1 ? s[i] : 0 };                      \
			const struct one is =                                                      \
				name(&k, was, k.gain * DECODE(g[i]) + k.decay * was.w);            \
                                                                                                   \
			new_w[i] = is.w;                                                           \
			if (velocities > 0)                                                        \
				new_v[i] = is.v;                                                   \
			if (velocities > 1)                                                        \
				new_s[i] = is.s;                                                   \
		}                                                                                  \
	}

MOVE(descend, 0)
MOVE(momentum, 1)
MOVE(nesterov, 1)
MOVE(adagrad, 1)
MOVE(adam, 2)

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
	.move = { [MOVE_DESCEND] = descend_all,
		  [MOVE_MOMENTUM] = momentum_all,
		  [MOVE_NESTEROV] = nesterov_all,
		  [MOVE_ADAGRAD] = adagrad_all,
		  [MOVE_ADAM] = adam_all },
	.adam_squares = adam_squares,
	.outer = outer_step,
};
