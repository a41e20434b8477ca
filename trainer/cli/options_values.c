/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the texts of options: each function says whether the text is one, and what it means. Owns
 * nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "options_table.h"
#include "picture.h"

static bool is_real(const char *text, double low, double high, const char **rest, double *value)
{
	char *end;

	*value = strtod(text, &end);
	*rest = end;
	return end != text && *value >= low && *value <= high;
}

/* A number at the start of `text`. strtoull() alone would take "-1" for the largest. */
static bool is_whole(const char *text, uint64_t low, uint64_t high, const char **rest,
		     uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	*rest = end;
	return errno == 0 && *value >= low && *value <= high;
}

static bool read_real(const struct spec *spec, const char *text, double *to)
{
	const char *rest;

	return is_real(text, spec->low, spec->high, &rest, to) && *rest == '\0';
}

static bool read_whole(const char *text, double low, double high, uint64_t *to)
{
	const char *rest;

	return is_whole(text, (uint64_t)low, (uint64_t)high, &rest, to) && *rest == '\0';
}

static bool read_bytes(const struct spec *spec, const char *text, size_t *to)
{
	const uint64_t most = (uint64_t)spec->high;
	const char *rest;
	uint64_t number;

	if (!is_whole(text, 1, most, &rest, &number))
		return false;
	const unsigned shift = *rest == 'K' ? 10 : *rest == 'M' ? 20 : *rest == 'G' ? 30 : 0;

	*to = (size_t)(number << shift);
	return rest[shift != 0] == '\0' && number <= most >> shift;
}

bool read_hidden(const char *text, struct options *o)
{
	const char *at = text;

	o->hidden_layers = 0;
	if (strcmp(text, "none") == 0)
		return true;
	for (;; at++) {
		uint64_t width;

		if (o->hidden_layers == MODEL_LAYERS_MAX - 1 ||
		    !is_whole(at, 1, 65536, &at, &width))
			return false;
		o->hidden[o->hidden_layers++] = (size_t)width;
		if (*at != ',')
			return *at == '\0';
	}
}

bool read_batch(const char *text, struct options *o)
{
	uint64_t number = 0;
	const bool is = strcmp(text, "all") == 0 || read_whole(text, 1, 1 << 24, &number);

	o->batch = (size_t)number;
	return is;
}

bool read_seed(const char *text, struct options *o)
{
	const char *rest;

	return is_whole(text, 0, INT64_MAX, &rest, &o->seed) && *rest == '\0';
}

bool read_schedule(const char *text, struct options *o)
{
	uint64_t every = 0;
	const char *at;

	o->schedule = (struct rate_schedule){ RATE_CONSTANT };
	if (strcmp(text, "constant") == 0)
		return true;
	o->schedule.course = RATE_COSINE;
	if (strcmp(text, "cosine") == 0)
		return true;
	if (strncmp(text, "step:", 5) != 0 || !is_whole(text + 5, 1, 100000, &at, &every) ||
	    *at != ':')
		return false;
	o->schedule.course = RATE_STEP;
	o->schedule.every = (unsigned)every;
	return is_real(at + 1, 1e-6, 1, &at, &o->schedule.factor) && *at == '\0';
}

bool read_outer(const char *text, struct options *o)
{
	const bool sgd = strncmp(text, "sgd,", 4) == 0;
	struct outer outer = { .nesterov = strncmp(text, "nesterov,", 9) == 0 };
	const char *at = text + (sgd ? 4 : 9);

	if ((!sgd && !outer.nesterov) || !is_real(at, 0, 1e6, &at, &outer.rate) || outer.rate == 0)
		return false;
	if (*at == ',' ? !is_real(at + 1, 0, BELOW_ONE, &at, &outer.momentum) : outer.nesterov)
		return false;
	o->outer = outer;
	return *at == '\0';
}

/* NAME=N, or NAME alone; false: it is another axis, was there before, or is wrong. */
static bool axis(const char *text, const char *name, bool *there, unsigned *count,
		 const char **rest)
{
	const size_t length = strlen(name);
	const char *at = text + length;
	uint64_t number = 0;

	if (*there || strncmp(text, name, length) != 0 ||
	    (*at == '=' && !is_whole(at + 1, 1, 1024, &at, &number)) || (*at != '\0' && *at != ','))
		return false;
	*there = true;
	*count = (unsigned)number;
	*rest = at;
	return true;
}

