/* SPDX-License-Identifier: BSD-3-Clause */
/* A multilayer perceptron: linear layers with ReLU between them, softmax cross-entropy behind the
 * last.
 *
 * Weights and gradients are two flat vectors of the same layout. The last layer comes first,
 * because the backward pass finishes it first: what is ready to be averaged is always a prefix. A
 * layer is its weight matrix, [out][in], then its biases, [out]. Both vectors are the caller's.
 *
 * A model may be some layers in the middle of a larger one: then its input is the output of the layer
 * before, and its output the input of the layer behind.
 *
 * Where gradients are of a coarser type than the arithmetic, products read weights that are rounded
 * to that, and gradients are added up before they are rounded. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batches.h"
#include "numbers.h"
#include "tutti/tutti.h"
#include "why.h"

#define MODEL_LAYERS_MAX 16 /* weights layers: at most 15 hidden ones */

struct layer {
	struct shape shape;
	size_t offset; /* in weights and gradients */
	size_t count;  /* in * out + out */
	void *output;  /* [rows][out], after ReLU; of the last layer: the logits */
	void *delta;   /* [rows][out]: the loss's derivative by the layer's sums */
};

/* Of a larger model: the layers `first` to `first` + `layers` - 1 of `of`. Each of these may be cut once
 * more, among `ways` parts, of which this is number `way` (Shoeybi et al. 2019, section 3): by rows and
 * by columns in turn, from the last layer on, which is by rows. Layers by rows have some of the inputs, and
 * what all parts make of them is to be added up; layers by columns have some of the outputs, and know of
 * all inputs. The biases of a layer by rows are the first part's; those of others are 0, and stay so. */
struct cut {
	unsigned first, layers, of;
	int way, ways; /* 0 or 1: layers are whole */
};

/* Zeroed is empty. */
struct model {
	const struct numbers *numbers;
	size_t width[MODEL_LAYERS_MAX +
		     1]; /* of the larger model, of which these are some layers */
	struct cut cut;
	unsigned layers; /* cut.layers */
	struct layer layer[MODEL_LAYERS_MAX];
	size_t parameters;
	size_t rows_max; /* samples at a time */
	void *weights;	 /* [parameters], set by the caller before each use */
	void *gradients; /* [parameters] of numbers->gradients, likewise */
	void *outputs; /* owned: of all layers, those that were allocated with it, and the deltas */
	void *rounded; /* owned, [parameters]: what products read of the weights, or NULL: these */
	void *unrounded; /* behind it, [parameters]: sums of gradients, or NULL: these are there */
	const void *x;	 /* input of the last forward pass */
};

/* `width` has layers + 1 entries: features, hidden layers, classes. */
size_t model_parameter_count(const size_t *width, unsigned layers);

/* `width` is of the larger model. After a failure, too, model_finish() ends it. */
bool model_create(const struct numbers *numbers, const size_t *width, struct cut cut,
		  size_t rows_max, struct model *out);
void model_finish(struct model *model);

/* He initialisation: normal weights of variance 2 / in, biases 0. A part has the weights that it has in
 * the larger model. */
bool model_init_weights(struct model *model, uint64_t seed);
/* Has it the first layer of all; the last, whose outputs are logits? */
bool model_begins(const struct model *model);
bool model_ends(const struct model *model);

/* Is layer `l` cut by rows, by columns? */
bool model_by_rows(const struct model *model, unsigned l);
bool model_by_columns(const struct model *model, unsigned l);
/* How many parameters a part of so wide a model has. */
size_t model_cut_parameters(const size_t *width, struct cut cut);
/* A part `takes` its numbers, such as weights, from those of its layers when these are whole; or the
 * way back. What is no part of another one is the first part's. */
void model_copy_part(const struct numbers *numbers, const size_t *width, struct cut cut,
		     char *whole, char *part, bool takes);
/* Of the features, those that the first layer reads. */
struct slice model_features(const struct model *model);

/* From now on the outputs of layers are at `outputs`, of model_output_bytes() bytes, and those of the
 * last forward pass that had them there are read by the backward pass; `x` is its input. NULL: they are
 * where they were at first. */
void model_use_outputs(struct model *model, void *outputs, const void *x);
size_t model_output_bytes(const struct model *model);

/* Compute the logits of `rows` samples: all layers, or layer `l` alone, from the first on, which reads the
 * input of model_use_outputs(). `x` is used by the backward pass too. Outputs of a layer by rows are then to
 * be added up over all parts, and opened. */
void model_forward(struct model *model, const void *x, size_t rows);
void model_forward_layer(struct model *model, unsigned l, size_t rows);
void model_open_layer(struct model *model, unsigned l, size_t rows);

/* Adds loss and hits of the samples of the last forward pass to `sums`. The last layer's delta is
 * for a loss of `scale` × the sum over samples. */
void model_loss(struct model *model, const uint32_t *y, size_t rows, double scale,
		struct sums *sums);

/* Where the sums of a step are, behind the gradients: numbers of numbers->sums. */
void *model_sums(const struct model *model);

/* The most likely class of each sample of the last forward pass. */
void model_choose(const struct model *model, size_t rows, uint32_t *y);

/* Gradients of layer `l`, added to what is there if `add`, and the delta of the layer below, which of a
 * layer by columns is to be added up over all parts. Call for the last layer first. */
void model_backward(struct model *model, unsigned l, size_t rows, bool add);
/* Of a model that does not begin, once the delta of its first layer is there: the delta of the layer
 * before, at `delta`, to be added up likewise. */
void model_backward_input(struct model *model, size_t rows, void *delta);

#endif
