/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes samples up: features are standard normal, and their labels are what a fixed random network,
 * the teacher, says of them. All of it follows from the name alone, and the rows of a shorter set
 * begin a longer one. Sums are in plain C and in one order, so that ranks agree whatever their
 * BLAS. */
#include "batches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

#define EXPECTED                                                                                   \
	"synthetic:ROWSxFEATURESxCLASSES[:SEED] with 2 to 4294967295 rows, 1 to 65536 features "   \
	"and 2 to 65536 classes, such as synthetic:10000x64x10"

static const char prefix[] = "synthetic:";

enum { HIDDEN = 32, MEASURED = 1024 /* samples from which the teacher's means are taken */ };

/* Streams of the seed. The purposes of bits.h count upwards. */
static const uint64_t TEACHER = UINT64_MAX, FEATURES = UINT64_MAX - 1;

/* ---- the name */

bool synthetic_is(const char *path)
{
	return strncmp(path, prefix, strlen(prefix)) == 0;
}

/* Digits, and no sign or blank before them. Goes behind the last of them. */
static bool parse_number(const char **at, uint64_t low, uint64_t high, uint64_t *value)
{
	const char *p = *at;
	uint64_t number = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*p - '0'), &number))
			return false;
	*at = p;
	*value = number;
	return number >= low && number <= high;
}

static bool parse_character(const char **at, char expected)
{
	const bool found = **at == expected;

	*at += found;
	return found;
}

tutti_result_t synthetic_parse(const char *path, struct synthetic *out, struct why *why)
{
	const char *at = path + (synthetic_is(path) ? strlen(prefix) : 0);
	uint64_t rows, features, classes, seed = 1;
	const bool right = at > path && parse_number(&at, 2, UINT32_MAX, &rows) &&
			   parse_character(&at, 'x') && parse_number(&at, 1, 65536, &features) &&
			   parse_character(&at, 'x') &&
			   parse_number(&at, 2, DATA_LABEL_MAX + 1, &classes) &&
			   (!parse_character(&at, ':') || parse_number(&at, 0, UINT64_MAX, &seed));

	if (!right || *at != '\0')
		return why_set(why, TUTTI_ERR_INVALID, "--data: found '%.200s', expected " EXPECTED,
			       path);
	*out = (struct synthetic){ (size_t)rows, (size_t)features, (unsigned)classes, seed };
	return TUTTI_OK;
}

/* ---- the samples */

/* Box and Muller's pairs, in float: the logarithm and the angle take most of the time. */
static void draw(float *to, size_t count, float deviation, uint64_t *state)
{
	for (size_t i = 0; i < count; i += 2) {
		const float radius = deviation * sqrtf(-2 * logf((float)random_unit(state)));
		const float angle = (float)(2 * M_PI) * (float)random_unit(state);

		to[i] = radius * cosf(angle);
		if (i + 1 < count)
			to[i + 1] = radius * sinf(angle);
	}
}

/* Numbers from `first` on of those that draw() makes of the state. */
static void draw_from(float *to, size_t first, size_t count, uint64_t state)
{
	float pair[2];

	random_skip(&state, first / 2 * 2);
	if (first % 2 && count > 0) {
		draw(pair, 2, 1, &state);
		*to++ = pair[1];
		count--;
	}
	draw(to, count, 1, &state);
}

/* A network with one hidden layer. `first` owns the memory of all. */
struct teacher {
	size_t features, classes;
	float *first, *first_bias;   /* [features][HIDDEN], [HIDDEN] */
	float *second, *second_bias; /* [HIDDEN][classes], [classes] */
	float *logits;		     /* [classes], of the sample asked last */
	float *means, *squares;	     /* [classes], of logits */
};

static tutti_result_t teacher_create(const struct synthetic *s, struct teacher *out,
				     struct why *why)
{
	const size_t count = (s->features + 1) * HIDDEN + (HIDDEN + 4) * (size_t)s->classes;
	struct teacher t = { .features = s->features, .classes = s->classes };
	uint64_t state = random_stream(s->seed, TEACHER);

	t.first = calloc(count, sizeof(*t.first));
	if (!t.first)
		return why_no_memory(why, "the network that makes the labels");
	t.first_bias = t.first + t.features * HIDDEN;
	t.second = t.first_bias + HIDDEN;
	t.second_bias = t.second + HIDDEN * t.classes;
	t.logits = t.second_bias + t.classes;
	t.means = t.logits + t.classes;
	t.squares = t.means + t.classes;
	draw(t.first, t.features * HIDDEN, 1 / sqrtf((float)t.features), &state);
	draw(t.first_bias, HIDDEN, 1, &state);
	draw(t.second, HIDDEN * t.classes, 1 / sqrtf(HIDDEN), &state);
	draw(t.second_bias, t.classes, 1, &state);
	*out = t;
	return TUTTI_OK;
}

