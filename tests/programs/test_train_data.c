/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-train reads from files, and what it refuses and with which words. */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "bits.h"
#include "data.h"
#include "train_files.h"

/* ---- CSV, from memory */

/* What a parser has left of bad input goes as data_read() lets it go. */
static struct reading parsed(bool ok, struct data data)
{
	if (!ok)
		data_finish(&data);
	return (struct reading){ ok, data };
}

static struct reading csv_with_label(const char *text, unsigned column)
{
	const struct input input = { "t.csv", strdup(text), strlen(text), DATA_WHOLE };
	const struct data_source source = { .label_column = column };
	struct data data = { 0 };
	const bool ok = csv_parse(&input, &source, &data.csv[0], &data) &&
			csv_judge(input.path, data.features, NULL, &data.csv[0]);

	free(input.bytes);
	return parsed(ok, data);
}

static struct reading csv(const char *text)
{
	return csv_with_label(text, 0);
}

TEST(csv_rows_become_features_and_labels)
{
	struct data data = well(csv("1.5,-2e1,1\n 3 ,\t4,0\r\n5,6,2"));

	assert_int_equal(data.rows, 3);
	assert_int_equal(data.features, 2);
	assert_true(data.x[0] == 1.5f && data.x[1] == -20 && data.x[2] == 3 && data.x[5] == 6);
	assert_int_equal(data.y[0], 1);
	assert_int_equal(data.y[1], 0);
	assert_int_equal(data.y[2], 2);
	data_finish(&data);
}

TEST(csv_byte_order_mark_and_header_are_passed_over)
{
	static const char *const texts[] = { "\xef\xbb\xbf"
					     "1,2,0\n3,4,1\n",
					     "\xef\xbb\xbfwidth,height,label\n1,2,0\n3,4,1\n\n\n" };

	for (size_t i = 0; i < 2; i++) {
		struct data data = well(csv(texts[i]));

		assert_int_equal(data.rows, 2);
		assert_true(data.x[0] == 1 && data.x[1] == 2);
		data_finish(&data);
	}
	refused(csv("1,2,0\n\xef\xbb\xbf"
		    "3,4,1\n"),
		"line 2, field 1: found '???3', expected a number");
}

TEST(csv_ragged_line_is_refused_with_its_number)
{
	refused(csv("1,2,0\n3,4,1\n5,1\n"), "line 3: found 2 fields, expected 3 as in line 1");
	refused(csv("a,b,c\n1,2,0\n3,4,5,1\n"), "line 3: found 4 fields, expected 3 as in line 2");
	refused(csv("1,2,0\n\n3,4,1\n"), "line 2: found a blank line, expected 3 fields");
}

TEST(csv_field_that_is_no_number_is_refused_with_its_place)
{
	refused(csv("1,2,0\n3,x4,1\n"), "line 2, field 2: found 'x4', expected a number");
	refused(csv("1,2,0\n3,,1\n"), "line 2, field 2: found '', expected a number");
	refused(csv("1,2,0\n3,4,\n5,6,1\n"), "line 2, field 3: found '', expected a number");
	refused(csv("1,2,0\n3,4 5,1\n"), "line 2, field 2: found '4 5', expected a number");
}

TEST(csv_number_that_is_not_finite_is_refused)
{
	refused(csv("1,2,0\n3,nan,1\n"), "line 2, field 2: found 'nan', expected a finite number");
	refused(csv("1,2,0\ninf,4,1\n"), "line 2, field 1: found 'inf', expected a finite number");
	refused(csv("1,2,0\n1e60,4,1\n"),
		"line 2, field 1: found '1e60', expected a finite number");
}

TEST(csv_label_that_is_none_is_refused)
{
	static const char *const labels[] = { "-1", "1.5", "65536", "nan", "1e30" };

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		char text[64], error_text[64];

		snprintf(text, sizeof(text), "1,2,0\n3,4,%s\n", labels[i]);
		snprintf(error_text, sizeof(error_text),
			 "line 2, field 3: found '%s', expected a label", labels[i]);
		refused(csv(text), error_text);
	}
}

