/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-train makes up, and reads to validate on. */
#include "tests.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "batches.h"
#include "data.h"
#include "train_files.h"

/* ---- made up */

static struct data read_synthetic(const char *name)
{
	return well(read_source(&(struct data_source){ .path = name, .most = MOST }));
}

static bool same_samples(const struct data *a, const struct data *b, size_t rows)
{
	return memcmp(a->x, b->x, rows * a->features * sizeof(*a->x)) == 0 &&
	       memcmp(a->y, b->y, rows * sizeof(*a->y)) == 0;
}

TEST(synthetic_data_follow_from_their_name_alone)
{
	struct data data = read_synthetic("synthetic:1100x7x3");
	struct data same = read_synthetic("synthetic:1100x7x3:1");
	struct data other = read_synthetic("synthetic:1100x7x3:2");
	struct data longer = read_synthetic("synthetic:2001x7x3");

	assert_int_equal(data.rows, 1100);
	assert_int_equal(data.features, 7);
	assert_int_equal(data.classes, 3);
	assert_int_equal(data.test_rows, 0);
	assert_true(same_samples(&data, &same, 1100));
	assert_true(same_samples(&data, &longer, 1100));
	assert_false(same_samples(&data, &other, 1100));
	assert_true(data.hash == same.hash && data.hash != other.hash);
	data_finish(&data);
	data_finish(&same);
	data_finish(&other);
	data_finish(&longer);
}

TEST(synthetic_features_are_standard_normal)
{
	struct data data = read_synthetic("synthetic:9999x11x2:5");
	const size_t count = data.rows * data.features;
	double sum = 0, squares = 0, fourths = 0, neighbours = 0;

	for (size_t i = 0; i < count; i++) {
		const double x = data.x[i];

		sum += x;
		squares += x * x;
		fourths += x * x * x * x;
		neighbours += x * data.x[(i ^ 1) % count] /* of its pair */;
	}
	assert_float_equal(sum / (double)count, 0, 0.02);
	assert_float_equal(squares / (double)count, 1, 0.03);
	assert_float_equal(fourths / (double)count, 3, 0.2);
	assert_float_equal(neighbours / (double)count, 0, 0.02);
	data_finish(&data);
}

TEST(synthetic_labels_are_shared_out_among_all_classes)
{
	for (int seed = 0; seed < 20; seed++) {
		char name[64];
		size_t seen[10] = { 0 };

		snprintf(name, sizeof(name), "synthetic:4000x16x10:%d", seed);
		struct data data = read_synthetic(name);
		for (size_t i = 0; i < data.rows; i++)
			seen[data.y[i]]++;
		for (int c = 0; c < 10; c++)
			assert_in_range(seen[c], 120, 1200);
		data_finish(&data);
	}
}

TEST(synthetic_name_is_read_strictly)
{
	static const char *const wrong[] = { "",
					     "10",
					     "10x",
					     "10x2",
					     "10x2x",
					     "1x2x2",
					     "10x0x2",
					     "10x65537x2",
					     "10x2x1",
					     "10x2x65537",
					     "+10x2x2",
					     "-10x2x2",
					     " 10x2x2",
					     "10x2x2 ",
					     "10X2X2",
					     "10x2x2x2",
					     "10x2x2:",
					     "10x2x2:-1",
					     "10x2x2:z",
					     "10x2x2:1:1",
					     "4294967296x1x2",
					     "0x10x2x2",
					     "1e3x2x2",
					     "18446744073709551626x2x2",
					     "10x2x2:18446744073709551616" };
	struct synthetic s;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "synthetic:%s", wrong[i]);
		refused(read_source(&(struct data_source){ .path = name, .most = MOST }),
			"expected synthetic:ROWSxFEATURESxCLASSES[:SEED]");
	}
	assert_true(synthetic_parse("synthetic:4294967295x65536x65536:18446744073709551615", &s));
	assert_true(s.rows == UINT32_MAX && s.features == 65536 && s.classes == 65536);
	assert_true(s.seed == UINT64_MAX);
	assert_false(synthetic_is("synthetic") || synthetic_is("./synthetic:10x2x2"));
}

TEST(synthetic_data_beyond_the_limit_are_refused)
{
	struct data_source source = { .path = "synthetic:100x25x2", .most = 10000 };
	struct data data = well(read_source(&source));

	data_finish(&data);
	source.most = 9999;
	refused(read_source(&source),
		"found 100 rows of 100 bytes, expected at most 9999 bytes in all, "
		"which are 99 rows; ask for fewer, or raise --data-limit");
	source.path = "synthetic:4294967295x65536x2";
	source.most = (size_t)4 << 30;
	refused(read_source(&source), "which are 16384 rows");
}

