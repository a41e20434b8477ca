/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the two passes leave behind for each other. The arithmetic is numbers.h's. */
#include "model.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>

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

		layer->shape = (struct shape){ width[l], width[l + 1] };
		layer->offset = offset;
		layer->count = (layer->shape.in + 1) * layer->shape.out;
		offset += layer->count;
	}
}

static tutti_result_t allocate(struct model *model, struct why *why)
{
	const struct numbers *numbers = model->numbers;
	size_t outputs = 0;
	void *next;

	for (unsigned l = 0; l < model->layers; l++)
		outputs += model->layer[l].shape.out;
	model->rows = calloc(2 * outputs * model->rows_max, numbers->size);
	if (!model->rows)
		return why_no_memory(why, "the model");
	next = model->rows;
	for (unsigned l = 0; l < model->layers; l++) {
		struct layer *layer = &model->layer[l];
		const size_t count = layer->shape.out * model->rows_max;

		layer->output = next;
		layer->delta = numbers_at(numbers, next, count);
		next = numbers_at(numbers, next, 2 * count);
	}
	return TUTTI_OK;
}

/* Unless gradients are numbers like all others. */
static tutti_result_t allocate_mixed(struct model *model, struct why *why)
{
	const struct numbers *numbers = model->numbers;

	if (numbers->gradients == numbers)
		return TUTTI_OK;
	model->rounded = calloc(model->parameters, numbers->size);
	model->unrounded = calloc(model->parameters, numbers->size);
	return model->rounded && model->unrounded ? TUTTI_OK : why_no_memory(why, "the model");
}

tutti_result_t model_create(const struct numbers *numbers, const size_t *width, unsigned layers,
			    size_t rows_max, struct model *out, struct why *why)
{
	struct model model = { .numbers = numbers, .layers = layers, .rows_max = rows_max };
	tutti_result_t result;

#ifdef HAVE_OPENBLAS_SET_NUM_THREADS
	openblas_set_num_threads(1);
#endif
	model.parameters = model_parameter_count(width, layers);
	lay_out(&model, width);
	result = allocate(&model, why);
	if (result == TUTTI_OK)
		result = allocate_mixed(&model, why);
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
	free(model->rounded);
	free(model->unrounded);
	*model = (struct model){ 0 };
}

void model_init_weights(struct model *model, uint64_t seed)
{
	uint64_t state = random_stream(seed, RANDOM_WEIGHTS);

	for (unsigned l = 0; l < model->layers; l++) {
		const struct layer *layer = &model->layer[l];

		model->numbers->draw(numbers_at(model->numbers, model->weights, layer->offset),
				     layer->shape, sqrt(2.0 / (double)layer->shape.in), &state);
	}
}

static const void *layer_input(const struct model *model, unsigned l)
{
	return l == 0 ? model->x : model->layer[l - 1].output;
}

static const void *layer_weights(const struct model *model, unsigned l)
{
	return numbers_from(model->numbers, model->weights, model->layer[l].offset);
}

/* What products read, as the forward pass has left it. */
static const void *layer_operands(const struct model *model, unsigned l)
{
	return model->rounded ? numbers_from(model->numbers, model->rounded, model->layer[l].offset)
			      : layer_weights(model, l);
}

static void round_weights(struct model *model, unsigned l)
{
	const struct layer *layer = &model->layer[l];

	if (model->rounded)
		model->numbers->operands(layer->shape, layer_weights(model, l),
					 numbers_at(model->numbers, model->rounded, layer->offset));
}

void model_forward_layer(struct model *model, const void *x, unsigned l, size_t rows)
{
	struct layer *layer = &model->layer[l];

	model->x = x;
	if (rows == 0)
		return;
	round_weights(model, l);
	model->numbers->forward(layer->shape, layer_operands(model, l), layer_input(model, l), rows,
				layer->output);
	if (l < model->layers - 1)
		model->numbers->open(layer->output, rows * layer->shape.out);
}

void model_forward(struct model *model, const void *x, size_t rows)
{
	for (unsigned l = 0; l < model->layers; l++)
		model_forward_layer(model, x, l, rows);
}

void model_loss(struct model *model, const uint32_t *y, size_t rows, double scale,
		struct sums *sums)
{
	const struct layer *last = &model->layer[model->layers - 1];

	model->numbers->loss(last->output, y, rows, last->shape.out, scale, last->delta, sums);
}

void model_choose(const struct model *model, size_t rows, uint32_t *y)
{
	const struct layer *last = &model->layer[model->layers - 1];

	model->numbers->choose(last->output, rows, last->shape.out, y);
}

void model_backward(struct model *model, unsigned l, size_t rows, bool add)
{
	const struct numbers *numbers = model->numbers;
	const struct layer *layer = &model->layer[l], *below = l > 0 ? layer - 1 : NULL;
	void *gradients = numbers_at(numbers->gradients, model->gradients, layer->offset);
	void *unrounded =
		model->unrounded ? numbers_at(numbers, model->unrounded, layer->offset) : gradients;

	numbers->backward(layer->shape, layer->delta, layer_input(model, l), rows, add, unrounded);
	if (model->unrounded)
		numbers->round(unrounded, layer->count, gradients);
	if (below && rows > 0)
		numbers->below(layer->shape, layer->delta, layer_operands(model, l), rows,
			       below->output, below->delta);
}
