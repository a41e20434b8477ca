/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the two passes leave behind for each other. The arithmetic is numbers.h's. */
#include "model.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

const struct numbers *const numbers_types[] = { &numbers_f32, &numbers_f64, &numbers_bf16, NULL };

/* ---- parts of layers */

/* Boundary `b` is before layer `b` of these: what crosses it is a part's own, or all parts'. */
static bool splits(const struct cut *cut, unsigned b)
{
	return cut->ways > 1 && (cut->layers - b) % 2 == 1;
}

static struct slice part_of(const size_t *width, const struct cut *cut, unsigned b)
{
	const size_t all = width[cut->first + b];

	return splits(cut, b) ? slice_of(all, cut->way, cut->ways) : (struct slice){ 0, all };
}

bool model_by_rows(const struct model *model, unsigned l)
{
	return splits(&model->cut, l);
}

bool model_by_columns(const struct model *model, unsigned l)
{
	return splits(&model->cut, l + 1);
}

struct slice model_features(const struct model *model)
{
	return part_of(model->width, &model->cut, 0);
}

static struct shape shape_of(const size_t *width, const struct cut *cut, unsigned l)
{
	return (struct shape){ part_of(width, cut, l).count, part_of(width, cut, l + 1).count };
}

size_t model_cut_parameters(const size_t *width, struct cut cut)
{
	size_t count = 0;

	for (unsigned l = 0; l < cut.layers; l++) {
		const struct shape shape = shape_of(width, &cut, l);

		count += (shape.in + 1) * shape.out;
	}
	return count;
}

size_t model_parameter_count(const size_t *width, unsigned layers)
{
	return model_cut_parameters(width, (struct cut){ .layers = layers });
}

static void copy(char *whole, char *part, size_t bytes, bool takes)
{
	memcpy(takes ? part : whole, takes ? whole : part, bytes);
}

/* A layer's weights and biases, between the whole and a part of it. */
static void copy_layer(const struct numbers *numbers, const size_t *width, const struct cut *cut,
		       unsigned l, char *whole, char *part, bool takes)
{
	const struct slice in = part_of(width, cut, l), out = part_of(width, cut, l + 1);
	const size_t all_in = width[cut->first + l], all_out = width[cut->first + l + 1],
		     size = numbers->size;
	char *biases = whole + (all_in * all_out + out.first) * size,
	     *own = part + in.count * out.count * size;

	for (size_t o = 0; o < out.count; o++)
		copy(whole + ((out.first + o) * all_in + in.first) * size,
		     part + o * in.count * size, in.count * size, takes);
	if (!splits(cut, l) || cut->way == 0)
		copy(biases, own, out.count * size, takes);
	else if (takes) /* they are the first part's */
		memset(own, 0, out.count * size);
}

/* The last layer comes first. */
void model_copy_part(const struct numbers *numbers, const size_t *width, struct cut cut,
		     char *whole, char *part, bool takes)
{
	for (unsigned l = cut.layers; l-- > 0;) {
		const struct shape own = shape_of(width, &cut, l);

		copy_layer(numbers, width, &cut, l, whole, part, takes);
		whole += (width[cut.first + l] + 1) * width[cut.first + l + 1] * numbers->size;
		part += (own.in + 1) * own.out * numbers->size;
	}
}

/* ---- its life */

static void lay_out(struct model *model)
{
	size_t offset = 0;

	for (unsigned l = model->layers; l-- > 0;) {
		struct layer *layer = &model->layer[l];

		layer->shape = shape_of(model->width, &model->cut, l);
		layer->offset = offset;
		layer->count = (layer->shape.in + 1) * layer->shape.out;
		offset += layer->count;
	}
	model->parameters = offset;
}

size_t model_output_bytes(const struct model *model)
{
	size_t outputs = 0;

	for (unsigned l = 0; l < model->layers; l++)
		outputs += model->layer[l].shape.out;
	return outputs * model->rows_max * model->numbers->size;
}

void model_use_outputs(struct model *model, void *outputs, const void *x)
{
	char *output = outputs ? outputs : model->outputs,
	     *delta = (char *)model->outputs + model_output_bytes(model);

	for (unsigned l = 0; l < model->layers; l++) {
		struct layer *layer = &model->layer[l];
		const size_t bytes = layer->shape.out * model->rows_max * model->numbers->size;

		layer->output = output;
		layer->delta = delta;
		output += bytes;
		delta += bytes;
	}
	model->x = x;
}

/* Rounded numbers only where gradients are not like all others. */
static bool allocate(struct model *model)
{
	const struct numbers *numbers = model->numbers;
	const bool rounds = numbers->gradients != numbers;

	model->outputs = numbers->take(2 * model_output_bytes(model));
	if (rounds)
		model->rounded = numbers->take(2 * model->parameters * numbers->size);
	if (!model->outputs || (rounds && !model->rounded))
		return why_no_memory("the model");
	if (rounds)
		model->unrounded = numbers_at(numbers, model->rounded, model->parameters);
	model_use_outputs(model, NULL, NULL);
	return true;
}

