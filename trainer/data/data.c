/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the samples in memory: chooses the reader, and checks what all formats have in common. */
#include "data.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "team.h"

bool data_refuse(const char *path, const char *format, ...)
{
	char text[640];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return why_invalid("%s: %s", path, text);
}

/* ---- what is about all parts */

bool join_parts(struct team *team, void *mine, size_t count, size_t size,
		void (*add)(void *sum, const void *part))
{
	if (!team)
		return true;
	const size_t bytes = count * size, all_bytes = bytes * (size_t)team->size;
	char *all = malloc(all_bytes), *sums = mine;
	const bool ok = all ? team_gather(team, mine, all, bytes) : why_no_memory("all parts");

	if (ok)
		memcpy(mine, all, bytes); /* rank 0's: all add in one order */
	for (size_t at = bytes; ok && at < all_bytes; at += size)
		add(sums + at % bytes, all + at);
	free(all);
	return ok;
}

/* Labels run from 0 without gaps, unless the user said how many classes there are. A gap is most
 * often a wrong label, and would cost a row of weights for each missing class. `counts`: how many
 * samples for training have each label. */
static bool check_labels(const struct data_source *source, const double *counts, unsigned *classes)
{
	const char *path = source->labels ? source->labels : source->path;
	unsigned top = DATA_LABEL_MAX, missing = 0;

	while (top > 0 && counts[top] == 0)
		top--;
	while (missing < top && counts[missing] > 0)
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
	*classes = source->classes ? source->classes : top + 1;
	return true;
}

static bool find_classes(const struct data_source *source, struct team *team, struct data *data)
{
	double *counts = calloc(DATA_LABEL_MAX + 1, sizeof(*counts));
	bool ok = counts || why_no_memory("the labels");

	for (size_t i = 0; ok && i < data->rows - data->test_rows; i++)
		counts[data->y[i]]++;
	ok = ok && (!team || team_sum(team, counts, DATA_LABEL_MAX + 1)) &&
	     check_labels(source, counts, &data->classes);
	free(counts);
	return ok;
}

/* Of a part, and of all. */
struct facts {
	uint64_t rows, test_rows, hash;
	uint64_t beyond; /* the first row for validation whose label is no class, * 2^16 + that */
};

static void add_facts(void *sum, const void *part)
{
	struct facts *s = sum;
	const struct facts *other = part;

	s->rows += other->rows;
	s->test_rows += other->test_rows;
	s->hash += other->hash;
	s->beyond = other->beyond < s->beyond ? other->beyond : s->beyond;
}

static struct facts note_facts(const struct data *data, const size_t first[2])
{
	const size_t train = data->rows - data->test_rows, n = data->features;
	struct facts facts = { data->rows, data->test_rows, .beyond = UINT64_MAX };

	for (size_t i = 0; i < data->rows; i++) {
		const size_t number = i < train ? first[0] + i : first[1] + i - train;
		const uint32_t y = data->y[i];

		facts.hash +=
			hash_bytes(hash_word(number, y), data->x + i * n, n * sizeof(*data->x));
		if (y >= data->classes && facts.beyond == UINT64_MAX)
			facts.beyond = (uint64_t)number << 16 | y;
	}
	return facts;
}

bool data_judge(const struct data_source *source, struct team *team, const size_t first[2],
		struct data *data)
{
	if (!csv_judge(source->path, data->features, team, &data->csv[0]) ||
	    !csv_judge(source->test_path, data->features, team, &data->csv[1]) ||
	    (data->classes == 0 && !find_classes(source, team, data))) /* what is made has them */
		return false;
	struct facts facts = note_facts(data, first);

	if (!join_parts(team, &facts, 1, sizeof(facts), add_facts))
		return false;
	data->all_rows = (size_t)facts.rows;
	data->all_test_rows = (size_t)facts.test_rows;
	data->hash = hash_word(hash_word(data->all_rows, data->features), data->classes);
	data->hash = hash_word(hash_word(data->hash, data->all_test_rows), facts.hash);
	return facts.beyond == UINT64_MAX ||
	       data_refuse(source->test_labels ? source->test_labels : source->test_path,
			   "row %zu: found label %u, expected 0 to %u as in %s; leave such "
			   "samples out, or give --classes",
			   (size_t)((facts.beyond >> 16) - (facts.rows - facts.test_rows)),
			   (unsigned)(facts.beyond & DATA_LABEL_MAX), data->classes - 1,
			   source->labels ? source->labels : source->path);
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
		return why_invalid(
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
	ok = (synthetic_is(source->path) ? synthetic_make(source, DATA_WHOLE, out)
					 : read_file(source, false, DATA_WHOLE, out)) &&
	     csv_judge(source->path, out->features, NULL, &out->csv[0]);
	if (ok && out->features != features)
		ok = data_refuse(source->path,
				 "found %zu features%s, expected the %zu of the model, with or "
				 "without a label; give samples of its kind",
				 out->features, out->y ? " and a label" : "", features);
	out->all_rows = out->all_test_rows = out->rows;
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