TEST(csv_of_other_programs_is_refused_with_what_is_to_be_done)
{
	refused(csv(",a,b\n0,1,0\n1,2,1\n"), "no name for field 1, as in a header that pandas");
	refused(csv("\"\",\"a\",\"b\"\n0,1,0\n1,2,1\n"), "no name for field 1");
	refused(csv("0,1,2\n5,6,0\n7,8,1\n"),
		"line 1: found the numbers of the fields, from 0 to 2");
	refused(csv("Label,a,b\n0,1,0\n1,2,1\n"), "give --label-column 1, or another name");
	refused(csv("P\1K,1,0\n"), "found byte 0x01 at 1, which no text has");
	refused(csv("1,0x1F,0\n3,4,1\n"), "line 1, field 2: found '0x1F', expected a number");
	struct data data = well(csv("0,1,2\n5,6,0\n7,8,2\n")); /* a sample, perhaps */
	data_finish(&data);
}

TEST(csv_label_may_be_in_any_field)
{
	struct data data = well(csv_with_label("label,a,b\n0,1,2\n1,3,4\n", 1));

	assert_true(data.features == 2 && data.y[0] == 0 && data.y[1] == 1);
	assert_true(data.x[0] == 1 && data.x[1] == 2 && data.x[2] == 3 && data.x[3] == 4);
	data_finish(&data);
	data = well(csv_with_label("1,0,2\n3,1,4\n", 2));
	assert_true(data.x[1] == 2 && data.x[2] == 3 && data.y[1] == 1);
	data_finish(&data);
	refused(csv_with_label("1,0,2\n", 4), "line 1: found 3 fields, expected features and a");
}

TEST(csv_numbers_whose_differences_float32_lacks_are_refused)
{
	refused(csv("1,1700000000,0\n2,1700000050,1\n"),
		"field 2: found numbers from 1700000000 to 1700000050, whose differences float32");
	refused(csv_with_label("0,1,1700000000\n1,2,1700000050\n", 1), "field 3: found numbers");
	/* equal but for the rounding of doubles, equal, exact, and far enough apart */
	static const char *const right[][2] = { { "0.3", "0.30000000000000004" },
						{ "0.1", "0.1" },
						{ "16777214", "16777215" },
						{ "1700000000", "1700500000" } };

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s,0\n%s,1\n", right[i][0], right[i][1]);
		struct data data = well(csv(text));
		data_finish(&data);
	}
}

TEST(csv_without_rows_or_features_is_refused)
{
	refused(csv(""), "found no row");
	refused(csv("\n\n"), "found no row");
	refused(csv("a,b,c\n"), "found no row");
	refused(csv("1\n2\n"), "line 1: found 1 field");
}

/* ---- IDX, from memory */

static struct reading idx(const char *x, size_t x_length, const char *y, size_t y_length)
{
	const struct input samples = { "t.x", memcpy(malloc(x_length + 1), x, x_length), x_length,
				       DATA_WHOLE },
			   labels = { "t.y", memcpy(malloc(y_length + 1), y, y_length), y_length,
				      DATA_WHOLE };
	const struct data_source source = { 0 };
	struct data data = { 0 };
	const bool ok = idx_parse(&samples, &labels, &source, &data);

	free(samples.bytes);
	free(labels.bytes);
	return parsed(ok, data);
}

/* Of whole arrays. */
#define IDX(x, y) idx(x, sizeof(x), y, sizeof(y))

TEST(idx_pair_becomes_features_and_labels)
{
	struct data data = well(IDX(two_images, two_labels));

	assert_int_equal(data.rows, 2);
	assert_int_equal(data.features, 2);
	assert_true(data.x[0] == 1 && data.x[1] == 2 && data.x[2] == 3 && data.x[3] == 255);
	assert_int_equal(data.y[0], 1);
	assert_int_equal(data.y[1], 0);
	data_finish(&data);
}

