/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: what of the options makes trainings the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "options.h"

enum { TEXT = 128 };

static const char *hidden_text(const struct options *o, char text[TEXT])
{
	size_t used = 0;

	for (unsigned i = 0; i < o->hidden_layers; i++)
		used += (size_t)snprintf(text + used, TEXT - used, "%s%zu", i ? "," : "",
					 o->hidden[i]);
	return o->hidden_layers ? text : "none";
}

static const char *schedule_text(const struct rate_schedule *s, char text[TEXT])
{
	snprintf(text, TEXT, "step:%u:%.15g", s->every, s->factor);
	return s->course == RATE_COSINE ? "cosine" : s->course == RATE_STEP ? text : "constant";
}

static const char *outer_text(const struct outer *outer, char text[TEXT])
{
	snprintf(text, TEXT, "%s,%.15g,%.15g", outer->nesterov ? "nesterov" : "sgd", outer->rate,
		 outer->momentum);
	return outer->rate > 0 ? text : "none";
}

/* Where ranks step alone, and where updates are parts of a batch, how many there are counts, too. */
static void add_way(json_t *all, const struct options *o, int ranks)
{
	char text[TEXT];

	if (o->sync == &sync_async)
		json_object_update_new(
			all, json_pack("{s:s,s:i,s:i,s:o}", "sync", "async", "ranks", ranks, "servers",
				       (int)o->servers, "staleness",
				       options_bounded(o) ? json_integer((json_int_t)o->staleness)
							  : json_string("any")));
	else if (o->sync == &sync_local &&
		 !(o->every == 1 && o->outer.rate == 0 && o->clip == 0 && o->optimizer->linear))
		json_object_update_new(all, json_pack("{s:s,s:I,s:s,s:i}", "sync", "local", "every",
						      (json_int_t)o->every, "outer",
						      outer_text(&o->outer, text), "ranks", ranks));
}

json_t *options_curve(const struct options *o, size_t batch, int ranks)
{
	static const char *const scalings[] = { "linear", "sqrt", "none" };
	char hidden[TEXT], schedule[TEXT];
	json_t *all = json_pack(
		"{s:I,s:s,s:s,s:I,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:s,s:s,s:f,s:f,s:s}", "seed",
		(json_int_t)o->seed, "hidden", hidden_text(o, hidden), "dtype", o->numbers->name,
		"batch", (json_int_t)batch, "optimizer", o->optimizer->name, "lr", o->rate,
		"momentum", o->momentum, "beta2", o->beta2, "epsilon", o->epsilon, "trust",
		o->trust, "weight-decay", o->weight_decay, "clip", o->clip, "lr-scaling",
		scalings[o->scaling], "schedule", schedule_text(&o->schedule, schedule), "warmup",
		o->warmup < o->epochs ? o->warmup : o->epochs, "test-fraction",
		o->source.test_fraction, "sync", "allreduce, zero1 or ps");

	if (all && o->schedule.course == RATE_COSINE) /* else the rate is that of a longer one */
		json_object_set_new(all, "epochs", json_integer(o->epochs));
	if (all)
		add_way(all, o, ranks);
	return all;
}

/* As it is said on the command line. */
static const char *value_text(const json_t *value, char text[TEXT])
{
	if (json_is_integer(value))
		snprintf(text, TEXT, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, TEXT, "%.15g", json_real_value(value));
	else
		snprintf(text, TEXT, "%s",
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
	char was[TEXT], is[TEXT];

	name = name ? name : first_difference(then, now);
	if (!name)
		return false;
	snprintf(text, size, "%s%s %s, expected %s as now", strcmp(name, "ranks") ? "--" : "", name,
		 value_text(json_object_get(then, name), was),
		 value_text(json_object_get(now, name), is));
	return true;
}

uint64_t options_hash(const struct options *o)
{
	json_t *curve = options_curve(o, o->batch, 1);
	char *text = json_dumps(curve, JSON_COMPACT | JSON_SORT_KEYS);
	uint64_t hash = text ? hash_bytes(0, text, strlen(text)) : 0;

	free(text);
	json_decref(curve);

	hash = hash_word(hash_word(hash, o->epochs), o->accumulate);
	hash = hash_word(hash, o->batch_per_rank);
	hash = hash_bytes(hash_word(hash, o->bucket_bytes), o->sync->name, strlen(o->sync->name));
	hash = hash_word(hash_word(hash_word(hash, o->save != NULL), o->every_epochs), o->servers);
	hash = hash_word(hash_word(hash, o->resume), o->predict != NULL);
	hash = hash_word(hash_word(hash, o->parallel.pipeline), o->parallel.stages);
	hash = hash_word(hash_word(hash, o->parallel.tensor), o->parallel.ways);
	hash = hash_word(hash_word(hash_word(hash, o->parallel.data), o->micro),
			 (uint64_t)o->order);
	hash = hash_word(hash_word(hash, (uint64_t)o->shares.count),
			 (uint64_t)o->shares.by_themselves);
	hash = hash_bytes(hash, o->shares.of, (size_t)o->shares.count * sizeof(o->shares.of[0]));
	hash = hash_word(hash, o->shard);
	return hash_word(hash_word(hash_word(hash, o->verify), (uint64_t)o->device),
			 o->source.classes);
}
