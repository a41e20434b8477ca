/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes samples up: features are standard normal, and their labels are what a fixed random network,
 * the teacher, says of them. All of it follows from the name alone, and the rows of a shorter set
 * begin a longer one. Sums are in plain C and in one order, so that ranks agree whatever their
 * BLAS. */
#include "batches.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

enum { HIDDEN = 32, MEASURED = 1024 /* samples from which the means of logits are taken */ };

/* Streams of the seed. The purposes of bits.h count upwards. */
static const uint64_t TEACHER = UINT64_MAX, FEATURES = UINT64_MAX - 1;

/* ---- the name */

bool synthetic_is(const char *path)
{
	return strncmp(path, "synthetic:", 10) == 0;
}

/* Written once more it is the same: so nothing is behind it, and numbers have digits alone. */
bool synthetic_parse(const char *path, struct synthetic *out)
{
	unsigned long long rows = 0, features = 0, classes = 0, seed = 1;
	char again[128];
	const int found =
		sscanf(path, "synthetic:%llux%llux%llu:%llu", &rows, &features, &classes, &seed);

	snprintf(again, sizeof(again),
		 found == 4 ? "synthetic:%llux%llux%llu:%llu" : "synthetic:%llux%llux%llu", rows,
		 features, classes, seed);
	if (strcmp(path, again) != 0 || rows < 2 || rows > UINT32_MAX || features < 1 ||
	    features > 65536 || classes < 2 || classes > DATA_LABEL_MAX + 1)
		return why_invalid(
			"--data: found '%.200s', expected "
			"synthetic:ROWSxFEATURESxCLASSES[:SEED] with 2 to 4294967295 rows, "
			"1 to 65536 features and 2 to 65536 classes, such as "
			"synthetic:10000x64x10",
			path);
	*out = (struct synthetic){ rows, features, classes, seed };
	return true;
}

/* ---- the samples */

/* Numbers from `first` on of those that follow from the state: Box and Muller's pairs, in float,
 * since the logarithm and the angle take most of the time. */
static void draw(float *to, size_t first, size_t count, float deviation, uint64_t state)
{
	random_skip(&state, first / 2 * 2);
	for (size_t i = first / 2 * 2; i < first + count; i += 2) {
		const float radius = deviation * sqrtf(-2 * logf((float)random_unit(&state)));
		const float angle = (float)(2 * M_PI) * (float)random_unit(&state);

		if (i >= first)
			to[i - first] = radius * cosf(angle);
		if (i + 1 < first + count)
			to[i + 1 - first] = radius * sinf(angle);
	}
}

/* A network with one hidden layer. A matrix has its biases in the row behind its last. */
struct teacher {
	size_t features, classes;
	float *first, *second;	      /* [features + 1][HIDDEN], [HIDDEN + 1][classes] */
	float *logits, *sum, *square; /* [classes]: of the sample asked last; means over some */
	float *x;		      /* [features], of one of these */
};

static uint32_t ask(struct teacher *t, const float *x)
{
	uint32_t best = 0;
	float hidden[HIDDEN];

	memcpy(hidden, t->first + t->features * HIDDEN, sizeof(hidden));
	for (size_t i = 0; i < t->features; i++)
		for (size_t h = 0; h < HIDDEN; h++)
			hidden[h] += x[i] * t->first[i * HIDDEN + h];
	memcpy(t->logits, t->second + HIDDEN * t->classes, t->classes * sizeof(*t->logits));
	for (size_t h = 0; h < HIDDEN; h++)
		for (size_t c = 0; c < t->classes; c++)
			t->logits[c] +=
				(hidden[h] > 0 ? hidden[h] : 0) * t->second[h * t->classes + c];
	for (uint32_t c = 1; c < t->classes; c++)
		best = t->logits[c] > t->logits[best] ? c : best;
	return best;
}

/* Give each logit mean 0 and variance 1 over the first samples. Without this a few classes, with
 * the largest means and variances, would have most of the samples. */