TEST(idx_elements_of_every_type_are_read)
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
		struct data data = well(idx(cases[i].bytes, cases[i].length, label, sizeof(label)));

		assert_true(data.x[0] == cases[i].value);
		data_finish(&data);
	}
}

TEST(idx_cut_anywhere_is_refused)
{
	for (size_t length = 0; length < sizeof(two_images); length++)
		refused(idx(two_images, length, two_labels, sizeof(two_labels)),
			length < 4 ? "found no IDX header" : "truncated");
	for (size_t length = 0; length < sizeof(two_labels); length++)
		refused(idx(two_images, sizeof(two_images), two_labels, length), "t.y: ");
}

TEST(idx_header_that_lies_is_refused)
{
	static const char type[] = { 0, 0, 7, 1, 0, 0, 0, 1, 0 };
	static const char dims[] = { 0, 0, 8, 0 };
	static const char huge[] = { 0,	 0,  8,	 4,  -1, -1, -1, -1, -1, -1,
				     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
	static const char empty[] = { 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 1 };
	static const char longer[] = { 0, 0, 8, 1, 0, 0, 0, 1, 0, 0 };
	static const char one[] = { 0, 0, 8, 1, 0, 0, 0, 1, 0 };
	static const char real[] = { 0, 0, 0x0d, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0 };

	refused(IDX(type, one), "found IDX type 0x07");
	refused(IDX(dims, one), "0 dimensions");
	refused(IDX(huge, one), "more elements than a machine can address");
	refused(IDX(empty, one), "found 0 rows");
	refused(IDX(longer, one), "too long");
	refused(IDX(two_images, one), "found 1 labels, expected 2");
	refused(IDX(two_images, real), "expected labels");
}

TEST(idx_values_out_of_range_are_refused)
{
	static const char nan_image[] = { 0, 0, 0x0d, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, -64, 0, 0 };
	static const char minus_label[] = { 0, 0, 9, 1, 0, 0, 0, 2, 1, -3 };
	static const char one[] = { 0, 0, 8, 1, 0, 0, 0, 1, 0 };

	refused(IDX(nan_image, one), "row 0, element 0: found nan");
	refused(IDX(two_images, minus_label), "row 1: found label -3");
}

/* ---- files */

/* What data_read() makes of a file of these bytes. */
static struct reading file_of(const char *bytes, size_t length, unsigned classes)
{
	const char *path = file_with("data", bytes, length);
	const struct reading r = read_source(
		&(struct data_source){ .path = path, .classes = classes, .most = MOST });
	unlink(path);
	return r;
}

TEST(label_out_of_range_is_refused)
{
	static const char gap[] = "1,0\n2,1\n3,7\n", all_0[] = "1,0\n2,0\n";

	refused(file_of(gap, strlen(gap), 0),
		"label out of range: found 7, but no sample has label 2");
	refused(file_of(gap, strlen(gap), 5), "label out of range: found 7, expected 0 to 4");
	refused(file_of(all_0, strlen(all_0), 0), "expected at least two classes");
}

TEST(classes_may_be_said)
{
	static const char text[] = "1,0\n2,1\n3,7\n";
	struct data data = well(file_of(text, strlen(text), 8));

	assert_int_equal(data.classes, 8);
	data_finish(&data);
}

TEST(file_that_is_not_there_is_refused)
{
	const struct data_source source = { .path = path_of("nowhere"), .most = MOST };

	refused_as(TUTTI_ERR_SYSTEM, read_source(&source), "nowhere: cannot be read: No such file");
	refused(read_source(&(struct data_source){ .path = directory, .most = MOST }),
		"is not a regular file");
	assert_int_equal(mkfifo(source.path, 0600), 0);
	refused(read_source(&source), "nowhere: is not a regular file");
	unlink(source.path);
}

/* What is read into grows by doubling. */
TEST(a_file_of_any_length_is_read_whole)
{
	static char bytes[(1 << 18) + 1];
	const char *path = path_of("data");

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 31 + i / 4096);
	for (size_t power = 1 << 15; power < sizeof(bytes); power *= 2) {
		for (size_t length = power - 2; length <= power + 1; length++) {
			struct input input = { 0 };

			write_file(path, bytes, length);
			assert_true(input_read(path, DATA_WHOLE, sizeof(bytes), &input));
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

	assert_non_null(file);
	for (unsigned i = 0; i < 2000; i++)
		assert_true(gzprintf(file, "%u,%u,%u\n", i * 2654435761u, i * 40503u, i % 3) > 0);
	assert_int_equal(gzclose(file), Z_OK);
	again = fopen(path, "r");
	assert_non_null(again);
	const size_t length = fread(bytes, 1, capacity, again);

	fclose(again);
	return length;
}

TEST(gzip_is_read_and_a_broken_one_refused)
{
	static char bytes[1 << 17];
	const char *path = path_of("data");
	const size_t length = make_gzip(path, bytes, sizeof(bytes));

	assert_true(length > 1000 && length < sizeof(bytes));
	struct data data = well(file_of(bytes, length, 0));
	assert_int_equal(data.rows, 2000);
	data_finish(&data);
	refused(file_of(bytes, length - 4, 0), "truncated: the gzip stream ends early");
	refused(file_of(bytes, length / 2, 0), "truncated: the gzip stream ends early");
	bytes[length - 6] ^= 1; /* in the checksum */
	refused(file_of(bytes, length, 0), "bytes of content (incorrect data check)");
}

/* A few bytes of gzip's stand for many. */
TEST(content_beyond_the_limit_is_refused)
{
	static const size_t limits[] = { MOST, MOST - 1, 100000, 1 };
	static char bytes[MOST];
	const char *path = path_of("data");
	char expected[64];
	struct input input;

	for (int plain = 0; plain < 2; plain++) {
		gzFile file = gzopen(path, plain ? "wbT" : "wb");

		assert_non_null(file);
		assert_int_equal(gzwrite(file, bytes, MOST), MOST);
		assert_int_equal(gzclose(file), Z_OK);
		for (int i = 0; i < 4; i++) {
			const bool fits = input_read(path, DATA_WHOLE, limits[i], &input);

			snprintf(expected, sizeof(expected), "found more than %zu bytes of content",
				 limits[i]);
			assert_int_equal(fits, i == 0);
			assert_true(fits ? input.length == MOST
					 : strstr(why.text, expected) &&
						    strstr(why.text, "raise --data-limit"));
			input_finish(&input);
		}
	}
	unlink(path);
}

/* ---- parts */

/* These rows of `part` are those of `whole` from `*at` on. */
static void follow(const struct data *part, size_t from, size_t count, const struct data *whole,
		   size_t *at)
{
	const size_t n = whole->features;

	assert_true(*at + count <= whole->rows);
	if (count > 0) {
		assert_int_equal(part->features, n);
		assert_memory_equal(part->x + from * n, whole->x + *at * n,
				    count * n * sizeof(*part->x));
		assert_memory_equal(part->y + from, whole->y + *at, count * sizeof(*part->y));
	}
	*at += count;
}

static void parts_are_all_of_it(const struct data_source *source, int most)
{
	struct data whole = well(read_source(source));
	const size_t rows = whole.rows - whole.test_rows;

	for (int parts = 1; parts <= most; parts++) {
		size_t at = 0, test_at = rows;

		for (int i = 0; i < parts; i++) {
			struct data data;

			assert_true(data_read_part(source, (struct data_part){ i, parts }, &data));
			const size_t train = data.rows - data.test_rows;
			follow(&data, 0, train, &whole, &at);
			follow(&data, train, data.test_rows, &whole, &test_at);
			data_finish(&data);
		}
		assert_true(at == rows && test_at == whole.rows);
	}
	data_finish(&whole);
}

/* Up to more parts than bytes: cuts fall everywhere. */
TEST(parts_of_lines_are_all_of_them)
{
	static const char *const texts[] = {
		"1,2,0\n3,4,1\n5,6,1\n",
		"1,2,0\n3,4,1\n5,6,1",
		"x,y,label\r\n1.25,2,0\r\n-3,4e2,1\r\n5,6,1\r\n1000000,2,0\r\n",
		"a long name,and another,l\n1,2,0\n3,4,1\n\n\n\n",
		"1,0\n222222222222222222222222222222222222,1\n3,0\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct data_source source = { .path = text_file("1", texts[i]),
						    .most = MOST };

		parts_are_all_of_it(&source, (int)strlen(texts[i]) + 3);
	}
	const struct data_source both = { .path = text_file("1", texts[0]),
					  .test_path = text_file("2", texts[1]),
					  .most = MOST };
	parts_are_all_of_it(&both, 20);
	unlink(both.path);
	unlink(both.test_path);
}

TEST(parts_of_idx_and_of_what_is_made_are_all_of_it)
{
	const struct data_source idx = { .path = file_with("1", two_images, sizeof(two_images)),
					 .labels = file_with("2", two_labels, sizeof(two_labels)),
					 .most = MOST };
	const struct data_source made[] = { { .path = "synthetic:50x3x4", .most = MOST },
					    { .path = "synthetic:41x8x2:7", .most = MOST } };

	parts_are_all_of_it(&idx, 4);
	unlink(idx.path);
	unlink(idx.labels);
	parts_are_all_of_it(&made[0], 60);
	parts_are_all_of_it(&made[1], 9);
}

/* A few lines of what can be wrong with a file, and mostly is not. */
static void write_lines(char *text, uint64_t *state)
{
	static const char *const lines[] = { "1,2\n", "3,4\n", "5,6\r\n", "77,8\n",
					     "9,0\n", "a,b\n", "1,2,3\n", "x,1\n",
					     "\n",    "\r\n",  "\r\r\n" };
	const size_t kinds = random_below(state, 3) ? 5 : sizeof(lines) / sizeof(*lines);

	*text = '\0';
	if (random_below(state, 3) == 0)
		strcat(text, lines[random_below(state, 11)]);
	for (uint32_t n = random_below(state, 8); n > 0; n--)
		strcat(text, lines[random_below(state, (uint32_t)kinds)]);
	for (uint32_t n = random_below(state, 4); n > 1; n--)
		strcat(text, lines[8 + random_below(state, 2)]);
	if (*text && random_below(state, 3) == 0)
		text[strlen(text) - 1] = '\0';
}

TEST(the_first_error_of_parts_is_that_of_the_whole)
{
	uint64_t seed = 7;
	char text[128], found[sizeof(why.text)];
	struct data data;

	for (int i = 0; i < 1000; i++) {
		write_lines(text, &seed);
		const struct data_source source = { .path = text_file("1", text), .most = MOST };
		const bool well = data_read_part(&source, DATA_WHOLE, &data);
		const int parts = 2 + (int)random_below(&seed, 6);
		size_t rows = data.rows;
		bool ok = true;

		data_finish(&data);
		memcpy(found, why.text, sizeof(found));
		for (int part = 0; ok && part < parts; part++) {
			ok = data_read_part(&source, (struct data_part){ part, parts }, &data);
			rows -= data.rows;
			data_finish(&data);
		}
		if (ok != well || (ok ? rows != 0 : strcmp(found, why.text) != 0))
			fail_msg("%s\n%d parts: %s; the whole: %s", text, parts,
				 ok ? "well" : why.text, well ? "well" : found);
	}
	unlink(path_of("1"));
}

int main(void)
{
	return run_claims(make_directory, remove_directory);
}
