/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the training does on a GPU beside products of matrices, which are cuBLAS's: the
 * loops of model.c, optimizer.c and batches.c. Names begin with train_.
 *
 * A thread does whole numbers, or whole rows, and none waits for another, so nothing depends on
 * how many there are. Numbers come in the same order as on the host, with products and sums
 * rounded one by one (-fmad=false). The tests compile this as C++, too. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL extern "C" __global__ void

/* The loop over `i` below `count`, shared by all threads. */
#define EACH(i, count)                                                                             \
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;                                  \
	i < (count);                                                                               \
	i += (size_t)gridDim.x * blockDim.x

/* The samples named by `rows` next to each other. */
KERNEL train_gather(const float *data_x, const uint32_t *data_y, const uint32_t *rows, size_t count,
		    size_t features, double *x, uint32_t *y)
{
	for (EACH(i, count * features)) {
		const size_t row = rows[i / features], feature = i % features;

		x[i] = data_x[row * features + feature];
		if (feature == 0)
			y[i / features] = data_y[row];
	}
}

/* Each row of `output` is `bias`. */
KERNEL train_bias(const double *bias, size_t rows, size_t width, double *output)
{
	for (EACH(i, rows * width))
		output[i] = bias[i % width];
}

KERNEL train_relu(double *output, size_t count)
{
	for (EACH(i, count))
		output[i] = output[i] > 0 ? output[i] : 0;
}

/* What a ReLU that was closed passed on. */
KERNEL train_close(const double *output, size_t count, double *delta)
{
	for (EACH(i, count))
		if (!(output[i] > 0))
			delta[i] = 0;
}

/* Softmax of a row of logits into `delta`, less 1 at the label, times `scale`. `terms` are three
 * rows: the losses, the hits, ones. */
KERNEL train_loss(const double *logits, const uint32_t *y, size_t rows, size_t classes,
		  double scale, double *delta, double *terms, size_t terms_width)
{
	for (EACH(i, rows)) {
		const double *z = logits + i * classes;
		double *d = delta + i * classes, top = z[0], sum = 0;
		size_t best = 0;

		for (size_t j = 1; j < classes; j++) {
			best = z[j] > z[best] ? j : best;
			top = z[j] > top ? z[j] : top;
		}
		for (size_t j = 0; j < classes; j++) {
			d[j] = exp(z[j] - top);
			sum += d[j];
		}
		for (size_t j = 0; j < classes; j++)
			d[j] = d[j] / sum * scale;
		d[y[i]] -= scale;
		terms[i] = log(sum) + top - z[y[i]];
		terms[terms_width + i] = best == y[i];
		terms[2 * terms_width + i] = 1;
	}
}

KERNEL train_update(double *weights, double *velocity, const double *gradients, size_t count,
		    double rate, double momentum, double decay)
{
	for (EACH(i, count)) {
		velocity[i] = momentum * velocity[i] + gradients[i] + decay * weights[i];
		weights[i] = weights[i] - rate * velocity[i];
	}
}

/* The epoch's sums so far, which the first step begins. */
KERNEL train_count(double *sums, const double *more, size_t count, uint32_t first)
{
	for (EACH(i, count))
		sums[i] = (first ? 0 : sums[i]) + more[i];
}
