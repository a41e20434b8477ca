/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-train reads, and what it refuses and with which words. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "batches.h"
#include "bits.h"
#include "data.h"
#include "train_files.h"

/* ---- CSV, from memory */

static tutti_result_t parse_csv(const char *text, struct data *data, struct why *why)
{
	char *bytes = strdup(text);
	const struct input input = { .path = "t.csv", .bytes = bytes, .length = strlen(text) };
	const tutti_result_t result = csv_parse(&input, data, why);

	free(bytes);
	return result;
}

static void refuses_csv(const char *text, const char *error_text)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_csv(text, &data, &why), TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, error_text));
	assert_null(data.x);
}

static void csv_rows_become_features_and_labels(void **state)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_csv("1.5,-2e1,1\n 3 ,\t4,0\r\n5,6,2", &data, &why), TUTTI_OK);
	assert_int_equal(data.rows, 3);
	assert_int_equal(data.features, 2);
	assert_true(data.x[0] == 1.5f && data.x[1] == -20 && data.x[2] == 3 && data.x[5] == 6);
	assert_int_equal(data.y[0], 1);
	assert_int_equal(data.y[1], 0);
	assert_int_equal(data.y[2], 2);
	data_finish(&data);
}

static void csv_header_is_passed_over(void **state)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_csv("height,width,label\n1,2,0\n3,4,1\n\n\n", &data, &why),
			 TUTTI_OK);
	assert_int_equal(data.rows, 2);
	data_finish(&data);
}

static void csv_ragged_line_is_refused_with_its_number(void **state)
{
	refuses_csv("1,2,0\n3,4,1\n5,1\n", "line 3: found 2 fields, expected 3 as in line 1");
	refuses_csv("a,b,c\n1,2,0\n3,4,5,1\n", "line 3: found 4 fields, expected 3 as in line 2");
	refuses_csv("1,2,0\n\n3,4,1\n", "line 2: found a blank line, expected 3 fields");
}

static void csv_field_that_is_no_number_is_refused_with_its_place(void **state)
{
	refuses_csv("1,2,0\n3,x4,1\n", "line 2, field 2: found 'x4', expected a number");
	refuses_csv("1,2,0\n3,,1\n", "line 2, field 2: found '', expected a number");
	refuses_csv("1,2,0\n3,4,\n5,6,1\n", "line 2, field 3: found '', expected a number");
	refuses_csv("1,2,0\n3,4 5,1\n", "line 2, field 2: found '4 5', expected a number");
}

static void csv_number_that_is_not_finite_is_refused(void **state)
{
	refuses_csv("1,2,0\n3,nan,1\n", "line 2, field 2: found 'nan', expected a finite number");
	refuses_csv("1,2,0\ninf,4,1\n", "line 2, field 1: found 'inf', expected a finite number");
	refuses_csv("1,2,0\n1e60,4,1\n", "line 2, field 1: found '1e60', expected a finite number");
}

static void csv_label_that_is_none_is_refused(void **state)
{
	static const char *const labels[] = { "-1", "1.5", "65536", "nan", "1e30" };

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		char text[64], error_text[64];

		snprintf(text, sizeof(text), "1,2,0\n3,4,%s\n", labels[i]);
		snprintf(error_text, sizeof(error_text),
			 "line 2, field 3: found '%s', expected a label", labels[i]);
		refuses_csv(text, error_text);
	}
}

static void csv_without_rows_or_features_is_refused(void **state)
{
	refuses_csv("", "found no row");
	refuses_csv("\n\n", "found no row");
	refuses_csv("a,b,c\n", "found no row");
	refuses_csv("1\n2\n", "line 1: found 1 field");
}

/* ---- IDX, from memory */

static const char two_images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2, 3, -1 };
static const char two_labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 1, 0 };

static tutti_result_t parse_idx(const char *x, size_t x_length, const char *y, size_t y_length,
				struct data *data, struct why *why)
{
	char *x_copy = malloc(x_length + 1), *y_copy = malloc(y_length + 1);
	const struct input samples = { "t.x", memcpy(x_copy, x, x_length), x_length };
	const struct input labels = { "t.y", memcpy(y_copy, y, y_length), y_length };
	const tutti_result_t result = idx_parse(&samples, &labels, data, why);

	free(x_copy);
	free(y_copy);
	return result;
}

