/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the samples in memory: chooses the reader, and checks what all formats have in common. */
#include "data.h"

#include <stdlib.h>
#include <string.h>

#include "bits.h"

void data_note_labels(const struct data *data, size_t first, size_t count, struct labels *labels)
{
	for (size_t i = first; i < first + count; i++)
		labels->seen[data->y[i] / 64] |= UINT64_C(1) << data->y[i] % 64;
}

static bool has_label(const struct labels *labels, uint32_t label)
{
	return labels->seen[label / 64] >> label % 64 & 1;
}

/* The largest label, and the first below it that no row has. */
static void ends_of(const struct labels *labels, uint32_t *top, uint32_t *missing)
{
	*top = *missing = 0;
	for (uint32_t label = 0; label <= DATA_LABEL_MAX; label++)
		*top = has_label(labels, label) ? label : *top;
	while (*missing < *top && has_label(labels, *missing))
		++*missing;
}

/* Labels run from 0 without gaps, unless the user said how many classes there are. A gap is most
 * often a wrong label, and would cost a row of weights for each missing class. */
static bool check_classes(const struct data_source *source, const struct labels *labels,
			  struct data *data)
{
	const char *path = source->labels ? source->labels : source->path;
	uint32_t top, missing;

	ends_of(labels, &top, &missing);
	if (source->classes && top >= source->classes)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: label out of range: found %u, expected 0 to %u (--classes %u)",
			       path, top, source->classes - 1, source->classes);
	if (!source->classes && missing < top)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: label out of range: found %u, but no sample has label %u; labels "
			"run from 0 without gaps, and are the last field of a line; or give "
			"--label-column or --classes",
			path, top, missing);
	if (!source->classes && top == 0)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: found label 0 on every sample, expected at least two classes; labels "
			"are the last field of a line, or that of --label-column",
			path);
	data->classes = source->classes ? source->classes : top + 1;
	return true;
}

bool data_count_classes(const struct data_source *source, const struct labels *labels,
			const struct labels *test, struct data *data)
{
	const bool ok = check_classes(source, labels, data);
	uint32_t top, missing;

	ends_of(test, &top, &missing);
	if (!ok || top < data->classes)
		return ok;
	return why_set(TUTTI_ERR_INVALID,
		       "%s: found label %u, expected 0 to %u as in %s; leave such samples out, or "
		       "give --classes",
		       source->test_labels ? source->test_labels : source->test_path, top,
		       data->classes - 1, source->labels ? source->labels : source->path);
}

static bool parse_pair(const struct input *samples, const char *path, size_t most, struct data *out)
{
	struct input labels = { 0 };
	bool ok = input_read(path, most, &labels);

	if (!ok)
		return false;
	ok = idx_parse(samples, &labels, out);
	input_finish(&labels);
	return ok;
}

/* Those of so many features as `input` says need no labels. */
static bool parse_input(const struct data_source *source, bool test, const struct input *input,
			struct data *out)
{
	const bool is_idx = input->begins == 0 && idx_looks_like(input);

	if (is_idx && input->features)
		return idx_parse(input, NULL, out);
	if (is_idx)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: is an IDX file; give the file of its labels with %s",
			       input->path, test ? "--test-labels" : "--labels");
	return csv_parse(input, source->label_column, out);
}

/* `test`: the file for validation. `part` is NULL for all of it. */
static bool read_file(const struct data_source *source, bool test, const struct data_part *part,
		      struct data *out)
{
	const char *path = test ? source->test_path : source->path,
		   *labels = test ? source->test_labels : source->labels;
	struct input input = { 0 };
	bool ok;

	if (part && labels)
		return idx_read_part(path, labels, *part, source->most, out);
	if (!(part ? input_read_lines(path, *part, source->most, &input)
		   : input_read(path, source->most, &input)))
		return false;
	input.features = source->features;
	ok = labels ? parse_pair(&input, labels, source->most, out)
		    : parse_input(source, test, &input, out);
	if (ok) {
		out->read = input.length;
		out->origin = input.mark;
	}
	input_finish(&input);
	return ok;
}

bool data_read_samples(const struct data_source *source, struct data *out)
{
	const size_t features = source->features;
	struct data data = { 0 };
	bool ok = read_file(source, false, NULL, &data);

	if (ok && data.features != features)
		ok = why_set(
			TUTTI_ERR_INVALID,
			"%s: found %zu features%s, expected the %zu of the model, with or without "
			"a label; give samples of its kind",
			source->path, data.features, data.y ? " and a label" : "", features);
	if (ok && data.rows > UINT32_MAX)
		ok = why_set(TUTTI_ERR_INVALID, "found %zu samples, expected at most %u", data.rows,
			     UINT32_MAX);
	if (!ok)
		data_finish(&data);
	*out = data;
	return ok;
}

