/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of samples that the trainer makes up. What is small enough is made. */
#include <math.h>
#include <string.h>

#include "data.h"
#include "fuzz.h"

#define MOST ((size_t)1 << 12) /* bytes of features that are made */

static void check(const struct data *samples, const struct synthetic *s)
{
	FUZZ_PROMISE(samples->rows == s->rows && samples->features == s->features);
	FUZZ_PROMISE(samples->classes == s->classes);
	for (size_t i = 0; i < samples->rows * samples->features; i++)
		FUZZ_PROMISE(isfinite(samples->x[i]));
	for (size_t i = 0; i < samples->rows; i++)
		FUZZ_PROMISE(samples->y[i] < samples->classes);
}

/* Parts together are the whole. */
static void check_parts(const char *name, const struct data *samples)
{
	size_t rows = 0;

	for (int i = 0; i < 3; i++) {
		struct data part = { 0 };
		struct why why = { "" };

		FUZZ_PROMISE(synthetic_make(name, (struct data_part){ i, 3 }, MOST, &part, &why) ==
			     TUTTI_OK);
		FUZZ_PROMISE(part.rows <= samples->rows - rows);
		FUZZ_PROMISE(memcmp(part.x, samples->x + rows * samples->features,
				    part.rows * part.features * sizeof(*part.x)) == 0);
		FUZZ_PROMISE(memcmp(part.y, samples->y + rows, part.rows * sizeof(*part.y)) == 0);
		rows += part.rows;
		data_finish(&part);
	}
	FUZZ_PROMISE(rows == samples->rows);
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
		if (s.classes <= 64 && synthetic_make(name, (struct data_part){ 0, 1 }, MOST,
						      &samples, &why) == TUTTI_OK) {
			check(&samples, &s);
			check_parts(name, &samples);
		}
	} else {
		FUZZ_PROMISE(why.text[0]);
	}
	data_finish(&samples);
	free(name);
	return 0;
}
