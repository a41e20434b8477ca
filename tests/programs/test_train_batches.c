/* SPDX-License-Identifier: BSD-3-Clause */
/* How samples are parted into those that train and those that validate, put in order, divided among ranks,
 * and scaled. */
#include "tests.h"

#include <stdlib.h>

#include "batches.h"
#include "data.h"

TEST(slices_cover_everything_once_and_evenly)
{
	for (size_t total = 0; total < 70; total++)
		for (int ranks = 1; ranks < 20; ranks++) {
			size_t next = 0;

			for (int r = 0; r < ranks; r++) {
				const struct slice s = slice_of(total, r, ranks);

				assert_int_equal(s.first, next);
				assert_true(s.count == total / (size_t)ranks ||
					    s.count == total / (size_t)ranks + 1);
				next += s.count;
			}
			assert_int_equal(next, total);
		}
}

static void make_split(struct split *split, uint64_t seed)
{
	struct data data = { .all_rows = 100 };

	assert_true(split_create(&data, 0.25, seed, split));
	assert_int_equal(split->test_rows, 25);
	assert_int_equal(split->train_rows, 75);
}

TEST(split_and_orders_are_permutations)
{
	struct split split;
	uint32_t order[75];
	int seen[100] = { 0 };

	make_split(&split, 5);
	epoch_order(&split, 5, 3, order);
	for (size_t i = 0; i < 75; i++)
		seen[order[i]]++;
	for (size_t i = 0; i < 25; i++)
		seen[split.test[i]]++;
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(seen[i], 1);
	split_finish(&split);
}

TEST(orders_follow_from_seed_and_epoch_alone)
{
	struct split a, b, c;
	uint32_t first[75], same[75], next[75];

	make_split(&a, 5);
	make_split(&b, 5);
	make_split(&c, 6);
	assert_memory_equal(a.rows, b.rows, 100 * sizeof(*a.rows));
	assert_memory_not_equal(a.rows, c.rows, 100 * sizeof(*a.rows));
	epoch_order(&a, 5, 1, first);
	epoch_order(&b, 5, 1, same);
	epoch_order(&b, 5, 2, next);
	assert_memory_equal(first, same, sizeof(first));
	assert_memory_not_equal(first, next, sizeof(first));
	split_finish(&a);
	split_finish(&b);
	split_finish(&c);
}

TEST(a_small_difference_beside_a_large_mean_counts)
{
	float x[] = { 16777214, 16777215 };
	const uint32_t rows[] = { 0, 1 };
	struct data data = { .rows = 2, .features = 1, .x = x };

	assert_true(standardise(&data, rows, 2, 2, NULL));
	assert_true(x[0] == -1 && x[1] == 1);
	free(data.mean);
	free(data.inverse);
}

TEST(features_are_standardised_over_the_training_rows)
{
	float x[] = { 1, 7, 1000, 3, 7, 9, 5, 7, -1 };
	const uint32_t rows[] = { 0, 2 }; /* row 1 is set aside */
	struct data data = { .rows = 3, .features = 3, .x = x };

	assert_true(standardise(&data, rows, 2, 2, NULL));
	assert_float_equal(x[0], -1, 1e-6);
	assert_float_equal(x[6], 1, 1e-6);
	assert_float_equal(x[3], 0, 1e-6);
	assert_true(x[1] == 0 && x[4] == 0 && x[7] == 0);
	assert_true(data.mean[0] == 3 && data.mean[1] == 7); /* of 1 and 5, and of 7 and 7 */
	assert_true(data.inverse[0] == 0.5 && data.inverse[1] == 0);
	free(data.mean);
	free(data.inverse);
}