/* Of parts, some may have no rows, and classes are not known yet. */
static bool check_test(const struct data_source *source, const struct data *data,
		       const struct data *test)
{
	const char *path = source->test_labels ? source->test_labels : source->test_path;

	if (data->rows > 0 && test->rows > 0 && test->features != data->features)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: found %zu features, expected %zu as in %s; give files of "
			       "samples of one kind",
			       source->test_path, test->features, data->features, source->path);
	for (size_t i = 0; i < test->rows && data->classes > 0; i++)
		if (test->y[i] >= data->classes)
			return why_set(TUTTI_ERR_INVALID,
				       "%s: row %zu: found label %u, expected 0 to %u as in %s; "
				       "leave such samples out, or give --classes",
				       path, i, test->y[i], data->classes - 1,
				       source->labels ? source->labels : source->path);
	return true;
}

static bool append(struct data *data, const struct data *test)
{
	const size_t rows = data->rows + test->rows, width = test->features * sizeof(*data->x);
	float *x = realloc(data->x, rows * width);
	uint32_t *y = realloc(data->y, rows * sizeof(*y));

	data->x = x ? x : data->x;
	data->y = y ? y : data->y;
	if (!x || !y)
		return why_no_memory("the samples for validation");
	memcpy(x + data->rows * test->features, test->x, test->rows * width);
	memcpy(y + data->rows, test->y, test->rows * sizeof(*y));
	data->features = test->features;
	data->rows = rows;
	data->test_rows = test->rows;
	data->read += test->read;
	return true;
}

static bool read_test(const struct data_source *source, const struct data_part *part,
		      struct data *data)
{
	struct data test = { 0 };
	bool ok = read_file(source, true, part, &test) && check_test(source, data, &test);
	data->origin = hash_word(data->origin, test.origin);
	if (ok && test.rows > 0)
		ok = append(data, &test);
	data_finish(&test);
	return ok;
}

static bool read_files(const struct data_source *source, const struct data_part *part,
		       struct data *data)
{
	struct labels labels = { { 0 } };
	bool ok = read_file(source, false, part, data);

	if (ok && !part) {
		data_note_labels(data, 0, data->rows, &labels);
		ok = check_classes(source, &labels, data);
	}
	return ok && (!source->test_path || read_test(source, part, data));
}

/* What is made here has its labels from the start. */
static bool make(const struct data_source *source, const struct data_part *part, struct data *data)
{
	const char *found = source->labels	  ? "--labels"
			    : source->test_path	  ? "--test-data"
			    : source->test_labels ? "--test-labels"
						  : NULL;
	bool ok;

	if (found)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: found %s, expected none: labels and samples for validation "
			       "are made from what --data names; leave %s out",
			       source->path, found, found);
	ok = synthetic_make(source->path, part ? *part : (struct data_part){ 0, 1 }, source->most,
			    data);
	if (ok && source->classes && source->classes != data->classes)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: found --classes %u, expected %u, as many as there are; leave "
			       "--classes out",
			       source->path, source->classes, data->classes);
	return ok;
}

static bool read_source(const struct data_source *source, const struct data_part *part,
			struct data *out)
{
	struct data data = { 0 };
	bool ok;

	if (synthetic_is(source->path))
		ok = make(source, part, &data);
	else if (source->test_labels && !source->test_path)
		ok = why_set(TUTTI_ERR_INVALID,
			     "--test-labels: found %s, but no --test-data; give both or neither",
			     source->test_labels);
	else
		ok = read_files(source, part, &data);
	if (!ok) {
		data_finish(&data);
		return false;
	}
	*out = data;
	return true;
}

bool data_read(const struct data_source *source, struct data *out)
{
	return read_source(source, NULL, out);
}

bool data_read_part(const struct data_source *source, struct data_part part, struct data *out)
{
	return read_source(source, &part, out);
}

void data_finish(struct data *data)
{
	free(data->x);
	free(data->y);
	free(data->mean);
	free(data->inverse);
	*data = (struct data){ 0 };
}

uint64_t data_hash_rows(const struct data *data, size_t from, size_t count, size_t first)
{
	const size_t width = data->features * sizeof(*data->x);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		const size_t row = from + i;
		const uint64_t place = hash_word(first + i, data->y[row]);

		sum += hash_bytes(place, data->x + row * data->features, width);
	}
	return sum;
}

uint64_t data_hash_of(size_t rows, size_t test_rows, size_t features, unsigned classes,
		      uint64_t sum)
{
	return hash_word(hash_word(hash_word(hash_word(rows, features), classes), test_rows), sum);
}

uint64_t data_hash(const struct data *data)
{
	return data_hash_of(data->rows, data->test_rows, data->features, data->classes,
			    data_hash_rows(data, 0, data->rows, 0));
}