static void refuses_idx(const char *x, size_t x_length, const char *y, size_t y_length,
			const char *error_text)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_idx(x, x_length, y, y_length, &data, &why), TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, error_text));
	assert_null(data.x);
}

static void idx_pair_becomes_features_and_labels(void **state)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_idx(two_images, sizeof(two_images), two_labels, sizeof(two_labels),
				   &data, &why),
			 TUTTI_OK);
	assert_int_equal(data.rows, 2);
	assert_int_equal(data.features, 2);
	assert_true(data.x[0] == 1 && data.x[1] == 2 && data.x[2] == 3 && data.x[3] == 255);
	assert_int_equal(data.y[0], 1);
	assert_int_equal(data.y[1], 0);
	data_finish(&data);
}

static void idx_elements_of_every_type_are_read(void **state)
{
	static const struct {
		char bytes[24];
		size_t length;
		float value;
	} cases[] = {
		{ { 0, 0, 0x09, 2, 0, 0, 0, 1, 0, 0, 0, 1, -2 }, 13, -2 },
		{ { 0, 0, 0x0b, 2, 0, 0, 0, 1, 0, 0, 0, 1, -1, -2 }, 14, -2 },
		{ { 0, 0, 0x0c, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0 }, 16, 65536 },
		{ { 0, 0, 0x0d, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x3f, -64, 0, 0 }, 16, 1.5f },
		{ { 0, 0, 0x0e, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x3f, -8, 0, 0, 0, 0, 0, 0 }, 20, 1.5f },
	};
	static const char label[] = { 0, 0, 8, 1, 0, 0, 0, 1, 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct data data = { 0 };
		struct why why;

		assert_int_equal(parse_idx(cases[i].bytes, cases[i].length, label, sizeof(label),
					   &data, &why),
				 TUTTI_OK);
		assert_true(data.x[0] == cases[i].value);
		data_finish(&data);
	}
}

static void idx_cut_anywhere_is_refused(void **state)
{
	for (size_t length = 0; length < sizeof(two_images); length++)
		refuses_idx(two_images, length, two_labels, sizeof(two_labels),
			    length < 4 ? "found no IDX header" : "truncated");
	for (size_t length = 0; length < sizeof(two_labels); length++)
		refuses_idx(two_images, sizeof(two_images), two_labels, length, "t.y: ");
}

static void idx_header_that_lies_is_refused(void **state)
{
	static const char type[] = { 0, 0, 7, 1, 0, 0, 0, 1, 0 };
	static const char dims[] = { 0, 0, 8, 0 };
	static const char huge[] = { 0,	 0,  8,	 4,  -1, -1, -1, -1, -1, -1,
				     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
	static const char empty[] = { 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 1 };
	static const char longer[] = { 0, 0, 8, 1, 0, 0, 0, 1, 0, 0 };
	static const char one[] = { 0, 0, 8, 1, 0, 0, 0, 1, 0 };
	static const char real[] = { 0, 0, 0x0d, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0 };

	refuses_idx(type, sizeof(type), one, sizeof(one), "found IDX type 0x07");
	refuses_idx(dims, sizeof(dims), one, sizeof(one), "0 dimensions");
	refuses_idx(huge, sizeof(huge), one, sizeof(one),
		    "more elements than a machine can address");
	refuses_idx(empty, sizeof(empty), one, sizeof(one), "found 0 rows");
	refuses_idx(longer, sizeof(longer), one, sizeof(one), "too long");
	refuses_idx(two_images, sizeof(two_images), one, sizeof(one), "found 1 labels, expected 2");
	refuses_idx(two_images, sizeof(two_images), real, sizeof(real), "expected labels");
}

static void idx_values_out_of_range_are_refused(void **state)
{
	static const char nan_image[] = { 0, 0, 0x0d, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, -64, 0, 0 };
	static const char minus_label[] = { 0, 0, 9, 1, 0, 0, 0, 2, 1, -3 };
	static const char one[] = { 0, 0, 8, 1, 0, 0, 0, 1, 0 };

	refuses_idx(nan_image, sizeof(nan_image), one, sizeof(one), "row 0, element 0: found nan");
	refuses_idx(two_images, sizeof(two_images), minus_label, sizeof(minus_label),
		    "row 1: found label -3");
}

/* ---- files */

#define MOST (1 << 20) /* bytes of content */

/* What data_read() says about a file of these bytes. */
static tutti_result_t read_bytes(const char *text, size_t length, unsigned classes,
				 struct data *data, struct why *why)
{
	const char *path = path_of("data");
	const struct data_source source = { .path = path, .classes = classes, .most = MOST };
	tutti_result_t result;

	write_file(path, text, length);
	result = data_read(&source, data, why);
	unlink(path);
	return result;
}

static void refuses_file(const char *text, size_t length, unsigned classes, const char *error_text)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(read_bytes(text, length, classes, &data, &why), TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, error_text));
	assert_null(data.x);
}

