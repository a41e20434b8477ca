/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: what of the options makes trainings the same, by name. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "options_table.h"

enum { VALUE_TEXT = 128 };

static json_t *text_json(const char *text)
{
	return json_string(text ? text : "none");
}

/* What is not compared as it was said: 2 and 02, .5 and 0.5 are alike. */
static json_t *numbers_json(const char *text)
{
	char out[4096] = "";
	size_t used = 0;

	while (text && *text && used < sizeof(out)) {
		const size_t length = strcspn(text, ",:=");
		char piece[64], *end = piece;
		double value = 0;

		snprintf(piece, sizeof(piece), "%.*s", (int)length, text);
		if (*piece && piece[strspn(piece, "0123456789")] == '\0')
			snprintf(piece, sizeof(piece), "%llu", strtoull(text, NULL, 10));
		else
			value = strtod(piece, &end);
		if (end != piece && *end == '\0')
			snprintf(piece, sizeof(piece), "%.15g", value);
		used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%.*s", piece,
					 text[length] != '\0', text + length);
		text += length + (text[length] != '\0');
	}
	return text_json(text ? out : NULL);
}

static json_t *value_json(const struct spec *spec, const struct options *o)
{
	const void *at = option_value(spec, o);

	switch (spec->kind) {
	case FLAG: return json_boolean(*(const bool *)at);
	case TEXT:
		return json_boolean(*(const char *const *)at !=
				    NULL); /* each rank may have its own */
	case COUNT: return json_integer(*(const unsigned *)at);
	case SIZE:
	case BYTES:
		return *(const size_t *)at == SIZE_MAX
			       ? json_string("any")
			       : json_integer((json_int_t) * (const size_t *)at);
	case REAL: return json_real(*(const double *)at);
	case WORD: return text_json(spec->words[*(const int *)at]);
	case NAMED: return text_json(option_name_of(*(const void *const *)at));
	case DIGITS:
	case NUMBER:
	case OTHER: break;
	}
	return numbers_json(*(const char *const *)at);
}

/* Those that have to be as much alike as that. */
static json_t *options_json(const struct options *o, enum scope least)
{
	json_t *all = json_object();

	for (size_t i = 0; i < options_count; i++)
		if (options_table[i].name && options_table[i].alike >= least)
			json_object_set_new(all, options_table[i].name,
					    value_json(&options_table[i], o));
	return all;
}

/* One that counts for this training, and not for each. */
static void add(json_t *all, const char *name, const struct options *o)
{
	for (size_t i = 0; i < options_count; i++)
		if (options_table[i].name && strcmp(options_table[i].name, name) == 0)
			json_object_set_new(all, name, value_json(&options_table[i], o));
}

/* Where ranks step alone, and where updates are parts of a batch, how many there are counts, too. */
static void add_way(json_t *all, const struct options *o, int ranks)
{
	const bool async = o->sync == &sync_async;

	if (!async && (o->sync != &sync_local || (o->every == 1 && o->outer.rate == 0 &&
						  o->clip == 0 && o->optimizer->linear))) {
		json_object_set_new(all, "sync", json_string("allreduce, zero1 or ps"));
		return;
	}
	add(all, "sync", o);
	add(all, async ? "servers" : "every", o);
	add(all, async ? "staleness" : "outer", o);
	if (!async) /* they are how long a rank's own steps are */
		add(all, "shares", o);
	json_object_set_new(all, "ranks", json_integer(ranks));
}

json_t *options_curve(const struct options *o, size_t batch, int ranks)
{
	json_t *all = options_json(o, CURVE);

	json_object_set_new(all, "batch", json_integer((json_int_t)batch));
	json_object_set_new(all, "warmup",
			    json_real(o->warmup < o->epochs ? o->warmup : o->epochs));
	if (o->schedule.course == RATE_COSINE) /* else the rate is that of a longer one */
		add(all, "epochs", o);
	add_way(all, o, ranks);
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

/* The first that is not the same in both; NULL: there is none. */
static const char *first_difference(json_t *a, json_t *b)
{
	const char *name;
	json_t *value;

	json_object_foreach(a, name,
			    value) if (!json_equal(value, json_object_get(b, name))) return name;
	return NULL;
}

bool options_differ(json_t *then, json_t *now, char *text, size_t size)
{
	const char *name = first_difference(now, then);
	char was[VALUE_TEXT], is[VALUE_TEXT];

	name = name ? name : first_difference(then, now);
	if (!name)
		return false;
	snprintf(text, size, "%s%s %s, expected %s as now", strcmp(name, "ranks") ? "--" : "", name,
		 value_text(json_object_get(then, name), was),
		 value_text(json_object_get(now, name), is));
	return true;
}

static uint64_t hash_of(json_t *all)
{
	char *text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	const uint64_t hash = text ? hash_bytes(0, text, strlen(text)) : 0;

	free(text);
	json_decref(all);
	return hash;
}

uint64_t options_hash(const struct options *o)
{
	return hash_of(options_json(o, RANKS));
}
