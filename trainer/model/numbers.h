/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of a training: a table for each type that its numbers may have, on the processor,
 * and on a GPU (numbers_cuda.h). Everywhere else numbers are void *, and only these tables look at
 * them. */
#ifndef TRAIN_NUMBERS_H
#define TRAIN_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"
#include "update.h"

/* Running sums over samples. */
struct sums {
	double loss, correct, samples;
};

enum { SUMS_NUMBERS = 3 };

/* A fully connected layer: weights [out][in], and behind them the biases [out]. */
struct shape {
	size_t in, out;
};

enum { TRAINED_VELOCITIES = 2 }; /* at most */

/* Weights and what an optimiser keeps of each (optimizer.h): the same number of each. */
struct trained {
	void *weights, *velocity[TRAINED_VELOCITIES];
};

struct numbers {
	const char *name; /* of --dtype */
	size_t size;	  /* bytes of a number */
	tutti_dtype_t dtype;
	/* What gradients are, and a step's sums behind them: this table, unless those have a type of
	 * their own. A table that is only of gradients has nothing but square_sum … load. */
	const struct numbers *gradients, *sums;

	/* Memory that the functions work on, NULL: there is none; and its end, also of NULL. */
	void *(*take)(size_t bytes);
	void (*give)(void *memory);

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
	void (*move)(enum move by, const struct update *update, struct trained from,
		     const void *gradients, size_t count, struct trained to);
	/* The sum of squares of what MOVE_ADAM is to multiply by its rate. */
	double (*adam_squares)(const struct update *update, struct trained from,
			       const void *gradients, size_t count);
};

extern const struct numbers numbers_f32, numbers_f64, numbers_bf16;
/* These, and NULL. */
extern const struct numbers *const numbers_types[];

static inline void *numbers_at(const struct numbers *numbers, void *base, size_t index)
{
	return (char *)base + index * numbers->size;
}

/* Where weight `first` and its velocities are. Of `count` weights the velocities lie at `velocity`,
 * one vector behind the other. */
static inline struct trained trained_at(const struct numbers *numbers, void *weights,
					void *velocity, size_t count, size_t first)
{
	struct trained trained = { .weights = numbers_at(numbers, weights, first) };

	for (size_t k = 0; k < TRAINED_VELOCITIES; k++)
		trained.velocity[k] = numbers_at(numbers, velocity, k * count + first);
	return trained;
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