static void label_out_of_range_is_refused(void **state)
{
	static const char gap[] = "1,0\n2,1\n3,7\n", all_0[] = "1,0\n2,0\n";

	refuses_file(gap, strlen(gap), 0, "label out of range: found 7, but no sample has label 2");
	refuses_file(gap, strlen(gap), 5, "label out of range: found 7, expected 0 to 4");
	refuses_file(all_0, strlen(all_0), 0, "expected at least two classes");
}

static void classes_may_be_said(void **state)
{
	static const char text[] = "1,0\n2,1\n3,7\n";
	struct data data = { 0 };
	struct why why;

	assert_int_equal(read_bytes(text, strlen(text), 8, &data, &why), TUTTI_OK);
	assert_int_equal(data.classes, 8);
	data_finish(&data);
}

static void idx_without_labels_is_refused(void **state)
{
	refuses_file(two_images, sizeof(two_images), 0, "--labels");
}

static void file_that_is_not_there_is_refused(void **state)
{
	const struct data_source source = { .path = path_of("nowhere"), .most = MOST };
	const struct data_source is_directory = { .path = directory, .most = MOST };
	struct data data = { 0 };
	struct why why;

	assert_int_equal(data_read(&source, &data, &why), TUTTI_ERR_SYSTEM);
	assert_non_null(strstr(why.text, "nowhere: cannot be read: No such file"));
	assert_int_equal(data_read(&is_directory, &data, &why), TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, "is not a regular file"));
}

/* What is read into grows by doubling. */
static void a_file_of_any_length_is_read_whole(void **state)
{
	static char bytes[(1 << 18) + 1];
	const char *path = path_of("data");

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 31 + i / 4096);
	for (size_t power = 1 << 15; power < sizeof(bytes); power *= 2) {
		for (size_t length = power - 2; length <= power + 1; length++) {
			struct input input = { 0 };
			struct why why;

			write_file(path, bytes, length);
			assert_int_equal(input_read(path, sizeof(bytes), &input, &why), TUTTI_OK);
			assert_int_equal(input.length, length);
			assert_memory_equal(input.bytes, bytes, length);
			assert_int_equal(input.bytes[length], 0);
			input_finish(&input);
		}
	}
	unlink(path);
}

/* A gzip file of rows that do not compress well, so that cuts fall everywhere. */
static size_t make_gzip(const char *path, char *bytes, size_t capacity)
{
	gzFile file = gzopen(path, "wb");
	FILE *again;
	size_t length;

	assert_non_null(file);
	for (unsigned i = 0; i < 2000; i++)
		assert_true(gzprintf(file, "%u,%u,%u\n", i * 2654435761u, i * 40503u, i % 3) > 0);
	assert_int_equal(gzclose(file), Z_OK);
	again = fopen(path, "r");
	assert_non_null(again);
	length = fread(bytes, 1, capacity, again);
	fclose(again);
	return length;
}

static void gzip_is_read_and_a_broken_one_refused(void **state)
{
	static char bytes[1 << 17];
	const char *path = path_of("data");
	const size_t length = make_gzip(path, bytes, sizeof(bytes));
	struct data data = { 0 };
	struct why why;

	assert_true(length > 1000 && length < sizeof(bytes));
	assert_int_equal(read_bytes(bytes, length, 0, &data, &why), TUTTI_OK);
	assert_int_equal(data.rows, 2000);
	data_finish(&data);
	refuses_file(bytes, length - 4, 0, "truncated: the gzip stream ends early");
	refuses_file(bytes, length / 2, 0, "truncated: the gzip stream ends early");
	bytes[length - 6] ^= 1; /* in the checksum */
	refuses_file(bytes, length, 0, "corrupt gzip stream");
}