/* Their labels and their validation are their own. */
TEST(made_samples_refuse_the_options_of_files)
{
	const char *const path = "synthetic:10x2x2";

	refused(read_source(&(struct data_source){ path, .labels = "l", .most = MOST }),
		"leave --labels out");
	refused(read_source(&(struct data_source){ path, .test_path = "t", .most = MOST }),
		"leave --test-data out");
	refused(read_source(&(struct data_source){ path, .test_labels = "t", .most = MOST }),
		"leave --test-labels out");
	refused(read_source(&(struct data_source){ path, .classes = 3, .most = MOST }),
		"found --classes 3, expected 2");
}

/* ---- samples to validate on */

#define TRAINED "1,2,0\n3,4,1\n5,6,2\n"

/* What data_read() makes of these two files. */
static struct reading two(const char *train, const char *test)
{
	const struct data_source source = {
		.path = text_file("0", train),
		.test_path = text_file("1", test),
		.most = MOST,
	};
	const struct reading r = read_source(&source);

	unlink(source.path);
	unlink(source.test_path);
	return r;
}

TEST(samples_of_a_test_file_are_exactly_those_that_validate)
{
	struct data data = well(two(TRAINED, "7,8,1\n9,10,0\n"));
	struct split split;

	assert_int_equal(data.rows, 5);
	assert_int_equal(data.test_rows, 2);
	assert_int_equal(data.classes, 3);
	for (size_t i = 0; i < 10; i++)
		assert_true(data.x[i] == (float)(i + 1));
	assert_true(data.y[2] == 2 && data.y[3] == 1 && data.y[4] == 0);
	assert_true(split_create(&data, 0.9, 5, &split));
	assert_int_equal(split.train_rows, 3);
	assert_int_equal(split.test_rows, 2);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(split.train[i], i);
	assert_int_equal(split.test[0], 3);
	assert_int_equal(split.test[1], 4);
	split_finish(&split);
	data_finish(&data);
}

TEST(hash_tells_which_samples_validate)
{
	struct data two_of_five = well(two(TRAINED, "7,8,1\n9,10,0\n")),
		    one_of_five = well(two(TRAINED "7,8,1\n", "9,10,0\n"));

	assert_true(two_of_five.hash != one_of_five.hash);
	data_finish(&two_of_five);
	data_finish(&one_of_five);
}

TEST(test_file_unlike_the_training_file_is_refused)
{
	refused(two(TRAINED, "7,1\n"), "1: found 1 features, expected 2 as in /tmp");
	refused(two(TRAINED, "7,8,1\n9,10,3\n"), "1: row 1: found label 3, expected 0 to 2 as in");
	refused(two(TRAINED, "7,x,1\n"), "1: line 1, field 2: found 'x'");
	refused(two(TRAINED, ""), "1: found no row");
	refused(two("1,0\n2,2\n", "3,1\n"), "no sample has label 1"); /* the test's do not count */
}

TEST(idx_files_of_both_kinds_are_read_as_they_are)
{
	static const char test_image[] = { 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 7, 9 };
	static const char test_label[] = { 0, 0, 8, 1, 0, 0, 0, 1, 1 };
	const char *const path[] = { file_with("0", two_images, sizeof(two_images)),
				     file_with("1", two_labels, sizeof(two_labels)),
				     file_with("2", test_image, sizeof(test_image)),
				     file_with("3", test_label, sizeof(test_label)) };
	struct data_source source = { path[0], path[1], path[2], path[3], .most = MOST };
	struct data data = well(read_source(&source));

	assert_true(data.rows == 3 && data.test_rows == 1 && data.features == 2);
	assert_true(data.x[4] == 7 && data.x[5] == 9 && data.y[2] == 1);
	data_finish(&data);
	source.test_labels = NULL;
	refused(read_source(&source),
		"2: is an IDX file; give the file of its labels with --test-labels");
	source.test_path = NULL;
	source.test_labels = path[3];
	refused(read_source(&source), "but no --test-data; give both or neither");
	for (int i = 0; i < 4; i++)
		unlink(path[i]);
}

int main(void)
{
	return run_claims(make_directory, remove_directory);
}
