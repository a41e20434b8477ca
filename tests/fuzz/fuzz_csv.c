/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples for the trainer in CSV. */
#include <math.h>

#include "data.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { "fuzz.csv", calloc(size + 1, 1), size };
	struct data samples = { 0 };
	struct why why = { "" };

	FUZZ_PROMISE(input.bytes);
	for (size_t i = 0; i < size; i++)
		input.bytes[i] = (char)data[i];
	if (csv_parse(&input, &samples, &why) == TUTTI_OK) {
		FUZZ_PROMISE(samples.rows > 0 && samples.features > 0);
		for (size_t i = 0; i < samples.rows * samples.features; i++)
			FUZZ_PROMISE(isfinite(samples.x[i]));
		for (size_t i = 0; i < samples.rows; i++)
			FUZZ_PROMISE(samples.y[i] <= DATA_LABEL_MAX);
	} else {
		FUZZ_PROMISE(why.text[0] && !samples.x && !samples.y);
	}
	data_finish(&samples);
	input_finish(&input);
	return 0;
}