/* ---- batches */

/* A few bytes of gzip's stand for many. */
static void content_beyond_the_limit_is_refused(void **state)
{
	static const struct {
		size_t most;
		bool fits;
	} limits[] = { { MOST, true }, { MOST - 1, false }, { 100000, false }, { 1, false } };
	static char bytes[1 << 16];
	char expected[64];
	struct input input;
	struct why why;

	for (int plain = 0; plain < 2; plain++) {
		const char *path = path_of("data");
		gzFile file = gzopen(path, plain ? "wbT" : "wb");

		assert_non_null(file);
		for (int i = 0; i < 16; i++)
			assert_int_equal(gzwrite(file, bytes, sizeof(bytes)), sizeof(bytes));
		assert_int_equal(gzclose(file), Z_OK);
		for (int i = 0; i < 4; i++) {
			const tutti_result_t result =
				input_read(path, limits[i].most, &input, &why);

			assert_int_equal(result, limits[i].fits ? TUTTI_OK : TUTTI_ERR_INVALID);
			snprintf(expected, sizeof(expected), "found more than %zu bytes of content",
				 limits[i].most);
			if (limits[i].fits)
				assert_int_equal(input.length, MOST);
			else
				assert_true(strstr(why.text, expected) &&
					    strstr(why.text, "raise --data-limit"));
			if (limits[i].fits)
				input_finish(&input);
		}
		unlink(path);
	}
}

static void slices_cover_everything_once_and_evenly(void **state)
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
	struct data data = { .rows = 100, .features = 1 };
	struct why why;

	assert_int_equal(split_create(&data, 0.25, seed, split, &why), TUTTI_OK);
	assert_int_equal(split->test_rows, 25);
	assert_int_equal(split->train_rows, 75);
}

static void split_and_orders_are_permutations(void **state)
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

static void orders_follow_from_seed_and_epoch_alone(void **state)
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

static void features_are_standardised_over_the_training_rows(void **state)
{
	float x[] = { 1, 7, 1000, 3, 7, 9, 5, 7, -1 };
	uint32_t rows[] = { 1, 0, 2 }; /* row 1 is set aside */
	struct data data = { .rows = 3, .features = 3, .x = x };
	struct split split = {
		.rows = rows, .test = rows, .train = rows + 1, .test_rows = 1, .train_rows = 2
	};
	struct why why;

	assert_int_equal(standardise(&data, &split, &why), TUTTI_OK);
	assert_float_equal(x[0], -1, 1e-6);
	assert_float_equal(x[6], 1, 1e-6);
	assert_float_equal(x[3], 0, 1e-6);
	assert_true(x[1] == 0 && x[4] == 0 && x[7] == 0);
	assert_true(data.mean[0] == 3 && data.mean[1] == 7); /* of 1 and 5, and of 7 and 7 */
	assert_true(data.inverse[0] == 0.5 && data.inverse[1] == 0);
	free(data.mean);
	free(data.inverse);
}

/* ---- other sources */

/* Files of one test, by number, so that several are there at a time. */
static const char *file_with(char *path, int number, const void *bytes, size_t length)
{
	snprintf(path, 64, "%s/%d", directory, number);
	write_file(path, bytes, length);
	return path;
}

static void refuses_source(const struct data_source *source, const char *error_text)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(data_read(source, &data, &why), TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, error_text));
	assert_null(data.x);
}

static struct data read_source(const struct data_source *source)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(data_read(source, &data, &why), TUTTI_OK);
	return data;
}

static struct data read_synthetic(const char *name)
{
	return read_source(&(struct data_source){ .path = name, .most = MOST });
}

static bool same_samples(const struct data *a, const struct data *b, size_t rows)
{
	return memcmp(a->x, b->x, rows * a->features * sizeof(*a->x)) == 0 &&
	       memcmp(a->y, b->y, rows * sizeof(*a->y)) == 0;
}

