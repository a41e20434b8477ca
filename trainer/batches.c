/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the split of the data and the order of each epoch. Pure functions of their arguments. */
#include "batches.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

struct slice slice_of(size_t total, int rank, int ranks)
{
	const size_t r = (size_t)rank, n = (size_t)ranks, each = total / n, more = total % n;

	return (struct slice){ r * each + (r < more ? r : more), each + (r < more) };
}

static void shuffle(uint32_t *rows, size_t count, uint64_t state)
{
	for (size_t left = count; left > 1; left--) {
		const uint32_t other = random_below(&state, (uint32_t)left), row = rows[other];

		rows[other] = rows[left - 1];
		rows[left - 1] = row;
	}
}

static void part_at_random(const struct data *data, double fraction, uint64_t seed,
			   struct split *split)
{
	shuffle(split->rows, data->rows, random_stream(seed, RANDOM_SPLIT));
	split->test_rows = (size_t)(fraction * (double)data->rows);
	split->train_rows = data->rows - split->test_rows;
	split->test = split->rows;
	split->train = split->rows + split->test_rows;
}

static void part_in_order(const struct data *data, struct split *split)
{
	split->test_rows = data->test_rows;
	split->train_rows = data->rows - data->test_rows;
	split->train = split->rows;
	split->test = split->rows + split->train_rows;
}

tutti_result_t split_create(const struct data *data, double fraction, uint64_t seed,
			    struct split *out, struct why *why)
{
	struct split split = { 0 };

	if (data->rows > UINT32_MAX)
		return why_set(why, TUTTI_ERR_INVALID, "found %zu samples, expected at most %u",
			       data->rows, UINT32_MAX);
	split.rows = malloc(data->rows * sizeof(*split.rows));
	if (!split.rows)
		return why_no_memory(why, "the order of the samples");
	for (size_t i = 0; i < data->rows; i++)
		split.rows[i] = (uint32_t)i;
	if (data->test_rows > 0)
		part_in_order(data, &split);
	else
		part_at_random(data, fraction, seed, &split);
	*out = split;
	return TUTTI_OK;
}

void split_finish(struct split *split)
{
	free(split->rows);
	*split = (struct split){ 0 };
}

/* Mean and the inverse of the standard deviation of each feature, 0 for a constant one. Two passes:
 * the textbook's one-pass formula loses all digits where the mean is large. */
static void moments(const struct data *data, const struct split *split, double *mean,
		    double *inverse)
{
	const size_t n = data->features;

	for (size_t i = 0; i < split->train_rows; i++)
		for (size_t j = 0; j < n; j++)
			mean[j] += data->x[split->train[i] * n + j];
	for (size_t j = 0; j < n; j++)
		mean[j] /= (double)split->train_rows;
	for (size_t i = 0; i < split->train_rows; i++)
		for (size_t j = 0; j < n; j++) {
			const double off = data->x[split->train[i] * n + j] - mean[j];

			inverse[j] += off * off;
		}
	for (size_t j = 0; j < n; j++) {
		const double deviation = sqrt(inverse[j] / (double)split->train_rows);

		inverse[j] = deviation > 1e-6 * fabs(mean[j]) && deviation > 0 ? 1 / deviation : 0;
	}
}

tutti_result_t standardise(struct data *data, const struct split *split, struct why *why)
{
	const size_t n = data->features;

	if (data->as_is)
		return TUTTI_OK;
	assert(!data->mean && !data->inverse);
	data->mean = calloc(n, sizeof(*data->mean));
	data->inverse = calloc(n, sizeof(*data->inverse));
	if (!data->mean || !data->inverse)
		return why_no_memory(why, "the features' means");
	moments(data, split, data->mean, data->inverse);
	for (size_t i = 0; i < data->rows; i++)
		for (size_t j = 0; j < n; j++) {
			float *x = &data->x[i * n + j];

			*x = (float)((*x - data->mean[j]) * data->inverse[j]);
		}
	return TUTTI_OK;
}

void epoch_order(const struct split *split, uint64_t seed, unsigned epoch, uint32_t *order)
{
	memcpy(order, split->train, split->train_rows * sizeof(*order));
	shuffle(order, split->train_rows, random_stream(seed, RANDOM_EPOCH + (uint64_t)epoch));
}
