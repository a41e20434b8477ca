/* SPDX-License-Identifier: BSD-3-Clause */
/* A multilayer perceptron: linear layers with ReLU between them, softmax cross-entropy behind the
 * last.
 *
 * Weights and gradients are two flat vectors of the same layout. The last layer comes first,
 * because the backward pass finishes it first: what is ready to be averaged is always a prefix. A
 * layer is its weight matrix, [out][in], then its biases, [out]. Both vectors are the caller's. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"
#include "why.h"

#define MODEL_LAYERS_MAX 16 /* weights layers: at most 15 hidden ones */

struct layer {
	size_t in, out;
	size_t offset;	/* in weights and gradients */
	size_t count;	/* in * out + out */
	double *output; /* [rows][out], after ReLU; of the last layer: the logits */
	double *delta;	/* [rows][out]: the loss's derivative by the layer's sums */
};

/* Zeroed is empty. */
struct model {
	unsigned layers;
	struct layer layer[MODEL_LAYERS_MAX];
	size_t parameters;
	size_t rows_max;   /* samples at a time */
	double *weights;   /* [parameters], set by the caller before each use */
	double *gradients; /* [parameters], likewise */
	double *rows;	   /* owned: outputs and deltas of all layers */
	double *ones;	   /* [rows_max], owned: sums up a matrix's rows */
	const double *x;   /* input of the last forward pass */
};

/* Running sums over samples, added to by model_loss(). */
struct sums {
	double loss, correct, samples;
};

enum { SUMS_NUMBERS = 3 };

/* `width` has layers + 1 entries: features, hidden layers, classes. */
size_t model_parameter_count(const size_t *width, unsigned layers);

tutti_result_t model_create(const size_t *width, unsigned layers, size_t rows_max,
			    struct model *out, struct why *why);
void model_finish(struct model *model);

/* He initialisation: normal weights of variance 2 / in, biases 0. */
void model_init_weights(struct model *model, uint64_t seed);

/* Compute the logits of `rows` samples; `x` is used by the backward pass too. */
void model_forward(struct model *model, const double *x, size_t rows);

/* Loss and hits of the samples of the last forward pass, and the last layer's delta for a loss of
 * `scale` × the sum over samples. */
void model_loss(struct model *model, const uint32_t *y, size_t rows, double scale,
		struct sums *sums);

/* Gradients of layer `l`, and the delta of the layer below. Call for the last layer first. */
void model_backward(struct model *model, unsigned l, size_t rows);

#endif