static void synthetic_data_follow_from_their_name_alone(void **state)
{
	struct data data = read_synthetic("synthetic:1100x7x3");
	struct data same = read_synthetic("synthetic:1100x7x3:1");
	struct data other = read_synthetic("synthetic:1100x7x3:2");
	struct data longer = read_synthetic("synthetic:2001x7x3");

	assert_int_equal(data.rows, 1100);
	assert_int_equal(data.features, 7);
	assert_int_equal(data.classes, 3);
	assert_true(!data.as_is && data.test_rows == 0);
	assert_true(same_samples(&data, &same, 1100));
	assert_true(same_samples(&data, &longer, 1100));
	assert_false(same_samples(&data, &other, 1100));
	assert_true(data_hash(&data) == data_hash(&same));
	data_finish(&data);
	data_finish(&same);
	data_finish(&other);
	data_finish(&longer);
}

static void synthetic_features_are_standard_normal(void **state)
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

static void synthetic_labels_are_shared_out_among_all_classes(void **state)
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

static void synthetic_name_is_read_strictly(void **state)
{
	static const char *const wrong[] = {
		"",
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
		"10x2x2:18446744073709551616",
	};
	struct synthetic s;
	struct why why;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "synthetic:%s", wrong[i]);
		refuses_source(&(struct data_source){ .path = name, .most = MOST },
			       "expected synthetic:ROWSxFEATURESxCLASSES[:SEED]");
	}
	assert_int_equal(
		synthetic_parse("synthetic:4294967295x65536x65536:18446744073709551615", &s, &why),
		TUTTI_OK);
	assert_true(s.rows == UINT32_MAX && s.features == 65536 && s.classes == 65536);
	assert_true(s.seed == UINT64_MAX);
	assert_false(synthetic_is("synthetic") || synthetic_is("./synthetic:10x2x2"));
}

static void synthetic_data_beyond_the_limit_are_refused(void **state)
{
	struct data_source source = { .path = "synthetic:100x25x2", .most = 10000 };
	struct data data = read_source(&source);

	data_finish(&data);
	source.most = 9999;
	refuses_source(&source, "found 100 rows of 100 bytes, expected at most 9999 bytes in all, "
				"which are 99 rows; ask for fewer, or raise --data-limit");
	source.path = "synthetic:4294967295x65536x2";
	source.most = (size_t)4 << 30;
	refuses_source(&source, "which are 16384 rows");
}

/* Their labels and their validation are their own. */
static void made_samples_refuse_the_options_of_files(void **state)
{
	static const char *const paths[] = { "synthetic:10x2x2", "text:nowhere" };

	for (int i = 0; i < 2; i++) {
		struct data_source source = { .path = paths[i], .labels = "l", .most = MOST };

		refuses_source(&source, "leave --labels out");
		source.labels = NULL;
		source.test_path = "t";
		refuses_source(&source, "leave --test-data out");
		source.test_path = NULL;
		source.test_labels = "t";
		refuses_source(&source, "leave --test-labels out");
	}
	refuses_source(&(struct data_source){ "synthetic:10x2x2", .classes = 3, .most = MOST },
		       "found --classes 3, expected 2");
}

#define TRAINED "1,2,0\n3,4,1\n5,6,2\n"

/* What data_read() makes of these two files. */
static tutti_result_t read_two(const char *train, const char *test, struct data *data,
			       struct why *why)
{
	char path[64], test_path[64];
	const struct data_source source = {
		.path = file_with(path, 0, train, strlen(train)),
		.test_path = file_with(test_path, 1, test, strlen(test)),
		.most = MOST,
	};
	const tutti_result_t result = data_read(&source, data, why);

	unlink(path);
	unlink(test_path);
	return result;
}

static void refuses_two(const char *train, const char *test, const char *error_text)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(read_two(train, test, &data, &why), TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, error_text));
	assert_null(data.x);
}

static void samples_of_a_test_file_are_exactly_those_that_validate(void **state)
{
	struct data data = { 0 };
	struct split split;
	struct why why;

	assert_int_equal(read_two(TRAINED, "7,8,1\n9,10,0\n", &data, &why), TUTTI_OK);
	assert_int_equal(data.rows, 5);
	assert_int_equal(data.test_rows, 2);
	assert_int_equal(data.classes, 3);
	for (size_t i = 0; i < 10; i++)
		assert_true(data.x[i] == (float)(i + 1));
	assert_true(data.y[2] == 2 && data.y[3] == 1 && data.y[4] == 0);
	assert_int_equal(split_create(&data, 0.9, 5, &split, &why), TUTTI_OK);
	assert_int_equal(split.train_rows, 3);
	assert_int_equal(split.test_rows, 2);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(split.train[i], i);
	assert_int_equal(split.test[0], 3);
	assert_int_equal(split.test[1], 4);
	split_finish(&split);
	data_finish(&data);
}

