/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples and labels for the trainer in IDX: the input is length:2 of the samples, the samples,
 * the labels. */
#include <math.h>
#include <string.h>

#include "data.h"
#include "fuzz.h"

static struct input copy(const char *path, const uint8_t *bytes, size_t length)
{
	struct input input = { path, calloc(length + 1, 1), length };

	FUZZ_PROMISE(input.bytes);
	memcpy(input.bytes, bytes, length);
	return input;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	const size_t wanted = (size_t)data[0] << 8 | data[1], rest = size - 2,
		     first = wanted < rest ? wanted : rest;
	struct input samples = copy("fuzz-images", data + 2, first),
		     labels = copy("fuzz-labels", data + 2 + first, rest - first);
	struct data out = { 0 };
	struct why why = { "" };

	if (idx_looks_like(&samples)) {
		if (idx_parse(&samples, &labels, &out, &why) == TUTTI_OK)
			for (size_t i = 0; i < out.rows * out.features; i++)
				FUZZ_PROMISE(isfinite(out.x[i]));
		else
			FUZZ_PROMISE(why.text[0] && !out.x && !out.y);
	}
	data_finish(&out);
	input_finish(&samples);
	input_finish(&labels);
	return 0;
}