bool read_parallel(const char *text, struct options *o)
{
	struct parallel p = { 0 };
	bool data = false;
	const char *at = text;

	while (axis(at, "data", &data, &p.data, &at) ||
	       axis(at, "pipeline", &p.pipeline, &p.stages, &at) ||
	       axis(at, "tensor", &p.tensor, &p.ways, &at))
		if (*at++ == '\0')
			break;
	o->parallel = p;
	return at != text && at[-1] == '\0' && !(data && p.data == 0) && (p.pipeline || p.tensor) &&
	       !(p.pipeline && p.tensor && p.stages == 0 && p.ways == 0);
}

bool read_shares(const char *text, struct options *o)
{
	struct share_options *shares = &o->shares;
	const char *at = text;

	shares->count = 0;
	shares->by_themselves = strcmp(text, "auto") == 0;
	if (shares->by_themselves)
		return true;
	for (;; at++) {
		if (shares->count == SHARES_MAX ||
		    !is_real(at, 1e-3, 1e3, &at, &shares->of[shares->count++]))
			return false;
		if (*at != ',')
			return *at == '\0';
	}
}

bool read_slow(const char *text, struct options *o)
{
	struct share_options *shares = &o->shares;
	uint64_t rank, epoch = 1;
	double factor;
	const char *at;

	if (shares->slow_count == SLOW_MAX || !is_whole(text, 0, 1000000, &at, &rank) ||
	    *at != ':' || !is_real(at + 1, 1, 1000, &at, &factor) ||
	    (*at == ':' && !is_whole(at + 1, 1, 100000, &at, &epoch)))
		return false;
	shares->slow[shares->slow_count].rank = (int)rank;
	shares->slow[shares->slow_count].factor = factor;
	shares->slow[shares->slow_count++].epoch = (unsigned)epoch;
	return *at == '\0';
}

bool read_plot(const char *text, struct options *o)
{
	if (!picture_named(text) || o->plot_count == OPTIONS_PLOTS_MAX)
		return false;
	o->plots[o->plot_count++] = text;
	return true;
}

/* ---- of each kind */

static bool read_number(const struct spec *spec, const char *text, void *to)
{
	uint64_t number;

	if (!read_whole(text, spec->low, spec->high, &number))
		return false;
	if (spec->kind == COUNT)
		*(unsigned *)to = (unsigned)number;
	else
		*(size_t *)to = (size_t)number;
	return true;
}

static bool read_word(const struct spec *spec, const char *text, int *to)
{
	for (*to = 0; spec->words[*to]; ++*to)
		if (strcmp(text, spec->words[*to]) == 0)
			return true;
	return false;
}

static bool read_named(const struct spec *spec, const char *text, void *to)
{
	for (const void *const *one = spec->named; *one; one++)
		if (strcmp(text, option_name_of(*one)) == 0) {
			memcpy(to, one, sizeof(*one));
			return true;
		}
	return false;
}

static bool read_one(const struct spec *spec, const char *text, struct options *options)
{
	void *to = (char *)options + spec->offset;

	switch (spec->kind) {
	case FLAG: return *(bool *)to = true;
	case TEXT: *(const char **)to = text; return *text != '\0';
	case DIGITS:
		*(const char **)to = text;
		return read_whole(text, spec->low, spec->high, &(uint64_t){ 0 });
	case NUMBER: *(const char **)to = text; return read_real(spec, text, &(double){ 0 });
	case COUNT:
	case SIZE: return read_number(spec, text, to);
	case BYTES: return read_bytes(spec, text, to);
	case REAL: return read_real(spec, text, to);
	case WORD: return read_word(spec, text, to);
	case NAMED: return read_named(spec, text, to);
	case OTHER: *(const char **)to = text; break;
	}
	return spec->read(text, options);
}

/* " (did you mean WORD?)" or "" */
static const char *hint_at(const struct spec *spec, const char *text, char hint[TT_NEAREST_HINT])
{
	struct tt_nearest nearest = tt_nearest_to(text, strlen(text));

	for (int i = 0; spec->words && spec->words[i]; i++)
		tt_nearest_offer(&nearest, spec->words[i]);
	for (int i = 0; spec->named && spec->named[i]; i++)
		tt_nearest_offer(&nearest, option_name_of(spec->named[i]));
	return tt_nearest_hint(&nearest, hint);
}

bool option_read(const struct spec *spec, const char *text, struct options *options)
{
	char hint[TT_NEAREST_HINT];

	return read_one(spec, text, options) ||
	       why_set(TUTTI_ERR_INVALID, "--%s: found '%s'%s, expected %s; see --help", spec->name,
		       text, hint_at(spec, text, hint),
		       spec->expected ? spec->expected : spec->value);
}