static void hash_tells_which_samples_validate(void **state)
{
	struct data data = { 0 };
	struct why why;
	uint64_t hash;

	assert_int_equal(read_two(TRAINED, "7,8,1\n9,10,0\n", &data, &why), TUTTI_OK);
	hash = data_hash(&data);
	data.test_rows = 1;
	assert_true(data_hash(&data) != hash);
	data_finish(&data);
}

static void test_file_unlike_the_training_file_is_refused(void **state)
{
	refuses_two(TRAINED, "7,1\n", "1: found 1 features, expected 2 as in /tmp");
	refuses_two(TRAINED, "7,8,1\n9,10,3\n", "1: row 1: found label 3, expected 0 to 2 as in");
	refuses_two(TRAINED, "7,x,1\n", "1: line 1, field 2: found 'x'");
	refuses_two(TRAINED, "", "1: found no row");
	refuses_two("1,0\n2,2\n", "3,1\n", "no sample has label 1"); /* the test's do not count */
}

static void idx_files_of_both_kinds_are_read_as_they_are(void **state)
{
	static const char test_image[] = { 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 7, 9 };
	static const char test_label[] = { 0, 0, 8, 1, 0, 0, 0, 1, 1 };
	char path[4][64];
	struct data_source source = {
		.path = file_with(path[0], 0, two_images, sizeof(two_images)),
		.labels = file_with(path[1], 1, two_labels, sizeof(two_labels)),
		.test_path = file_with(path[2], 2, test_image, sizeof(test_image)),
		.test_labels = file_with(path[3], 3, test_label, sizeof(test_label)),
		.most = MOST,
	};
	struct data data = read_source(&source);

	assert_true(data.rows == 3 && data.test_rows == 1 && data.features == 2);
	assert_true(data.x[4] == 7 && data.x[5] == 9 && data.y[2] == 1);
	data_finish(&data);
	source.test_labels = NULL;
	refuses_source(&source,
		       "2: is an IDX file; give the file of its labels with --test-labels");
	source.test_path = NULL;
	source.test_labels = path[3];
	refuses_source(&source, "but no --test-data; give both or neither");
	for (int i = 0; i < 4; i++)
		unlink(path[i]);
}

static tutti_result_t parse_text(const char *bytes, size_t length, unsigned context,
				 double test_fraction, size_t most, struct data *data,
				 struct why *why)
{
	char *copy = malloc(length + 1); /* so that a sanitizer sees who reads on */
	const struct input text = { "t.txt", memcpy(copy, bytes, length), length };
	const tutti_result_t result = text_parse(&text, context, test_fraction, most, data, why);

	free(copy);
	return result;
}

static void text_becomes_contexts_and_the_characters_behind_them(void **state)
{
	static const float x[] = { 1, 0, 0, 0, 0, 1, /* ac */ 0, 0, 1, 1, 0, 0, /* ca */
				   1, 0, 0, 0, 1, 0 /* ab */ };
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_text("acab\xff", 4, 2, 0, MOST, &data, &why), TUTTI_OK);
	assert_true(data.rows == 2 && data.features == 6 && data.classes == 3);
	assert_true(data.as_is && data.test_rows == 0);
	assert_memory_equal(data.x, x, 2 * 6 * sizeof(*x));
	assert_true(data.y[0] == 0 && data.y[1] == 1);
	data_finish(&data);
	assert_int_equal(parse_text("\xff\n\xff", 3, 1, 0, MOST, &data, &why), TUTTI_OK);
	assert_true(data.classes == 2 && data.y[0] == 0 && data.y[1] == 1);
	data_finish(&data);
}

/* The characters that a row stands for, of the alphabet A, B, …: its context, and what follows. */
static void spell(const struct data *data, size_t row, char *to)
{
	const size_t context = data->features / data->classes;

	for (size_t i = 0; i < data->features; i++)
		if (data->x[row * data->features + i] == 1)
			to[i / data->classes] = (char)('A' + i % data->classes);
	to[context] = (char)('A' + data->y[row]);
}

/* 25 blocks and a bit, each written in a letter of its own. */
static size_t write_blocks(char *text)
{
	const size_t length = 25 * 1024 + 100;

	for (size_t i = 0; i < length; i++)
		text[i] = (char)('A' + i / 1024);
	return length;
}

