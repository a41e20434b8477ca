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

bool split_create(const struct data *data, double fraction, uint64_t seed, struct split *out)
{
	struct split split = { 0 };

	if (data->rows > UINT32_MAX)
		return why_set(TUTTI_ERR_INVALID, "found %zu samples, expected at most %u",
			       data->rows, UINT32_MAX);
	split.rows = malloc(data->rows * sizeof(*split.rows));
	if (!split.rows)
		return why_no_memory("the order of the samples");
	for (size_t i = 0; i < data->rows; i++)
		split.rows[i] = (uint32_t)i;
	if (data->test_rows > 0)
		part_in_order(data, &split);
	else
		part_at_random(data, fraction, seed, &split);
	*out = split;
	return true;
}

void split_finish(struct split *split)
{
	free(split->rows);
	*split = (struct split){ 0 };
}

/* Knuth 1969, section 4.2.2, theorem B: what the rounded sum lacks is a number itself. */
void exact_add(struct exact *sum, double x)
{
	const double rounded = sum->high + x, back = rounded - sum->high;

	sum->low += (sum->high - (rounded - back)) + (x - back);
	sum->high = rounded;
}

static double exact_value(const struct exact *sum)
{
	return sum->high + sum->low;
}

void sum_features(const struct data *data, const uint32_t *rows, size_t count, const double *mean,
		  struct exact *sums)
{
	const size_t n = data->features;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < n; j++) {
			const double x = data->x[rows[i] * n + j], off = mean ? x - mean[j] : 0;

			exact_add(&sums[j], mean ? off * off : x);
		}
}

void feature_means(const struct exact *sums, size_t features, size_t rows, double *mean)
{
	for (size_t j = 0; j < features; j++)
		mean[j] = exact_value(&sums[j]) / (double)rows;
}

void feature_inverses(const struct exact *squares, const double *mean, size_t features, size_t rows,
		      double *inverse)
{
	for (size_t j = 0; j < features; j++) {
		const double deviation = sqrt(exact_value(&squares[j]) / (double)rows);

		/* less is what the mean was rounded by */
		inverse[j] = deviation > 1e-12 * fabs(mean[j]) ? 1 / deviation : 0;
	}
}

void standardise_by(struct data *data)
{
	const size_t n = data->features;

	for (size_t i = 0; i < data->rows; i++)
		for (size_t j = 0; j < n; j++) {
			float *x = &data->x[i * n + j];

			*x = (float)((*x - data->mean[j]) * data->inverse[j]);
		}
}

/* Two passes: the textbook's one-pass formula loses all digits where the mean is large. */
bool standardise(struct data *data, const struct split *split)
{
	const size_t n = data->features;

	assert(!data->mean && !data->inverse);
	data->mean = calloc(n, sizeof(*data->mean));
	data->inverse = calloc(n, sizeof(*data->inverse));
	struct exact *sums = calloc(2 * n, sizeof(*sums));

	if (!data->mean || !data->inverse || !sums) {
		free(sums);
		return why_no_memory("the features' means");
	}
	sum_features(data, split->train, split->train_rows, NULL, sums);
	feature_means(sums, n, split->train_rows, data->mean);
	sum_features(data, split->train, split->train_rows, data->mean, sums + n);
	feature_inverses(sums + n, data->mean, n, split->train_rows, data->inverse);
	free(sums);
	standardise_by(data);
	return true;
}

void epoch_order(const struct split *split, uint64_t seed, unsigned epoch, uint32_t *order)
{
	memcpy(order, split->train, split->train_rows * sizeof(*order));
	shuffle(order, split->train_rows, random_stream(seed, RANDOM_EPOCH + (uint64_t)epoch));
}
