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

/* Set aside `fraction` of all rows, rounded down, for validation; or, where the data say which are
 * for validation, those, in their order. */
bool split_create(const struct data *data, double fraction, uint64_t seed, struct split *out);
void split_finish(struct split *split);

/* Give each feature mean 0 and variance 1 over the rows for training; constant features become 0,
 * and so does their `inverse`. These are `count` of this rank's, of `of` that all ranks have.
 * Collective, where there is a team: its ranks have a part each. */
bool standardise(struct data *data, const uint32_t *rows, size_t count, size_t of,
		 struct team *team);
/* By the mean of each feature, and what it is multiplied by. */
void standardise_by(struct data *data, const double *mean, const double *factor);

/* Write the order in which `epoch` goes through the training rows. */
void epoch_order(const struct split *split, uint64_t seed, unsigned epoch, uint32_t *order);

#endif