static void text_is_parted_by_blocks_that_no_sample_crosses(void **state)
{
	static char text[26 * 1024];
	const size_t length = write_blocks(text);
	bool tested[26] = { false };
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_text(text, length, 4, 0.2, (size_t)64 << 20, &data, &why), TUTTI_OK);
	assert_int_equal(data.test_rows, 5 * 1020);
	assert_int_equal(data.rows, 25 * 1020 + 96);
	for (size_t row = 0; row < data.rows; row++) {
		char letters[5] = { 0 };

		spell(&data, row, letters);
		for (int i = 1; i < 5; i++)
			assert_int_equal(letters[i], letters[0]);
		if (row >= data.rows - data.test_rows)
			tested[letters[0] - 'A'] = true;
	}
	for (int block = 0, since = 0; block < 25; block++, since++)
		if (tested[block]) { /* every fifth */
			assert_int_equal(since, 4);
			since = -1;
		}
	for (size_t row = 0; row < data.rows - data.test_rows; row++) {
		char letters[5];

		spell(&data, row, letters);
		assert_false(tested[letters[0] - 'A']);
	}
	data_finish(&data);
}

static void text_validates_the_share_that_was_asked_for(void **state)
{
	static const struct {
		double fraction;
		size_t blocks;
	} cases[] = { { 0, 0 }, { 0.001, 1 }, { 0.1, 2 }, { 0.5, 12 }, { 0.9, 22 }, { 0.999, 24 } };
	static char text[26 * 1024];
	const size_t length = write_blocks(text);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct data data = { 0 };
		struct why why;

		assert_int_equal(parse_text(text, length, 1, cases[i].fraction, (size_t)8 << 20,
					    &data, &why),
				 TUTTI_OK);
		assert_int_equal(data.test_rows, cases[i].blocks * 1023);
		assert_int_equal(data.rows, 25 * 1023 + 99);
		data_finish(&data);
	}
}

static void refuses_text(const char *text, size_t length, unsigned context, double test_fraction,
			 const char *error_text)
{
	struct data data = { 0 };
	struct why why;

	assert_int_equal(parse_text(text, length, context, test_fraction, 1000000, &data, &why),
			 TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, error_text));
	assert_null(data.x);
}

static void text_that_gives_no_samples_is_refused(void **state)
{
	static char text[4096];

	refuses_text(text, 0, 8, 0, "found 0 characters, expected at least 9");
	refuses_text("abcdefgh", 8, 8, 0, "found 8 characters, expected at least 9");
	refuses_text(text, 2047, 8, 0.2, "found 2047 characters, expected at least 2048");
	refuses_text(text, 2047, 8, 0.2, "--test-fraction 0");
	refuses_text(text, sizeof(text), 8, 0.2, "found one and the same character everywhere");
	refuses_text(text, sizeof(text), 0, 0.2, "found a context of 0 characters");
	refuses_text(text, sizeof(text), 1024, 0.2, "expected 1 to 1023");
}

static void text_beyond_the_limit_is_refused_with_what_would_fit(void **state)
{
	static char text[26 * 1024];
	struct data data = { 0 };
	struct why why;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)i;
	refuses_text(text, sizeof(text), 8, 0.2,
		     "found 26416 samples of 8192 bytes (a context of 8 in an alphabet of 256), "
		     "expected at most 1000000 bytes in all, which are 122 samples");
	assert_int_equal(parse_text(text, 130, 8, 0, 122 * 8 * 130 * 4, &data, &why), TUTTI_OK);
	data_finish(&data);
	assert_int_equal(parse_text(text, 130, 8, 0, 122 * 8 * 130 * 4 - 1, &data, &why),
			 TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, "which are 121 samples"));
}

