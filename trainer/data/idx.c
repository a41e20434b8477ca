/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads IDX files, the format of the MNIST data: two zero bytes, the element type, the number of
 * dimensions, each dimension as a big-endian 32-bit number, the elements. Owns nothing. */
#include "batches.h"

#include <math.h>
#include <string.h>

/* Bytes of an element of each type: uint8, int8, int16, int32, float32, float64. */
enum { FLOAT32 = 0x0d };
static const unsigned char widths[256] = {
	[0x08] = 1, [0x09] = 1, [0x0b] = 2, [0x0c] = 4, [FLOAT32] = 4, [0x0e] = 8,
};

struct idx {
	const struct input *input;
	const unsigned char *elements;
	unsigned char type;
	size_t width;	 /* bytes of an element */
	size_t rows;	 /* first dimension */
	size_t features; /* product of the others */
	unsigned dims;
	struct slice mine; /* rows of the part */
};

bool idx_looks_like(const struct input *input)
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

static size_t header_length(const struct idx *idx)
{
	return 4 + 4 * (size_t)idx->dims;
}

static bool parse_header(const struct input *input, struct idx *out)
{
	const unsigned char *p = (const unsigned char *)input->bytes;
	struct idx idx = { .input = input, .features = 1 };

	if (!idx_looks_like(input))
		return data_refuse(input->path,
				   "found no IDX header, expected two zero bytes, a type and a "
				   "number of dimensions; labels in a file of their own are for "
				   "IDX, leave them out with CSV");
	idx.type = p[2];
	idx.width = widths[p[2]];
	idx.dims = p[3];
	if (idx.width == 0 || idx.dims == 0)
		return data_refuse(input->path,
				   "found IDX type 0x%02x and %u dimensions, expected type 0x08, "
				   "0x09 or 0x0b to 0x0e and 1 dimension or more",
				   p[2], idx.dims);
	if (input->length < header_length(&idx))
		return data_refuse(input->path,
				   "truncated: found %zu bytes, its header alone has %zu; fetch "
				   "the file again",
				   input->length, header_length(&idx));
	idx.rows = big_endian(p + 4, 4);
	for (unsigned d = 1; d < idx.dims; d++)
		if (__builtin_mul_overflow(idx.features, big_endian(p + 4 + 4 * d, 4),
					   &idx.features))
			idx.features = SIZE_MAX; /* check_length() refuses it, or rows are 0 */
	idx.elements = p + header_length(&idx);
	idx.mine = slice_of(idx.rows, input->part.index, input->part.count);
	*out = idx;
	return true;
}

/* Is `length` that of the header and so many rows? */
static bool check_length(const struct idx *idx, size_t length, size_t rows)
{
	size_t bytes;

	if (__builtin_mul_overflow(rows, idx->features, &bytes) ||
	    __builtin_mul_overflow(bytes, idx->width, &bytes) ||
	    __builtin_add_overflow(bytes, header_length(idx), &bytes))
		return data_refuse(idx->input->path,
				   "its header asks for more elements than a machine can address");
	return length == bytes ||
	       data_refuse(idx->input->path,
			   "%s: found %zu bytes, its header asks for %zu (%zu rows of %zu); fetch "
			   "the file again",
			   length < bytes ? "truncated" : "too long", length, bytes, rows,
			   idx->features);
}

static bool parse(const struct input *input, struct idx *out)
{
	return parse_header(input, out) && check_length(out, input->length, out->mine.count);
}

static double element(const struct idx *idx, size_t i)
{
	const uint64_t bits = big_endian(idx->elements + i * idx->width, idx->width);
	const uint32_t low = (uint32_t)bits;
	double wide;
	float narrow;

	switch (idx->type) {
	case 0x08: return (double)bits;
	case 0x09: return (int8_t)bits;
	case 0x0b: return (int16_t)bits;
	case 0x0c: return (int32_t)bits;
	case FLOAT32: memcpy(&narrow, &low, sizeof(narrow)); return narrow;
	default: memcpy(&wide, &bits, sizeof(wide)); return wide;
	}
}

static bool check_labels(const struct idx *y, const struct idx *x)
{
	if (y->dims != 1 || y->type >= FLOAT32)
		return data_refuse(y->input->path,
				   "found %u dimensions of type 0x%02x, expected labels: 1 "
				   "dimension of an integer type",
				   y->dims, y->type);
	return x->rows == y->rows ||
	       data_refuse(y->input->path, "found %zu labels, expected %zu, one for each row of %s",
			   y->rows, x->rows, x->input->path);
}

/* Behind the rows that `out` has. */
static bool take_features(const struct idx *x, struct data *out)
{
	const size_t behind = out->rows * x->features;

	for (size_t i = 0; i < x->mine.count * x->features; i++) {
		out->x[behind + i] = (float)element(x, i);
		if (!isfinite(out->x[behind + i]))
			return data_refuse(x->input->path,
					   "row %zu, element %zu: found %g, expected a finite "
					   "number within a float's range",
					   x->mine.first + i / x->features, i % x->features,
					   element(x, i));
	}
	return true;
}

static bool take_labels(const struct idx *y, struct data *out)
{
	for (size_t i = 0; i < y->mine.count; i++) {
		const double value = element(y, i);

		if (!(value >= 0 && value <= DATA_LABEL_MAX))
			return data_refuse(y->input->path,
					   "row %zu: found label %g, expected an integer from 0 "
					   "to %d",
					   y->mine.first + i, value, DATA_LABEL_MAX);
		out->y[out->rows + i] = (uint32_t)value;
	}
	return true;
}

bool idx_parse(const struct input *samples, const struct input *labels,
	       const struct data_source *source, struct data *out)
{
	struct idx x, y;

	if (!parse(samples, &x) || (labels && !parse(labels, &y)))
		return false;
	if (x.rows == 0 || x.features == 0)
		return data_refuse(samples->path,
				   "found %zu rows of %zu elements, expected at least one of each",
				   x.rows, x.features);
	if ((labels && !check_labels(&y, &x)) ||
	    !data_grow(source, x.mine.count, x.features, labels, out) || !take_features(&x, out) ||
	    (labels && !take_labels(&y, out)))
		return false;
	out->rows += x.mine.count;
	return true;
}

bool idx_find(struct input *input)
{
	struct idx idx;

	if (!parse_header(input, &idx) || !check_length(&idx, input->all, idx.rows))
		return false;
	const size_t row = idx.features * idx.width;

	input->head = header_length(&idx);
	input->begins = input->head + idx.mine.first * row;
	input->ends = input->begins + idx.mine.count * row;
	return true;
}