static void teacher_ask(struct teacher *t, const float *x)
{
	float hidden[HIDDEN];

	memcpy(hidden, t->first_bias, sizeof(hidden));
	for (size_t i = 0; i < t->features; i++)
		for (size_t h = 0; h < HIDDEN; h++)
			hidden[h] += x[i] * t->first[i * HIDDEN + h];
	memcpy(t->logits, t->second_bias, t->classes * sizeof(*t->logits));
	for (size_t h = 0; h < HIDDEN; h++) {
		const float *weights = t->second + h * t->classes;
		const float open = hidden[h] > 0 ? hidden[h] : 0;

		for (size_t c = 0; c < t->classes; c++)
			t->logits[c] += open * weights[c];
	}
}

/* Give each logit mean 0 and variance 1 over some samples. Without this a few classes, with the
 * largest means and variances, would have most of the samples. */
static void teacher_balance(struct teacher *t, const float *x, size_t rows)
{
	for (size_t row = 0; row < rows; row++) {
		teacher_ask(t, x + row * t->features);
		for (size_t c = 0; c < t->classes; c++) {
			t->means[c] += t->logits[c] / (float)rows;
			t->squares[c] += t->logits[c] * t->logits[c] / (float)rows;
		}
	}
	for (size_t c = 0; c < t->classes; c++) {
		const float variance = t->squares[c] - t->means[c] * t->means[c];
		const float scale = variance > 1e-6f ? 1 / sqrtf(variance) : 1;

		for (size_t h = 0; h < HIDDEN; h++)
			t->second[h * t->classes + c] *= scale;
		t->second_bias[c] = (t->second_bias[c] - t->means[c]) * scale;
	}
}

static uint32_t teacher_answer(struct teacher *t, const float *x)
{
	uint32_t best = 0;

	teacher_ask(t, x);
	for (uint32_t c = 1; c < t->classes; c++)
		best = t->logits[c] > t->logits[best] ? c : best;
	return best;
}

/* The rows from `first` on. `measured` is for the teacher's. */
static void make(const struct synthetic *s, struct teacher *teacher, size_t first, float *measured,
		 struct data *data)
{
	const uint64_t state = random_stream(s->seed, FEATURES);
	const size_t balance = s->rows < MEASURED ? s->rows : MEASURED;

	draw_from(measured, 0, balance * s->features, state);
	teacher_balance(teacher, measured, balance);
	draw_from(data->x, first * s->features, data->rows * data->features, state);
	for (size_t row = 0; row < data->rows; row++)
		data->y[row] = teacher_answer(teacher, data->x + row * data->features);
}

static tutti_result_t check_size(const char *path, const struct synthetic *s, size_t rows,
				 size_t most, struct why *why)
{
	const size_t row = s->features * sizeof(float);

	if (rows <= most / row)
		return TUTTI_OK;
	return why_set(why, TUTTI_ERR_INVALID,
		       "%s: found %zu rows of %zu bytes, expected at most %zu bytes in all, which "
		       "are %zu rows; ask for fewer, or raise --data-limit if memory allows",
		       path, rows, row, most, most / row);
}

tutti_result_t synthetic_make(const char *path, struct data_part part, size_t most,
			      struct data *out, struct why *why)
{
	struct synthetic s;
	struct teacher teacher = { 0 };
	struct slice mine = { 0 };
	struct data data = { 0 };
	tutti_result_t result = synthetic_parse(path, &s, why);

	if (result == TUTTI_OK) {
		mine = slice_of(s.rows, part.index, part.count);
		result = check_size(path, &s, mine.count, most, why);
	}
	if (result == TUTTI_OK)
		result = teacher_create(&s, &teacher, why);
	if (result != TUTTI_OK)
		return result;
	data = (struct data){ .rows = mine.count, .features = s.features, .classes = s.classes };
	data.x = malloc(data.rows * data.features * sizeof(*data.x));
	data.y = malloc(data.rows * sizeof(*data.y));
	data.read = data.rows * data.features * sizeof(*data.x);
	data.origin = hash_word(hash_word(hash_word(s.rows, s.features), s.classes), s.seed);
	float *measured = malloc(MEASURED * data.features * sizeof(*measured));
	if (data.x && data.y && measured) {
		make(&s, &teacher, mine.first, measured, &data);
		*out = data;
	} else {
		data_finish(&data);
		result = why_no_memory(why, path);
	}
	free(measured);
	free(teacher.first);
	return result;
}
