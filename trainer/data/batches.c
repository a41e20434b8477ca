/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the split of the data, the order of each epoch, and how features are scaled. */
#include "batches.h"

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

bool split_create(const struct data *data, double fraction, uint64_t seed, struct split *out)
{
	struct split split = { 0 };

	if (data->all_rows > UINT32_MAX)
		return why_invalid("found %zu samples, expected at most %u", data->all_rows,
				   UINT32_MAX);
	split.rows = malloc(data->all_rows * sizeof(*split.rows));
	if (!split.rows)
		return why_no_memory("the order of the samples");
	for (size_t i = 0; i < data->all_rows; i++)
		split.rows[i] = (uint32_t)i;
	const bool given = data->all_test_rows > 0;

	if (!given)
		shuffle(split.rows, data->all_rows, random_stream(seed, RANDOM_SPLIT));
	split.test_rows = given ? data->all_test_rows : (size_t)(fraction * (double)data->all_rows);
	split.train_rows = data->all_rows - split.test_rows;
	split.train = split.rows + (given ? 0 : split.test_rows);
	split.test = split.rows + (given ? split.train_rows : 0);
	*out = split;
	return true;
}

void split_finish(struct split *split)
{
	free(split->rows);
	*split = (struct split){ 0 };
}

/* A sum, and what its rounding has lost: of parts of the numbers, in any order, the sum comes out
 * alike (but where it would be just between two numbers). */
struct exact {
	double high, low;
};

/* Knuth 1969, section 4.2.2, theorem B: what the rounded sum lacks is a number itself. */
static void exact_add(struct exact *sum, double x)
{
	const double rounded = sum->high + x, back = rounded - sum->high;

	sum->low += (sum->high - (rounded - back)) + (x - back);
	sum->high = rounded;
}

static void add_exact(void *sum, const void *part)
{
	const struct exact *other = part;

	exact_add(sum, other->high);
	exact_add(sum, other->low);
}

/* Of each feature the sum over these rows, or, where there is a `mean`, that of the squares of what
 * it is apart from it. */
static bool sum_up(const struct data *data, const uint32_t *rows, size_t count, const double *mean,
		   struct team *team, struct exact *sums)
{
	const size_t n = data->features;

	memset(sums, 0, n * sizeof(*sums));
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < n; j++) {
			const double x = data->x[rows[i] * n + j], off = mean ? x - mean[j] : 0;

			exact_add(&sums[j], mean ? off * off : x);
		}
	return join_parts(team, sums, n, sizeof(*sums), add_exact);
}

void standardise_by(struct data *data, const double *mean, const double *factor)
{
	float *x = data->x;

	for (size_t i = 0; i < data->rows; i++)
		for (size_t j = 0; j < data->features; j++, x++)
			*x = (float)((*x - mean[j]) * factor[j]);
}

/* Two passes: the textbook's one-pass formula loses all digits where the mean is large. */
bool standardise(struct data *data, const uint32_t *rows, size_t count, size_t of,
		 struct team *team)
{
	const size_t n = data->features;
	struct exact *sums = calloc(n, sizeof(*sums));
	bool ok;

	data->mean = calloc(n, sizeof(*data->mean));
	data->inverse = calloc(n, sizeof(*data->inverse));
	ok = sums && data->mean && data->inverse ? sum_up(data, rows, count, NULL, team, sums)
						 : why_no_memory("the features' means");
	for (size_t j = 0; ok && j < n; j++)
		data->mean[j] = (sums[j].high + sums[j].low) / (double)of;
	ok = ok && sum_up(data, rows, count, data->mean, team, sums);
	for (size_t j = 0; ok && j < n; j++) {
		const double deviation = sqrt((sums[j].high + sums[j].low) / (double)of);

		/* less is what the mean was rounded by */
		data->inverse[j] = deviation > 1e-12 * fabs(data->mean[j]) ? 1 / deviation : 0;
	}
	free(sums);
	if (ok)
		standardise_by(data, data->mean, data->inverse);
	return ok;
}

void epoch_order(const struct split *split, uint64_t seed, unsigned epoch, uint32_t *order)
{
	memcpy(order, split->train, split->train_rows * sizeof(*order));
	shuffle(order, split->train_rows, random_stream(seed, RANDOM_EPOCH + (uint64_t)epoch));
}
