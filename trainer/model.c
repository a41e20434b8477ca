/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the two passes leave behind for each other. Matrix products are the
 * BLAS's, on one thread: a rank is one core's worth of work, and a sum's order must not depend on
 * idle cores. */
#include "model.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

size_t model_parameter_count(const size_t *width, unsigned layers)
{
	size_t count = 0;

	for (unsigned l = 0; l < layers; l++)
		count += (width[l] + 1) * width[l + 1];
	return count;
}

static void lay_out(struct model *model, const size_t *width)
{
	size_t offset = 0;

	for (unsigned l = model->layers; l-- > 0;) {
		struct layer *layer = &model->layer[l];

		layer->in = width[l];
		layer->out = width[l + 1];
		layer->offset = offset;
		layer->count = (layer->in + 1) * layer->out;
		offset += layer->count;
	}
}

static tutti_result_t allocate(struct model *model, struct why *why)
{
	size_t outputs = 0;
	double *next;

	for (unsigned l = 0; l < model->layers; l++)
		outputs += model->layer[l].out;
	model->rows = malloc(2 * outputs * model->rows_max * sizeof(double));
	model->ones = malloc(model->rows_max * sizeof(double));
	if (!model->rows || !model->ones)
		return why_no_memory(why, "the model");
	for (size_t i = 0; i < model->rows_max; i++)
		model->ones[i] = 1;
	next = model->rows;
	for (unsigned l = 0; l < model->layers; l++) {
		struct layer *layer = &model->layer[l];

		layer->output = next;
		layer->delta = next + layer->out * model->rows_max;
		next = layer->delta + layer->out * model->rows_max;
	}
	return TUTTI_OK;
}

tutti_result_t model_create(const size_t *width, unsigned layers, size_t rows_max,
			    struct model *out, struct why *why)
{
	struct model model = { .layers = layers, .rows_max = rows_max };
	tutti_result_t result;

#ifdef HAVE_OPENBLAS_SET_NUM_THREADS
	openblas_set_num_threads(1);
#endif
	model.parameters = model_parameter_count(width, layers);
	lay_out(&model, width);
	result = allocate(&model, why);
	if (result != TUTTI_OK) {
		model_finish(&model);
		return result;
	}
	*out = model;
	return TUTTI_OK;
}

void model_finish(struct model *model)
{
	free(model->rows);
	free(model->ones);
	*model = (struct model){ 0 };
}

/* Box and Muller's pair, of which one number is used. */
static double random_normal(uint64_t *state)
{
	const double radius = sqrt(-2 * log(random_unit(state)));

	return radius * cos(2 * M_PI * random_unit(state));
}

void model_init_weights(struct model *model, uint64_t seed)
{
	uint64_t state = random_stream(seed, RANDOM_WEIGHTS);

	memset(model->weights, 0, model->parameters * sizeof(double));
	for (unsigned l = 0; l < model->layers; l++) {
		const struct layer *layer = &model->layer[l];
		const double deviation = sqrt(2.0 / (double)layer->in);
		double *w = model->weights + layer->offset;

		for (size_t i = 0; i < layer->in * layer->out; i++)
			w[i] = deviation * random_normal(&state);
	}
}

static const double *layer_input(const struct model *model, unsigned l)
{
	return l == 0 ? model->x : model->layer[l - 1].output;
}

/* output = input × wᵀ + b */
static void forward_layer(struct model *model, unsigned l, size_t rows)
{
	const struct layer *layer = &model->layer[l];
	const double *w = model->weights + layer->offset, *b = w + layer->in * layer->out;
	const int m = (int)rows, n = (int)layer->out, k = (int)layer->in;

	for (size_t i = 0; i < rows; i++)
		memcpy(layer->output + i * layer->out, b, layer->out * sizeof(double));
	cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, layer_input(model, l), k,
		    w, k, 1, layer->output, n);
}

void model_forward(struct model *model, const double *x, size_t rows)
{
	model->x = x;
	if (rows == 0)
		return;
	for (unsigned l = 0; l < model->layers; l++) {
		struct layer *layer = &model->layer[l];

		forward_layer(model, l, rows);
		if (l == model->layers - 1)
			break;
		for (size_t i = 0; i < rows * layer->out; i++)
			layer->output[i] = layer->output[i] > 0 ? layer->output[i] : 0;
	}
}

/* Softmax of one row of logits into `delta`, less 1 at the label, times `scale`; returns the loss.
 * A NaN among the logits gives a NaN. */
static double softmax_row(const double *logits, size_t classes, uint32_t label, double scale,
			  double *delta)
{
	double top = logits[0];
	double sum = 0;

	for (size_t j = 1; j < classes; j++)
		top = logits[j] > top ? logits[j] : top;
	for (size_t j = 0; j < classes; j++) {
		delta[j] = exp(logits[j] - top);
		sum += delta[j];
	}
	for (size_t j = 0; j < classes; j++)
		delta[j] = delta[j] / sum * scale;
	delta[label] -= scale;
	return log(sum) + top - logits[label];
}

static uint32_t largest(const double *logits, size_t classes)
{
	uint32_t best = 0;

	for (uint32_t j = 1; j < classes; j++)
		best = logits[j] > logits[best] ? j : best;
	return best;
}

void model_loss(struct model *model, const uint32_t *y, size_t rows, double scale,
		struct sums *sums)
{
	const struct layer *last = &model->layer[model->layers - 1];

	for (size_t i = 0; i < rows; i++) {
		const double *logits = last->output + i * last->out;

		sums->loss +=
			softmax_row(logits, last->out, y[i], scale, last->delta + i * last->out);
		sums->correct += largest(logits, last->out) == y[i];
	}
	sums->samples += (double)rows;
}

/* delta of the layer below = (delta × w), where its ReLU was open */
static void backward_input(struct model *model, unsigned l, size_t rows)
{
	const struct layer *layer = &model->layer[l], *below = &model->layer[l - 1];
	const int m = (int)rows, n = (int)layer->in, k = (int)layer->out;

	cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, layer->delta, k,
		    model->weights + layer->offset, n, 0, below->delta, n);
	for (size_t i = 0; i < rows * below->out; i++)
		if (!(below->output[i] > 0))
			below->delta[i] = 0;
}

void model_backward(struct model *model, unsigned l, size_t rows)
{
	const struct layer *layer = &model->layer[l];
	const int m = (int)layer->out, n = (int)layer->in, k = (int)rows;
	double *dw = model->gradients + layer->offset, *db = dw + layer->in * layer->out;

	if (rows == 0) {
		memset(dw, 0, layer->count * sizeof(double));
		return;
	}
	cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1, layer->delta, m,
		    layer_input(model, l), n, 0, dw, n);
	cblas_dgemv(CblasRowMajor, CblasTrans, k, m, 1, layer->delta, m, model->ones, 1, 0, db, 1);
	if (l > 0)
		backward_input(model, l, rows);
}
