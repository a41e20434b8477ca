/* SPDX-License-Identifier: BSD-3-Clause */
/* Which samples are used when, and by which rank. All of it follows from the seed alone, so that
 * ranks agree without a message, and the number of ranks changes nothing but who computes what. */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "data.h"

/* A run of `count` places from `first` on. */
struct slice {
	size_t first, count;
};

/* The part of `total` that falls to `rank`: even to within one, the parts in rank order. */
struct slice slice_of(size_t total, int rank, int ranks);

/* Row numbers of the two parts of the data. Zeroed is empty. */
struct split {
	uint32_t *rows; /* owned; both parts are in it */
	uint32_t *train, *test;
	size_t train_rows, test_rows;
};

/* Set aside `fraction` of the rows, rounded down, for validation; or, where the data say which are
 * for validation, those, in their order. */
bool split_create(const struct data *data, double fraction, uint64_t seed, struct split *out);
void split_finish(struct split *split);

/* A sum and what its rounding has lost: of parts of the numbers, in any order, the sum comes out alike (but
 * where it would be just between two numbers). Zeroed is 0. */
struct exact {
	double high, low;
};
void exact_add(struct exact *sum, double x);
/* Add to `sums` [features] the features of these rows, or, where there is a `mean` [features], the squares
 * of what they are apart from it. */
void sum_features(const struct data *data, const uint32_t *rows, size_t count, const double *mean,
		  struct exact *sums);
/* Of such sums over all rows for training, their number being `rows`. The inverse of the standard
 * deviation is 0 for a constant feature. */
void feature_means(const struct exact *sums, size_t features, size_t rows, double *mean);
void feature_inverses(const struct exact *squares, const double *mean, size_t features, size_t rows,
		      double *inverse);
/* By data->mean and data->inverse, which are there. */
void standardise_by(struct data *data);

/* Give each feature mean 0 and variance 1 over the training rows; constant features become 0.
 * Keeps what it used in `data`. Data that are used as they are stay so. */
bool standardise(struct data *data, const struct split *split);

/* Write the order in which `epoch` goes through the training rows. */
void epoch_order(const struct split *split, uint64_t seed, unsigned epoch, uint32_t *order);

#endif
