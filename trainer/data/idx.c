/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads IDX files, the format of the MNIST data: two zero bytes, the element type, the number of
 * dimensions, each dimension as a big-endian 32-bit number, the elements. Owns nothing. */
#include "batches.h"
#include "bits.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum idx_type {
	IDX_UINT8 = 0x08,
	IDX_INT8 = 0x09,
	IDX_INT16 = 0x0b,
	IDX_INT32 = 0x0c,
	IDX_FLOAT32 = 0x0d,
	IDX_FLOAT64 = 0x0e,
};

struct idx {
	const unsigned char *elements;
	enum idx_type type;
	size_t width;	 /* bytes of an element */
	size_t rows;	 /* first dimension */
	size_t features; /* product of the others */
	unsigned dims;
	size_t first; /* of a part: the number of its first row */
};

int idx_looks_like(const struct input *input)
{
	return input->length >= 4 && input->bytes[0] == 0 && input->bytes[1] == 0;
}

static uint64_t big_endian(const unsigned char *p, size_t width)
{
	uint64_t value = 0;

	for (size_t i = 0; i < width; i++)
		value = value << 8 | p[i];
	return value;
}

static size_t type_width(unsigned type)
{
	switch (type) {
	case IDX_UINT8:
	case IDX_INT8: return 1;
	case IDX_INT16: return 2;
	case IDX_INT32:
	case IDX_FLOAT32: return 4;
	case IDX_FLOAT64: return 8;
	default: return 0;
	}
}

/* Of all elements and the header. */
static bool file_length(const char *path, const struct idx *idx, size_t header, size_t *bytes)
{
	size_t elements;

	if (__builtin_mul_overflow(idx->rows, idx->features, &elements) ||
	    __builtin_mul_overflow(elements, idx->width, bytes) ||
	    __builtin_add_overflow(*bytes, header, bytes))
		return why_set(TUTTI_ERR_INVALID,
			       "%s: its header asks for more elements than a machine can address",
			       path);
	return true;
}

static size_t header_length(const struct idx *idx)
{
	return 4 + 4 * (size_t)idx->dims;
}

static bool check_length(const char *path, size_t length, const struct idx *idx)
{
	size_t bytes = 0;

	if (!file_length(path, idx, header_length(idx), &bytes))
		return false;
	if (length != bytes)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: %s: found %zu bytes, its header asks for %zu (%zu rows of %zu); "
			"fetch the file again",
			path, length < bytes ? "truncated" : "too long", length, bytes, idx->rows,
			idx->features);
	return true;
}

static bool parse_header(const struct input *input, struct idx *out)
{
	const unsigned char *p = (const unsigned char *)input->bytes;
	struct idx idx = { .features = 1 };

	if (!idx_looks_like(input))
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: found no IDX header, expected two zero bytes, a type and a number "
			"of dimensions; labels in a file of their own are for IDX, leave them out with "
			"CSV",
			input->path);
	idx.type = p[2];
	idx.width = type_width(p[2]);
	idx.dims = p[3];
	if (idx.width == 0 || idx.dims == 0)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: found IDX type 0x%02x and %u dimensions, expected type 0x08, 0x09 or "
			"0x0b to 0x0e and 1 dimension or more",
			input->path, p[2], idx.dims);
	if (input->length < header_length(&idx))
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: truncated: found %zu bytes, its header alone has %zu; fetch the "
			"file again",
			input->path, input->length, header_length(&idx));
	idx.rows = big_endian(p + 4, 4);
	for (unsigned d = 1; d < idx.dims; d++)
		if (__builtin_mul_overflow(idx.features, big_endian(p + 4 + 4 * d, 4),
					   &idx.features))
			idx.features = SIZE_MAX; /* check_length() refuses it, or rows are 0 */
	idx.elements = p + header_length(&idx);
	*out = idx;
	return true;
}

static bool parse_whole(const struct input *input, struct idx *out)
{
	return parse_header(input, out) && check_length(input->path, input->length, out);
}

static double element(const struct idx *idx, size_t i)
{
	const uint64_t bits = big_endian(idx->elements + i * idx->width, idx->width);
	const uint32_t low = (uint32_t)bits;
	double wide;
	float narrow;

	switch (idx->type) {
	case IDX_UINT8: return (double)bits;
	case IDX_INT8: return (int8_t)bits;
	case IDX_INT16: return (int16_t)bits;
	case IDX_INT32: return (int32_t)bits;
	case IDX_FLOAT32: memcpy(&narrow, &low, sizeof(narrow)); return narrow;
	case IDX_FLOAT64: memcpy(&wide, &bits, sizeof(wide)); return wide;
	}
	return NAN;
}

