/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the samples in memory: chooses the reader, and checks what all formats have in common. */
#include "data.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "bits.h"
#include "team.h"

bool data_refuse(const char *path, const char *format, ...)
{
	char text[640];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return why_set(TUTTI_ERR_INVALID, "%s: %s", path, text);
}

/* ---- what is about all parts */

/* Of a part; added up, of all of them. */
struct facts {
	uint64_t rows[2];  /* for training, for validation */
	uint32_t top[2];   /* their largest label */
	uint64_t test_row; /* the number of the first for validation with it */
	uint64_t seen[(DATA_LABEL_MAX + 1) / 64]; /* a bit for each label of those for training */
	uint64_t hash;
};

static void note_facts(const struct data *data, const size_t first[2], struct facts *out)
{
	const size_t train = data->rows - data->test_rows, n = data->features;

	out->rows[0] = train;
	out->rows[1] = data->test_rows;
	for (size_t i = 0; i < data->rows; i++) {
		const bool test = i >= train;
		const size_t number = first[test] + i - (test ? train : 0);
		const uint32_t y = data->y[i];

		out->hash +=
			hash_bytes(hash_word(number, y), data->x + i * n, n * sizeof(*data->x));
		out->test_row = test && y > out->top[1] ? number : out->test_row;
		out->top[test] = y > out->top[test] ? y : out->top[test];
		out->seen[y / 64] |= (uint64_t)!test << y % 64;
	}
}

static void add_facts(struct facts *sum, const struct facts *part)
{
	sum->test_row = part->top[1] > sum->top[1] ? part->test_row : sum->test_row;
	for (int test = 0; test < 2; test++) {
		sum->rows[test] += part->rows[test];
		sum->top[test] =
			part->top[test] > sum->top[test] ? part->top[test] : sum->top[test];
	}
	sum->hash += part->hash;
	for (size_t i = 0; i < sizeof(sum->seen) / sizeof(sum->seen[0]); i++)
		sum->seen[i] |= part->seen[i];
}

/* Labels run from 0 without gaps, unless the user said how many classes there are. A gap is most
 * often a wrong label, and would cost a row of weights for each missing class. */
static bool check_labels(const struct data_source *source, const struct facts *facts,
			 struct data *data)
{
	const char *path = source->labels ? source->labels : source->path;
	const unsigned top = facts->top[0], test_top = facts->top[1];
	unsigned missing = 0;

	while (missing < top && facts->seen[missing / 64] >> missing % 64 & 1)
		missing++;
	if (source->classes && top >= source->classes)
		return data_refuse(path,
				   "label out of range: found %u, expected 0 to %u (--classes %u)",
				   top, source->classes - 1, source->classes);
	if (!source->classes && missing < top)
		return data_refuse(path,
				   "label out of range: found %u, but no sample has label %u; "
				   "labels run from 0 without gaps, and are the last field of a "
				   "line; or give --label-column or --classes",
				   top, missing);
	if (!source->classes && top == 0)
		return data_refuse(path, "found label 0 on every sample, expected at least two "
					 "classes; labels are the last field of a line, or that of "
					 "--label-column");
	data->classes = source->classes ? source->classes : top + 1;
	return test_top < data->classes ||
	       data_refuse(source->test_labels ? source->test_labels : source->test_path,
			   "row %zu: found label %u, expected 0 to %u as in %s; leave such "
			   "samples out, or give --classes",
			   (size_t)(facts->test_row - facts->rows[0]), test_top, data->classes - 1,
			   path);
}

static bool judge(const struct data_source *source, const struct facts *facts, struct data *data)
{
	/* of what is made classes are known, and alike */
	if (data->classes == 0 && !check_labels(source, facts, data))
		return false;
	data->all_test_rows = (size_t)facts->rows[1];
	data->all_rows = (size_t)facts->rows[0] + data->all_test_rows;
	data->hash = hash_word(hash_word(data->all_rows, data->features), data->classes);
	data->hash = hash_word(hash_word(data->hash, data->all_test_rows), facts->hash);
	return true;
}

bool data_judge(const struct data_source *source, struct team *team, const size_t first[2],
		struct data *data)
{
	const int parts = team ? team->size : 0;
	struct facts *all = calloc((size_t)parts + 1, sizeof(*all));

	if (!all)
		return why_no_memory("the labels");
	note_facts(data, first, &all[parts]);
	bool ok = csv_judge(source->path, data->features, team, &data->csv[0]) &&
		  csv_judge(source->test_path, data->features, team, &data->csv[1]) &&
		  (!team || team_gather(team, &all[parts], all, sizeof(*all)));

