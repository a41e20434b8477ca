/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of samples that the trainer makes up. What is small enough is made. */
#include <math.h>

#include "data.h"
#include "fuzz.h"

static void check(const struct data *samples, const struct synthetic *s)
{
	FUZZ_PROMISE(samples->rows == s->rows && samples->features == s->features);
	FUZZ_PROMISE(samples->classes == s->classes);
	for (size_t i = 0; i < samples->rows * samples->features; i++)
		FUZZ_PROMISE(isfinite(samples->x[i]));
	for (size_t i = 0; i < samples->rows; i++)
		FUZZ_PROMISE(samples->y[i] < samples->classes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = calloc(size + 1, 1);
	struct synthetic s = { 0 };
	struct data samples = { 0 };
	struct why why = { "" };

	FUZZ_PROMISE(name);
	for (size_t i = 0; i < size; i++)
		name[i] = (char)data[i];
	if (synthetic_parse(name, &s, &why) == TUTTI_OK) {
		FUZZ_PROMISE(synthetic_is(name));
		FUZZ_PROMISE(s.rows >= 2 && s.rows <= UINT32_MAX);
		FUZZ_PROMISE(s.features >= 1 && s.features <= 65536);
		FUZZ_PROMISE(s.classes >= 2 && s.classes <= DATA_LABEL_MAX + 1);
		if (s.classes <= 64 && synthetic_make(name, 1 << 12, &samples, &why) == TUTTI_OK)
			check(&samples, &s);
	} else {
		FUZZ_PROMISE(why.text[0]);
	}
	data_finish(&samples);
	free(name);
	return 0;
}