static void text_files_are_read_one_behind_the_other(void **state)
{
	char path[3][64], name[256];
	struct data_source source = { .path = name, .most = MOST };
	struct data data;

	file_with(path[0], 0, "abcabcab", 8);
	file_with(path[1], 1, "cd", 2);
	file_with(path[2], 2, "", 0);
	snprintf(name, sizeof(name), "text:%s,%s", path[0], path[1]);
	data = read_source(&source);
	assert_true(data.rows == 2 && data.features == 8 * 4); /* the usual context */
	assert_true(data.y[0] == 2 && data.y[1] == 3);
	data_finish(&data);
	source.classes = 5;
	refuses_source(&source, "found --classes 5, expected 4");
	source.classes = 0;
	source.test_fraction = 0.2;
	refuses_source(&source, "found 10 characters, expected at least 2048");
	snprintf(name, sizeof(name), "text:%s,%s", path[0], path[2]);
	refuses_source(&source, "2: found an empty file");
	snprintf(name, sizeof(name), "text:%s,", path[0]);
	refuses_source(&source, "expected text:FILE[,FILE...]");
	refuses_source(&(struct data_source){ .path = "text:", .most = MOST },
		       "expected text:FILE[,FILE...]");
	for (int i = 0; i < 3; i++)
		unlink(path[i]);
}

static void what_is_one_hot_is_not_standardised(void **state)
{
	float x[] = { 1, 0, 0, 1 };
	uint32_t rows[] = { 0, 1 };
	struct data data = { .rows = 2, .features = 2, .as_is = true, .x = x };
	struct split split = { .rows = rows, .train = rows, .train_rows = 2 };
	struct why why;

	assert_int_equal(standardise(&data, &split, &why), TUTTI_OK);
	assert_true(x[0] == 1 && x[1] == 0 && x[2] == 0 && x[3] == 1);
	assert_true(!data.mean && !data.inverse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_rows_become_features_and_labels),
		cmocka_unit_test(csv_header_is_passed_over),
		cmocka_unit_test(csv_ragged_line_is_refused_with_its_number),
		cmocka_unit_test(csv_field_that_is_no_number_is_refused_with_its_place),
		cmocka_unit_test(csv_number_that_is_not_finite_is_refused),
		cmocka_unit_test(csv_label_that_is_none_is_refused),
		cmocka_unit_test(csv_without_rows_or_features_is_refused),
		cmocka_unit_test(idx_pair_becomes_features_and_labels),
		cmocka_unit_test(idx_elements_of_every_type_are_read),
		cmocka_unit_test(idx_cut_anywhere_is_refused),
		cmocka_unit_test(idx_header_that_lies_is_refused),
		cmocka_unit_test(idx_values_out_of_range_are_refused),
		cmocka_unit_test(label_out_of_range_is_refused),
		cmocka_unit_test(classes_may_be_said),
		cmocka_unit_test(idx_without_labels_is_refused),
		cmocka_unit_test(file_that_is_not_there_is_refused),
		cmocka_unit_test(a_file_of_any_length_is_read_whole),
		cmocka_unit_test(gzip_is_read_and_a_broken_one_refused),
		cmocka_unit_test(content_beyond_the_limit_is_refused),
		cmocka_unit_test(slices_cover_everything_once_and_evenly),
		cmocka_unit_test(split_and_orders_are_permutations),
		cmocka_unit_test(orders_follow_from_seed_and_epoch_alone),
		cmocka_unit_test(features_are_standardised_over_the_training_rows),
		cmocka_unit_test(synthetic_data_follow_from_their_name_alone),
		cmocka_unit_test(synthetic_features_are_standard_normal),
		cmocka_unit_test(synthetic_labels_are_shared_out_among_all_classes),
		cmocka_unit_test(synthetic_name_is_read_strictly),
		cmocka_unit_test(synthetic_data_beyond_the_limit_are_refused),
		cmocka_unit_test(made_samples_refuse_the_options_of_files),
		cmocka_unit_test(samples_of_a_test_file_are_exactly_those_that_validate),
		cmocka_unit_test(hash_tells_which_samples_validate),
		cmocka_unit_test(test_file_unlike_the_training_file_is_refused),
		cmocka_unit_test(idx_files_of_both_kinds_are_read_as_they_are),
		cmocka_unit_test(text_becomes_contexts_and_the_characters_behind_them),
		cmocka_unit_test(text_is_parted_by_blocks_that_no_sample_crosses),
		cmocka_unit_test(text_validates_the_share_that_was_asked_for),
		cmocka_unit_test(text_that_gives_no_samples_is_refused),
		cmocka_unit_test(text_beyond_the_limit_is_refused_with_what_would_fit),
		cmocka_unit_test(text_files_are_read_one_behind_the_other),
		cmocka_unit_test(what_is_one_hot_is_not_standardised),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