static bool convert(const struct input *samples, const struct idx *x, const struct input *labels,
		    const struct idx *y, struct data *data)
{
	for (size_t i = 0; i < x->rows * x->features; i++) {
		data->x[i] = (float)element(x, i);
		if (!isfinite(data->x[i]))
			return why_set(
				TUTTI_ERR_INVALID,
				"%s: row %zu, element %zu: found %g, expected a finite number "
				"within a float's range",
				samples->path, x->first + i / x->features, i % x->features,
				element(x, i));
	}
	for (size_t i = 0; i < y->rows; i++) {
		const double value = element(y, i);

		if (!(value >= 0 && value <= DATA_LABEL_MAX))
			return why_set(
				TUTTI_ERR_INVALID,
				"%s: row %zu: found label %g, expected an integer from 0 to %d",
				labels->path, y->first + i, value, DATA_LABEL_MAX);
		data->y[i] = (uint32_t)value;
	}
	return true;
}

static bool check_pair(const struct input *samples, const struct idx *x, const struct input *labels,
		       const struct idx *y)
{
	if (x->rows == 0 || x->features == 0)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: found %zu rows of %zu elements, expected at least one of each",
			       samples->path, x->rows, x->features);
	if (!labels)
		return true;
	if (y->dims != 1 || y->type >= IDX_FLOAT32)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: found %u dimensions of type 0x%02x, expected labels: 1 dimension "
			"of an integer type",
			labels->path, y->dims, (unsigned)y->type);
	if (x->rows != y->rows)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: found %zu labels, expected %zu, one for each row of %s",
			       labels->path, y->rows, x->rows, samples->path);
	return true;
}

static bool parse_pair(const struct input *samples, const struct idx *x, const struct input *labels,
		       const struct idx *y, struct data *out)
{
	struct data data = { .rows = x->rows, .features = x->features };
	bool ok;

	data.x = malloc(x->rows * x->features * sizeof(*data.x));
	data.y = labels ? malloc(y->rows * sizeof(*data.y)) : NULL;
	ok = data.x && (data.y || !labels) ? convert(samples, x, labels, y, &data)
					   : why_no_memory(samples->path);
	if (!ok) {
		data_finish(&data);
		return false;
	}
	*out = data;
	return true;
}

bool idx_parse(const struct input *samples, const struct input *labels, struct data *out)
{
	struct idx x = { 0 }, y = { 0 };
	bool ok = parse_whole(samples, &x);

	if (ok && labels)
		ok = parse_whole(labels, &y);
	ok = ok && check_pair(samples, &x, labels, &y);
	return ok && parse_pair(samples, &x, labels, &y, out);
}

/* ---- parts */

enum { HEADER_MOST = 4 + 4 * 255 };

static bool read_header(const char *path, struct input *input, struct idx *out)
{
	size_t length;

	return input_read_bytes(path, 0, HEADER_MOST, input, &length) && parse_header(input, out) &&
	       check_length(path, length, out);
}

/* Of that many rows from `rows.first` on: then these are what `idx` is about. */
static bool read_rows(const char *path, struct slice rows, size_t most, struct idx *idx,
		      struct input *input)
{
	const size_t row = idx->features * idx->width, header = header_length(idx);
	size_t length;
	bool ok;

	if (rows.count > 0 && row > most / rows.count)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: found a part of %zu rows of %zu bytes, expected at most %zu bytes; "
			"raise --data-limit if memory allows",
			path, rows.count, row, most);
	ok = input_read_bytes(path, header + rows.first * row, rows.count * row, input, &length);
	if (ok && input->length < rows.count * row)
		return why_set(TUTTI_ERR_INVALID, "%s: it became shorter while it was read", path);
	idx->rows = rows.count;
	idx->first = rows.first;
	idx->elements = (const unsigned char *)input->bytes;
	return ok;
}

static bool read_pair(const char *samples, const char *labels, struct data_part part, size_t most,
		      struct input inputs[4], struct data *out)
{
	struct idx x = { 0 }, y = { 0 };
	bool ok = read_header(samples, &inputs[0], &x) && read_header(labels, &inputs[1], &y) &&
		  check_pair(&inputs[0], &x, &inputs[1], &y);

	if (!ok)
		return false;
	const struct slice mine = slice_of(x.rows, part.index, part.count);

	ok = read_rows(samples, mine, most, &x, &inputs[2]) &&
	     read_rows(labels, mine, most, &y, &inputs[3]) &&
	     parse_pair(&inputs[2], &x, &inputs[3], &y, out);
	if (ok)
		out->read = inputs[2].length + inputs[3].length;
	if (ok)
		out->origin = hash_word(inputs[0].mark, inputs[1].mark);
	return ok;
}

bool idx_read_part(const char *samples, const char *labels, struct data_part part, size_t most,
		   struct data *out)
{
	struct input inputs[4] = { { 0 } };
	const bool ok = read_pair(samples, labels, part, most, inputs, out);

	for (int i = 0; i < 4; i++)
		input_finish(&inputs[i]);
	return ok;
}
