/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of one type, REAL. What they compute, numbers.h says of the functions of these
 * names. */
#include "../model/each_tmpl.h"

KERNEL(fill)(REAL *x, size_t count, double value)
{
	for (EACH(i, count))
		x[i] = (REAL)value;
}

KERNEL(store)(REAL *to, const double *from, size_t count)
{
	for (EACH(i, count))
		to[i] = (REAL)from[i];
}

/* Added to `sums`, or to none. */
KERNEL(count)(double *sums, const REAL *more, size_t count, uint32_t anew)
{
	for (EACH(i, count))
		sums[i] = (anew ? 0 : sums[i]) + more[i];
}

KERNEL(gather)
(REAL *to, const float *x, size_t stride, size_t features, const uint32_t *rows, size_t count)
{
	for (EACH(i, count * features))
		to[i] = x[rows[i / features] * stride + i % features];
}

KERNEL(labels)(uint32_t *to, const uint32_t *labels, const uint32_t *rows, size_t count)
{
	for (EACH(i, count))
		to[i] = labels[rows[i]];
}

/* Each row of `output` is `bias`. */
KERNEL(bias)(const REAL *bias, size_t rows, size_t width, REAL *output)
{
	for (EACH(i, rows * width))
		output[i] = bias[i % width];
}

KERNEL(open)(REAL *x, size_t count)
{
	for (EACH(i, count))
		x[i] = x[i] > 0 ? x[i] : 0;
}

/* What a ReLU that was closed passed on. */
KERNEL(close)(const REAL *output, size_t count, REAL *delta)
{
	for (EACH(i, count))
		if (!(output[i] > 0))
			delta[i] = 0;
}

/* `terms` are three rows: the losses, the hits, ones. */
KERNEL(loss)
(const REAL *logits, const uint32_t *labels, size_t rows, size_t classes, double scale, REAL *delta,
 REAL *terms)
{
	for (EACH(i, rows)) {
		const REAL *row = logits + i * classes;

		terms[i] = (REAL)softmax_row(row, classes, labels[i], scale, delta + i * classes);
		terms[rows + i] = largest(row, classes) == labels[i];
		terms[2 * rows + i] = 1;
	}
}

#define MOVE(name, velocities)                                                                     \
	KERNEL(name)                                                                               \
	(struct update u, const REAL *w, const REAL *v, const REAL *s, const REAL *g,              \
	 size_t count, REAL *new_w, REAL *new_v, REAL *new_s)                                      \
	{                                                                                          \
		const struct scales k = scales_of(&u);                                             \
                                                                                                   \
		for (EACH(i, count))                                                               \
			MOVE_ONE(name, velocities)                                                 \
	}

MOVE(descend, 0)
MOVE(momentum, 1)
MOVE(nesterov, 1)
MOVE(adagrad, 1)
MOVE(adam, 2)

#undef MOVE
#undef MOVE_ONE
#undef REAL
#undef EXP
#undef SQRT
#undef KERNEL
