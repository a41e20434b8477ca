/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for the trainer. The first two bytes choose the context and the share that validates. */
#include "data.h"
#include "fuzz.h"

enum { MOST = 1 << 20 };

/* One 1 among the classes of each character of the context. */
static void check_row(const struct data *samples, size_t row)
{
	const float *x = samples->x + row * samples->features;

	for (size_t i = 0; i < samples->features; i += samples->classes) {
		unsigned ones = 0;

		for (unsigned c = 0; c < samples->classes; c++) {
			FUZZ_PROMISE(x[i + c] == 0 || x[i + c] == 1);
			ones += x[i + c] == 1;
		}
		FUZZ_PROMISE(ones == 1);
	}
	FUZZ_PROMISE(samples->y[row] < samples->classes);
}

static void check(const struct data *samples, unsigned context, double test_fraction)
{
	FUZZ_PROMISE(samples->classes >= 2 && samples->classes <= 256);
	FUZZ_PROMISE(samples->features == (size_t)context * samples->classes);
	FUZZ_PROMISE(samples->rows * samples->features * sizeof(*samples->x) <= MOST);
	FUZZ_PROMISE(samples->test_rows < samples->rows);
	FUZZ_PROMISE((samples->test_rows > 0) == (test_fraction > 0));
	FUZZ_PROMISE(samples->as_is);
	for (size_t row = 0; row < samples->rows; row++)
		check_row(samples, row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const unsigned context = size > 0 ? data[0] * 5u : 0;
	const double test_fraction = size > 1 ? data[1] / 256.0 : 0;
	const size_t skipped = size < 2 ? size : 2;
	struct input input = { "fuzz.txt", calloc(size + 1, 1), size - skipped };
	struct data samples = { 0 };
	struct why why = { "" };

	FUZZ_PROMISE(input.bytes);
	for (size_t i = 0; i < input.length; i++)
		input.bytes[i] = (char)data[skipped + i];
	if (text_parse(&input, context, test_fraction, MOST, &samples, &why) == TUTTI_OK)
		check(&samples, context, test_fraction);
	else
		FUZZ_PROMISE(why.text[0] && !samples.x && !samples.y);
	data_finish(&samples);
	input_finish(&input);
	return 0;
}
