/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and names that the trainer reads. */
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "checkpoint.h"
#include "data.h"
#include "fuzz.h"

#define MOST (1u << 20) /* bytes of content */

static void promise_finite(const float *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		FUZZ_PROMISE(isfinite(numbers[i]));
}

/* Why the last call has failed. */
static int is_told(void)
{
	const int told = why.text[0];

	why.text[0] = '\0';
	return told;
}

/* ---- checkpoints: the file as it is, and once more with the checksum that it should have */

/* What was understood is understood again when it is written. */
static void write_again(const struct checkpoint *c)
{
	struct checkpoint again;
	void *bytes;
	size_t length;

	FUZZ_PROMISE(checkpoint_pack("fuzz", c, &bytes, &length));
	FUZZ_PROMISE(checkpoint_parse("fuzz", bytes, length, &again));
	FUZZ_PROMISE(json_equal(again.options, c->options) && again.step == c->step &&
		     again.epoch_count == c->epoch_count);
	checkpoint_finish(&again);
	free(bytes);
}

static void parse_checkpoint(const uint8_t *bytes, size_t length)
{
	struct checkpoint c;

	if (checkpoint_parse("fuzz", bytes, length, &c))
		write_again(&c);
	else
		FUZZ_PROMISE(is_told() && !c.options && !c.epochs && !c.array[0]);
	checkpoint_finish(&c);
}

FUZZ(checkpoint)
{
	uint8_t *copy = fuzz_copy(data, size);
	uint32_t sum;

	parse_checkpoint(data, size);
	if (size >= sizeof(sum)) {
		sum = (uint32_t)crc32_z(0, copy, size - sizeof(sum));
		memcpy(copy + size - sizeof(sum), &sum, sizeof(sum));
	}
	parse_checkpoint(copy, size);
	free(copy);
}

/* ---- samples */

FUZZ(csv)
{
	struct input input = { "fuzz.csv", fuzz_text(data, size), size, DATA_WHOLE };
	const struct data_source source = { .label_column = size % 4 };
	struct data samples = { 0 };

	if (csv_parse(&input, &source, &samples.csv[0], &samples)) {
		FUZZ_PROMISE(samples.rows > 0 && samples.features > 0);
		promise_finite(samples.x, samples.rows * samples.features);
		for (size_t i = 0; i < samples.rows; i++)
			FUZZ_PROMISE(samples.y[i] <= DATA_LABEL_MAX);
	} else {
		FUZZ_PROMISE(is_told());
	}
	data_finish(&samples);
	input_finish(&input);
}

/* The input is length:2 of the samples, the samples, the labels. */
FUZZ(idx)
{
	struct fuzz_in in = { data, size };
	uint8_t length[2];

	if (fuzz_take(&in, length, 2) < 2)
		return;
	const struct fuzz_in first = fuzz_cut(&in, (size_t)length[0] << 8 | length[1]);
	struct input samples = { "fuzz-images", fuzz_text(first.at, first.left), first.left,
				 DATA_WHOLE },
		     labels = { "fuzz-labels", fuzz_text(in.at, in.left), in.left, DATA_WHOLE };
	const struct data_source source = { 0 };
	struct data out = { 0 };

	if (idx_looks_like(&samples)) {
		if (idx_parse(&samples, &labels, &source, &out))
			promise_finite(out.x, out.rows * out.features);
		else
			FUZZ_PROMISE(is_told());
	}
	data_finish(&out);
	input_finish(&samples);
	input_finish(&labels);
}

/* ---- a file, plain or compressed by gzip, as a whole and in parts */

static void read_samples(const struct data_source *source, struct data_part part, size_t size)
{
	struct data samples = { 0 };

	if (data_read_part(source, part, &samples))
		FUZZ_PROMISE(samples.rows <= size);
	data_finish(&samples);
}

