/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the samples in memory: chooses the reader, and checks what all formats have in common. */
#include "data.h"

#include <stdlib.h>

#include "bits.h"

/* Labels run from 0 without gaps, unless the user said how many classes there are. A gap is most
 * often a wrong label, and would cost a row of weights for each missing class. */
static tutti_result_t check_classes(const struct data_source *source, struct data *data,
				    struct why *why)
{
	const char *path = source->labels ? source->labels : source->path;
	unsigned char *seen = calloc(DATA_LABEL_MAX + 1, 1);
	uint32_t top = 0, missing = 0;

	if (!seen)
		return why_no_memory(why, "the classes");
	for (size_t i = 0; i < data->rows; i++) {
		seen[data->y[i]] = 1;
		top = data->y[i] > top ? data->y[i] : top;
	}
	while (missing < top && seen[missing])
		missing++;
	free(seen);
	if (source->classes && top >= source->classes)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: label out of range: found %u, expected 0 to %u (--classes %u)",
			       path, top, source->classes - 1, source->classes);
	if (!source->classes && missing < top)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: label out of range: found %u, but no sample has label %u; labels "
			"run from 0 without gaps, or give --classes",
			path, top, missing);
	if (!source->classes && top == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: found label 0 on every sample, expected at least two classes",
			       path);
	data->classes = source->classes ? source->classes : top + 1;
	return TUTTI_OK;
}

static tutti_result_t parse_pair(const struct data_source *source, const struct input *samples,
				 struct data *out, struct why *why)
{
	struct input labels = { 0 };
	tutti_result_t result = input_read(source->labels, source->most, &labels, why);

	if (result != TUTTI_OK)
		return result;
	result = idx_parse(samples, &labels, out, why);
	input_finish(&labels);
	return result;
}

tutti_result_t data_read(const struct data_source *source, struct data *out, struct why *why)
{
	struct input input = { 0 };
	struct data data = { 0 };
	tutti_result_t result = input_read(source->path, source->most, &input, why);

	if (result != TUTTI_OK)
		return result;
	if (source->labels)
		result = parse_pair(source, &input, &data, why);
	else if (idx_looks_like(&input))
		result = why_set(why, TUTTI_ERR_INVALID,
				 "%s: is an IDX file; give the file of its labels with --labels",
				 source->path);
	else
		result = csv_parse(&input, &data, why);
	input_finish(&input);
	if (result == TUTTI_OK)
		result = check_classes(source, &data, why);
	if (result != TUTTI_OK) {
		data_finish(&data);
		return result;
	}
	*out = data;
	return TUTTI_OK;
}

void data_finish(struct data *data)
{
	free(data->x);
	free(data->y);
	*data = (struct data){ 0 };
}

uint64_t data_hash(const struct data *data)
{
	uint64_t hash = hash_word(hash_word(data->rows, data->features), data->classes);

	if (data->rows == 0)
		return hash;
	hash = hash_bytes(hash, data->x, data->rows * data->features * sizeof(*data->x));
	return hash_bytes(hash, data->y, data->rows * sizeof(*data->y));
}