bool model_create(const struct numbers *numbers, const size_t *width, struct cut cut,
		  size_t rows_max, struct model *out)
{
	*out = (struct model){
		.numbers = numbers, .cut = cut, .layers = cut.layers, .rows_max = rows_max
	};
#ifdef HAVE_OPENBLAS_SET_NUM_THREADS
	openblas_set_num_threads(1);
#endif
	memcpy(out->width, width, (cut.of + 1) * sizeof(*width));
	lay_out(out);
	return allocate(out);
}

bool model_begins(const struct model *model)
{
	return model->cut.first == 0;
}

bool model_ends(const struct model *model)
{
	return model->cut.first + model->cut.layers == model->cut.of;
}

void model_finish(struct model *model)
{
	if (!model->numbers)
		return;
	model->numbers->give(model->outputs);
	model->numbers->give(model->rounded);
	*model = (struct model){ 0 };
}

/* All layers are drawn, in their order, and as a whole: who has a part of them has the same numbers. */
bool model_init_weights(struct model *model, uint64_t seed)
{
	const struct numbers *numbers = model->numbers;
	const struct cut *cut = &model->cut;
	uint64_t state = random_stream(seed, RANDOM_WEIGHTS);

	for (unsigned l = 0; l < cut->first + cut->layers; l++) {
		const struct shape shape = { model->width[l], model->width[l + 1] };
		void *whole = malloc((shape.in + 1) * shape.out * numbers->size);

		if (!whole)
			return why_no_memory("the model");
		numbers->draw(whole, shape, sqrt(2.0 / (double)shape.in), &state);
		if (l >= cut->first)
			copy_layer(numbers, model->width, cut, l - cut->first, whole,
				   numbers_at(numbers, model->weights,
					      model->layer[l - cut->first].offset),
				   true);
		free(whole);
	}
	return true;
}

static const void *layer_input(const struct model *model, unsigned l)
{
	return l == 0 ? model->x : model->layer[l - 1].output;
}

static const void *layer_weights(const struct model *model, unsigned l)
{
	return numbers_at(model->numbers, model->weights, model->layer[l].offset);
}

/* What products read, as the forward pass has left it. */
static const void *layer_operands(const struct model *model, unsigned l)
{
	return model->rounded ? numbers_at(model->numbers, model->rounded, model->layer[l].offset)
			      : layer_weights(model, l);
}

static void round_weights(struct model *model, unsigned l)
{
	const struct layer *layer = &model->layer[l];

	if (model->rounded)
		model->numbers->operands(layer->shape, layer_weights(model, l),
					 numbers_at(model->numbers, model->rounded, layer->offset));
}

void model_forward_layer(struct model *model, unsigned l, size_t rows)
{
	struct layer *layer = &model->layer[l];

	if (rows == 0)
		return;
	round_weights(model, l);
	model->numbers->forward(layer->shape, layer_operands(model, l), layer_input(model, l), rows,
				layer->output);
	if (!model_by_rows(model, l))
		model_open_layer(model, l, rows);
}

void model_open_layer(struct model *model, unsigned l, size_t rows)
{
	if (l < model->layers - 1 || !model_ends(model))
		model->numbers->open(model->layer[l].output, rows * model->layer[l].shape.out);
}

void model_forward(struct model *model, const void *x, size_t rows)
{
	model->x = x;
	for (unsigned l = 0; l < model->layers; l++)
		model_forward_layer(model, l, rows);
}

void model_loss(struct model *model, const uint32_t *y, size_t rows, double scale,
		struct sums *sums)
{
	const struct layer *last = &model->layer[model->layers - 1];

	model->numbers->loss(last->output, y, rows, last->shape.out, scale, last->delta, sums);
}

void *model_sums(const struct model *model)
{
	return (char *)model->gradients + numbers_sums_offset(model->numbers, model->parameters);
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
	if (model_by_rows(model, l) && model->cut.way > 0) /* the first part's biases */
		memset(numbers_at(numbers, unrounded, layer->shape.in * layer->shape.out), 0,
		       layer->shape.out * numbers->size);
	if (model->unrounded)
		numbers->round(unrounded, layer->count, gradients);
	if (below && rows > 0)
		numbers->below(layer->shape, layer->delta, layer_operands(model, l), rows,
			       below->output, below->delta);
}

void model_backward_input(struct model *model, size_t rows, void *delta)
{
	const struct layer *first = &model->layer[0];

	if (rows > 0)
		model->numbers->below(first->shape, first->delta, layer_operands(model, 0), rows,
				      model->x, delta);
}
