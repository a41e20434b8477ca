/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: what of the options makes trainings the same, by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "options_table.h"

enum { VALUE_TEXT = 4096 };

/* A text that was read, but for how its numbers are written: 2 and 02, .5 and 0.5 are alike. */
static json_t *said_json(const char *text)
{
	char out[VALUE_TEXT] = "", *end;

	for (size_t used = 0; *text && used < sizeof(out) - 1;)
		if (strchr("0123456789.", *text)) {
			used += (size_t)snprintf(out + used, sizeof(out) - used, "%.15g",
						 strtod(text, &end));
			text = end;
		} else {
			out[used++] = *text++;
		}
	return json_string(out);
}

/* No option means a number that is not in its range: that is what it has where it was not given. */
static json_t *number_json(const struct spec *spec, json_t *number)
{
	const double value = json_number_value(number);

	if (value >= spec->low && value <= spec->high)
		return number;
	json_decref(number);
	return json_null();
}

/* Null: it was not given, and has no value then. */
static json_t *value_json(const struct spec *spec, const struct options *o)
{
	const void *at = (const char *)o + spec->offset;
	const char *given = o->said[spec - options_table], *said = given ? given : spec->usual;

	switch (spec->kind) {
	case FLAG:
	case TEXT: return json_boolean(said != NULL); /* each rank may have its own */
	case COUNT: return number_json(spec, json_integer(*(const unsigned *)at));
	case SIZE:
	case BYTES: return number_json(spec, json_integer((json_int_t) * (const size_t *)at));
	case REAL: return number_json(spec, json_real(*(const double *)at));
	case WORD: return json_string(spec->choices[*(const int *)at]);
	case NAMED: return json_string(**(const char *const *const *)at);
	case OTHER: break;
	}
	return said ? said_json(said) : json_null();
}

/* To `all`, those that have one of these in their scope. */
static json_t *add_options(const struct options *o, unsigned scope, json_t *all)
{
	for (size_t i = 0; i < options_count; i++)
		if (options_table[i].scope & scope)
			json_object_set_new(all, options_table[i].name,
					    value_json(&options_table[i], o));
	return all;
}

json_t *options_curve(const struct options *o, size_t batch, int ranks)
{
	const bool async = o->sync == &sync_async,
		   same = o->every == 1 && o->outer.rate == 0 && o->clip == 0 &&
			  o->optimizer->linear,
		   local = o->sync == &sync_local && !same;
	const unsigned scope = CURVE | (o->schedule.course == RATE_COSINE ? LENGTH : 0) |
			       (local ? LOCAL : 0) | (async ? ASYNC : 0);
	/* first of all: other options follow from it */
	json_t *all = json_pack("{s:I}", "batch", (json_int_t)batch);

	add_options(o, scope & ~(unsigned)RANKS, all);
	json_object_set_new(all, "warmup", json_real(fmin(o->warmup, o->epochs)));
	if (local || async) /* how many there are counts, too */
		json_object_set_new(all, "ranks", json_integer(ranks));
	else
		json_object_set_new(all, "sync", json_string("allreduce, zero1 or ps"));
	return all;
}

/* As it is said on the command line. */
static const char *value_text(const json_t *value, char text[VALUE_TEXT])
{
	if (json_is_integer(value))
		snprintf(text, VALUE_TEXT, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, VALUE_TEXT, "%.15g", json_real_value(value));
	else
		snprintf(text, VALUE_TEXT, "%s",
			 json_is_string(value) ? json_string_value(value) : "none");
	return text;
}

bool options_differ(json_t *then, json_t *now, char *text, size_t size)
{
	char was[VALUE_TEXT], is[VALUE_TEXT];
	const char *name;
	json_t *value;

	/* what one of them lacks comes last: it follows from another that differs */
	for (int i = 0; i < 3; i++)
		json_object_foreach(i < 2 ? now : then, name, value) {
			const json_t *before = json_object_get(then, name);
			const bool given = before && !json_is_null(before);

			value_text(before, was);
			if ((i == 0 && !before) ||
			    strcmp(was, value_text(json_object_get(now, name), is)) == 0)
				continue;
			snprintf(text, size, "%s%s%s%s%.128s, expected %.128s as now",
				 given ? "" : "no ", strcmp(name, "ranks") ? "--" : "", name,
				 given ? " " : "", given ? was : "", is);
			return true;
		}
	return false;
}

uint64_t options_hash(const struct options *o)
{
	json_t *all = add_options(o, RANKS, json_object());
	char *text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	const uint64_t hash = text ? hash_bytes(0, text, strlen(text)) : 0;

	free(text);
	json_decref(all);
	return hash;
}
