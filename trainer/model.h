/* SPDX-License-Identifier: BSD-3-Clause */
/* A multilayer perceptron: linear layers with ReLU between them, softmax cross-entropy behind the
 * last.
 *
 * Weights and gradients are two flat vectors of the same layout. The last layer comes first,
 * because the backward pass finishes it first: what is ready to be averaged is always a prefix. A
 * layer is its weight matrix, [out][in], then its biases, [out]. Both vectors are the caller's.
 *
 * Where gradients are of a coarser type than the arithmetic, products read weights that are rounded
 * to that, and gradients are added up before they are rounded. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Zeroed is empty. */
struct model {
	const struct numbers *numbers;
	unsigned layers;
	struct layer layer[MODEL_LAYERS_MAX];
	size_t parameters;
	size_t rows_max; /* samples at a time */
	void *weights;	 /* [parameters], set by the caller before each use */
	void *gradients; /* [parameters] of numbers->gradients, likewise */
	void *rows;	 /* owned: outputs and deltas of all layers */
	void *rounded; /* owned, [parameters]: what products read of the weights, or NULL: these */
	void *unrounded; /* owned, [parameters]: sums of gradients, or NULL: these are there */
	const void *x;	 /* input of the last forward pass */
};

/* `width` has layers + 1 entries: features, hidden layers, classes. */
size_t model_parameter_count(const size_t *width, unsigned layers);

tutti_result_t model_create(const struct numbers *numbers, const size_t *width, unsigned layers,
			    size_t rows_max, struct model *out, struct why *why);
void model_finish(struct model *model);

/* He initialisation: normal weights of variance 2 / in, biases 0. */
void model_init_weights(struct model *model, uint64_t seed);

/* Compute the logits of `rows` samples: all layers, or layer `l` alone, from the first on. `x` is
 * used by the backward pass too. */
void model_forward(struct model *model, const void *x, size_t rows);
void model_forward_layer(struct model *model, const void *x, unsigned l, size_t rows);

/* Adds loss and hits of the samples of the last forward pass to `sums`. The last layer's delta is
 * for a loss of `scale` × the sum over samples. */
void model_loss(struct model *model, const uint32_t *y, size_t rows, double scale,
		struct sums *sums);

/* The most likely class of each sample of the last forward pass. */
void model_choose(const struct model *model, size_t rows, uint32_t *y);

/* Gradients of layer `l`, added to what is there if `add`, and the delta of the layer below. Call
 * for the last layer first. */
void model_backward(struct model *model, unsigned l, size_t rows, bool add);

#endif