	for (int r = 1; ok && r < parts; r++)
		add_facts(&all[0], &all[r]);
	ok = ok && judge(source, &all[0], data);
	free(all);
	return ok;
}

/* ---- reading */

bool data_grow(const struct data_source *source, size_t rows, size_t features, bool labelled,
	       struct data *data)
{
	const size_t all = data->rows + rows;

	if (data->features > 0 && features != data->features)
		return data_refuse(source->test_path,
				   "found %zu features, expected %zu as in %s; give files of "
				   "samples of one kind",
				   features, data->features, source->path);
	data->features = features;
	if (rows == 0)
		return true;
	float *x = realloc(data->x, all * features * sizeof(*x));
	uint32_t *y = labelled ? realloc(data->y, all * sizeof(*y)) : data->y;

	data->x = x ? x : data->x;
	data->y = y ? y : data->y;
	return (x && (y || !labelled)) || why_no_memory(source->path);
}

/* `labels` NULL: there is no file of them. `test`: the file for validation. */
static bool parse(const struct input *samples, const struct input *labels,
		  const struct data_source *source, bool test, struct data *out)
{
	if (!labels && !idx_looks_like(samples))
		return csv_parse(samples, source, &out->csv[test], out);
	if (labels || source->features)
		return idx_parse(samples, labels, source, out);
	return data_refuse(samples->path, "is an IDX file; give the file of its labels with %s",
			   test ? "--test-labels" : "--labels");
}

static bool read_file(const struct data_source *source, bool test, struct data_part part,
		      struct data *out)
{
	const char *path = test ? source->test_path : source->path,
		   *labels = test ? source->test_labels : source->labels;
	struct input x = { 0 }, y = { 0 };
	const bool ok = input_read(path, part, source->most, &x) &&
			(!labels || input_read(labels, part, source->most, &y)) &&
			parse(&x, labels ? &y : NULL, source, test, out);

	out->read += x.length + y.length;
	out->origin[test] = hash_word(x.mark, y.mark);
	input_finish(&x);
	input_finish(&y);
	return ok;
}

static bool read_files(const struct data_source *source, struct data_part part, struct data *out)
{
	if (source->test_labels && !source->test_path)
		return why_set(TUTTI_ERR_INVALID,
			       "--test-labels: found %s, but no --test-data; give both or neither",
			       source->test_labels);
	if (!read_file(source, false, part, out))
		return false;
	const size_t train = out->rows;
	const bool ok = !source->test_path || read_file(source, true, part, out);

	out->test_rows = out->rows - train;
	return ok;
}

/* Of what could not be read nothing but where it is from. */
static bool whole(bool ok, struct data *data)
{
	const struct data nothing = { .origin = { data->origin[0], data->origin[1] } };

	if (!ok) {
		data_finish(data);
		*data = nothing;
	}
	return ok;
}

bool data_read_part(const struct data_source *source, struct data_part part, struct data *out)
{
	*out = (struct data){ 0 };
	return whole((synthetic_is(source->path) ? synthetic_make : read_files)(source, part, out),
		     out);
}

bool data_read(const struct data_source *source, struct data *out)
{
	return data_read_part(source, DATA_WHOLE, out) &&
	       whole(data_judge(source, NULL, (size_t[]){ 0, out->rows - out->test_rows }, out),
		     out);
}

bool data_read_samples(const struct data_source *source, struct data *out)
{
	const size_t features = source->features;
	bool ok;

	*out = (struct data){ 0 };
	ok = read_file(source, false, DATA_WHOLE, out) &&
	     csv_judge(source->path, out->features, NULL, &out->csv[0]);
	if (ok && out->features != features)
		ok = data_refuse(source->path,
				 "found %zu features%s, expected the %zu of the model, with or "
				 "without a label; give samples of its kind",
				 out->features, out->y ? " and a label" : "", features);
	if (ok && out->rows > UINT32_MAX)
		ok = why_set(TUTTI_ERR_INVALID, "found %zu samples, expected at most %u", out->rows,
			     UINT32_MAX);
	return whole(ok, out);
}

void data_finish(struct data *data)
{
	free(data->x);
	free(data->y);
	free(data->mean);
	free(data->inverse);
	free(data->csv[0].spreads);
	free(data->csv[1].spreads);
	*data = (struct data){ 0 };
}
