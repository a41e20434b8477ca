/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of a training: a table for each type that its numbers may have. Everywhere else
 * numbers are void *, and only these tables look at them. */
#ifndef TRAIN_NUMBERS_H
#define TRAIN_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* Running sums over samples. */
struct sums {
	double loss, correct, samples;
};

enum { SUMS_NUMBERS = 3 };

/* A fully connected layer: weights [out][in], and behind them the biases [out]. */
struct shape {
	size_t in, out;
};

/* Steps from one average of ranks to the next, as if their distance were a gradient. */
struct outer {
	double rate; /* 0: averages are taken as they are */
	double momentum;
	int nesterov;
};

/* Of weights by gradients. */
struct update {
	double rate, keep, gain, decay;
	/* of means of gradients and their squares: */
	double keep2, epsilon;
	double whole, whole2; /* what the means are of a constant 1 */
	double shrink;	      /* decay beside them */
};

struct numbers {
	const char *name; /* of --dtype */
	size_t size;	  /* bytes of a number */
	tutti_dtype_t dtype;
	/* What gradients are, and a step's sums behind them: this table, unless those have a type of
	 * their own. A table that is only of gradients has nothing but square_sum … load. */
	const struct numbers *gradients, *sums;

	/* A layer's weights as operands of matrix products, and its biases as they are. */
	void (*operands)(struct shape shape, const void *weights, void *operands);
	/* What backward() has added up, as gradients. */
	void (*round)(const void *x, size_t count, void *gradients);
	/* Weights of a layer: normal with that deviation, biases 0. */
	void (*draw)(void *weights, struct shape shape, double deviation, uint64_t *state);
	/* Of rows that have `stride` features the first `features`, next to each other. */
	void (*gather)(void *to, const float *x, size_t stride, size_t features,
		       const uint32_t *rows, size_t count);
	/* output [rows][out] = input [rows][in] × weightsᵀ + biases; here and below inputs, weights,
	 * outputs that are inputs of a next layer and deltas are operands. */
	void (*forward)(struct shape shape, const void *weights, const void *input, size_t rows,
			void *output);
	/* What is below 0 becomes 0 (ReLU), and all of it an operand. */
	void (*open)(void *x, size_t count);
	/* Adds loss and hits of `rows` rows of logits to `sums`; delta [rows][classes] becomes the
	 * derivative of `scale` × the sum of the losses. */
	void (*loss)(const void *logits, const uint32_t *labels, size_t rows, size_t classes,
		     double scale, void *delta, struct sums *sums);
	/* The largest of each row of logits. */
	void (*choose)(const void *logits, size_t rows, size_t classes, uint32_t *labels);
	/* unrounded gradients of weights and biases = deltaᵀ × input, and the column sums of delta;
	 * added to what is there if `add`. */
	void (*backward)(struct shape shape, const void *delta, const void *input, size_t rows,
			 int add, void *unrounded);
	/* below [rows][in] = delta × weights, 0 where `output` of the layer below is not above 0. */
	void (*below)(struct shape shape, const void *delta, const void *weights, size_t rows,
		      const void *output, void *below);

	double (*square_sum)(const void *x, size_t count);
	void (*scale)(void *x, size_t count, double factor);
	void (*add)(void *to, const void *x, size_t count);
	/* Of double numbers, and to them. */
	void (*store)(void *to, const double *from, size_t count);
	void (*load)(double *to, const void *from, size_t count);
	/* Below g = gain × gradient + decay × w. What is read stays as it is, unless it is the same
	 * memory. new_w = w − rate × g. */
	void (*descend)(const void *w, const void *gradients, size_t count,
			const struct update *update, void *new_w);
	/* new_v = keep × v + g; new_w = w − rate × new_v, or, Nesterov's, w − rate × (g + keep × new_v). */
	void (*momentum)(const void *w, const void *v, const void *gradients, size_t count,
			 const struct update *update, void *new_w, void *new_v);
	void (*nesterov)(const void *w, const void *v, const void *gradients, size_t count,
			 const struct update *update, void *new_w, void *new_v);
	/* new_v = v + keep × g²; new_w = w − rate × g / √new_v. */
	void (*adagrad)(const void *w, const void *v, const void *gradients, size_t count,
			const struct update *update, void *new_w, void *new_v);
	/* new_m = keep × m + (1 − keep) × g; new_v = keep2 × v + (1 − keep2) × g²; r = new_m / whole /
	 * (√(new_v / whole2) + epsilon) + shrink × w; new_w = w − rate × r. And the sum of r². */
	void (*adam)(const void *w, const void *m, const void *v, const void *gradients,
		     size_t count, const struct update *update, void *new_w, void *new_m,
		     void *new_v);
	double (*adam_squares)(const void *w, const void *m, const void *v, const void *gradients,
			       size_t count, const struct update *update);
	/* d = last − mean; v = momentum × v + d; mean = last − rate × v, or, Nesterov's, last − rate
	 * × (d + momentum × v). */
	void (*outer)(const void *last, void *mean, void *v, size_t count,
		      const struct outer *outer);
};

extern const struct numbers numbers_f32, numbers_f64, numbers_bf16;

static inline void *numbers_at(const struct numbers *numbers, void *base, size_t index)
{
	return (char *)base + index * numbers->size;
}

static inline const void *numbers_from(const struct numbers *numbers, const void *base,
				       size_t index)
{
	return (const char *)base + index * numbers->size;
}

/* Where the sums of a step are, in bytes behind `count` gradients, and where they end. */
static inline size_t numbers_sums_offset(const struct numbers *numbers, size_t count)
{
	const size_t unit = numbers->sums->size;

	return (count * numbers->gradients->size + unit - 1) / unit * unit;
}

static inline size_t numbers_sums_end(const struct numbers *numbers, size_t count)
{
	return numbers_sums_offset(numbers, count) + SUMS_NUMBERS * numbers->sums->size;
}

#endif