static void balance(struct teacher *t, size_t rows, uint64_t state)
{
	for (size_t row = 0; row < rows; row++) {
		draw(t->x, row * t->features, t->features, 1, state);
		ask(t, t->x);
		for (size_t c = 0; c < t->classes; c++) {
			t->sum[c] += t->logits[c] / (float)rows;
			t->square[c] += t->logits[c] * t->logits[c] / (float)rows;
		}
	}
	for (size_t c = 0; c < t->classes; c++) {
		const float variance = t->square[c] - t->sum[c] * t->sum[c];
		const float scale = variance > 1e-6f ? 1 / sqrtf(variance) : 1;

		t->second[HIDDEN * t->classes + c] -= t->sum[c];
		for (size_t h = 0; h <= HIDDEN; h++)
			t->second[h * t->classes + c] *= scale;
	}
}

/* Its memory is `first`; NULL: there is none. */
static struct teacher make_teacher(const struct synthetic *s)
{
	const size_t f = s->features, c = s->classes, behind = (f + 1) * HIDDEN;
	const uint64_t state = random_stream(s->seed, TEACHER);
	float *const all = calloc(behind + (HIDDEN + 4) * c + f, sizeof(*all));
	struct teacher t = { f, c, all };

	if (!all)
		return t;
	t.second = all + behind;
	t.logits = t.second + (HIDDEN + 1) * c;
	t.sum = t.logits + c;
	t.square = t.sum + c;
	t.x = t.square + c;
	draw(t.first, 0, f * HIDDEN, 1 / sqrtf((float)f), state);
	draw(t.first + f * HIDDEN, f * HIDDEN, HIDDEN, 1, state);
	draw(t.second, behind, HIDDEN * c, 1 / sqrtf(HIDDEN), state);
	draw(t.second + HIDDEN * c, behind + HIDDEN * c, c, 1, state);
	balance(&t, s->rows < MEASURED ? s->rows : MEASURED, random_stream(s->seed, FEATURES));
	return t;
}

/* These have their labels, and samples for validation, from the start. */
bool synthetic_make(const struct data_source *source, struct data_part part, struct data *out)
{
	const char *found = source->labels	  ? "--labels"
			    : source->test_path	  ? "--test-data"
			    : source->test_labels ? "--test-labels"
						  : NULL;
	struct synthetic s;

	if (found)
		return data_refuse(source->path,
				   "found %s, expected none: labels and samples for validation "
				   "are made from what --data names; leave %s out",
				   found, found);
	if (!synthetic_parse(source->path, &s))
		return false;
	if (source->classes && source->classes != s.classes)
		return data_refuse(source->path,
				   "found --classes %u, expected %u, as many as there are; leave "
				   "--classes out",
				   source->classes, (unsigned)s.classes);
	const struct slice mine = slice_of(s.rows, part.index, part.count);
	const size_t row = s.features * sizeof(float);

	if (mine.count > source->most / row)
		return data_refuse(source->path,
				   "found %zu rows of %zu bytes, expected at most %zu bytes in "
				   "all, which are %zu rows; ask for fewer, or raise --data-limit "
				   "if memory allows",
				   mine.count, row, source->most, source->most / row);
	if (!data_grow(source, mine.count, s.features, true, out))
		return false;
	struct teacher teacher = make_teacher(&s);

	if (!teacher.first)
		return why_no_memory(source->path);
	draw(out->x, mine.first * s.features, mine.count * s.features, 1,
	     random_stream(s.seed, FEATURES));
	for (size_t i = 0; i < mine.count; i++)
		out->y[i] = ask(&teacher, out->x + i * s.features);
	free(teacher.first);
	out->rows = mine.count;
	out->classes = (unsigned)s.classes;
	out->read = mine.count * row;
	out->origin[0] = hash_bytes(0, &s, sizeof(s));
	return true;
}