/* Parts are all of the file behind its head, one after the other. */
static void read_parts(const char *path, const uint8_t *data, size_t size)
{
	const int count = 2 + (int)(size % 4);
	size_t at = SIZE_MAX; /* the end of the head, of the first part */

	for (int i = 0; i < count; i++) {
		const struct data_part part = { i, count };
		struct input input = { 0 };

		if (input_read(path, part, MOST, &input)) {
			const size_t head = input.head, length = input.length - head;

			at = i == 0 ? head : at;
			FUZZ_PROMISE(head <= size && memcmp(input.bytes, data, head) == 0);
			FUZZ_PROMISE(input.begins == at && length <= size - at &&
				     memcmp(input.bytes + head, data + at, length) == 0);
			at += length;
			FUZZ_PROMISE(input.ends == at && (i < count - 1 || at == size));
		} else {
			FUZZ_PROMISE(is_told());
			at = size; /* all parts are refused */
		}
		input_finish(&input);
		read_samples(&(struct data_source){ .path = path, .labels = path, .most = MOST },
			     part, size);
		read_samples(&(struct data_source){ .path = path, .most = MOST }, part, size);
	}
}

FUZZ(input)
{
	const char *path = fuzz_file(data, size);
	struct input input = { 0 };

	if (input_read(path, DATA_WHOLE, MOST, &input)) {
		FUZZ_PROMISE(input.length <= MOST && input.bytes &&
			     input.bytes[input.length] == '\0');
		if (size < 2 || data[0] != 0x1f || data[1] != 0x8b) /* as it is */
			FUZZ_PROMISE(input.length == size && memcmp(input.bytes, data, size) == 0);
	} else {
		FUZZ_PROMISE(is_told());
	}
	input_finish(&input);
	if (size <= MOST)
		read_parts(path, data, size);
}

/* ---- the name of samples that are made up: what is small enough is made */

#define MADE ((size_t)1 << 12) /* bytes of features */

static void check_made(const struct data *samples, const struct synthetic *s)
{
	FUZZ_PROMISE(samples->rows == s->rows && samples->features == s->features);
	FUZZ_PROMISE(samples->classes == s->classes);
	promise_finite(samples->x, samples->rows * samples->features);
	for (size_t i = 0; i < samples->rows; i++)
		FUZZ_PROMISE(samples->y[i] < samples->classes);
}

/* Parts together are the whole. */
static void check_made_parts(const struct data_source *source, const struct data *samples)
{
	size_t rows = 0;

	for (int i = 0; i < 3; i++) {
		struct data part = { 0 };

		FUZZ_PROMISE(synthetic_make(source, (struct data_part){ i, 3 }, &part));
		FUZZ_PROMISE(part.rows <= samples->rows - rows);
		FUZZ_PROMISE(part.rows == 0 ||
			     memcmp(part.x, samples->x + rows * samples->features,
				    part.rows * part.features * sizeof(*part.x)) == 0);
		FUZZ_PROMISE(part.rows == 0 ||
			     memcmp(part.y, samples->y + rows, part.rows * sizeof(*part.y)) == 0);
		rows += part.rows;
		data_finish(&part);
	}
	FUZZ_PROMISE(rows == samples->rows);
}

FUZZ(synthetic_name)
{
	char *name = fuzz_text(data, size);
	const struct data_source source = { .path = name, .most = MADE };
	struct synthetic s = { 0 };
	struct data samples = { 0 };

	if (synthetic_parse(name, &s)) {
		FUZZ_PROMISE(synthetic_is(name));
		FUZZ_PROMISE(s.rows >= 2 && s.rows <= UINT32_MAX);
		FUZZ_PROMISE(s.features >= 1 && s.features <= 65536);
		FUZZ_PROMISE(s.classes >= 2 && s.classes <= DATA_LABEL_MAX + 1);
		if (s.classes <= 64 && synthetic_make(&source, DATA_WHOLE, &samples)) {
			check_made(&samples, &s);
			check_made_parts(&source, &samples);
		}
	} else {
		FUZZ_PROMISE(is_told());
	}
	data_finish(&samples);
	free(name);
}
