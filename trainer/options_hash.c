/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: what of the options makes trainings the same. */
#include <string.h>

#include "bits.h"
#include "options.h"

static uint64_t hash_real(uint64_t hash, double value)
{
	return hash_bytes(hash, &value, sizeof(value));
}

/* With so many workers at the start. */
static uint64_t hash_async(const struct options *o, uint64_t hash, int workers)
{
	hash = hash_word(hash_word(hash, (uint64_t)workers), o->servers);
	return hash_word(hash_word(hash_word(hash, o->staleness), o->push_every), o->fetch_every);
}

uint64_t options_curve_hash(const struct options *o, size_t batch, int ranks)
{
	uint64_t hash = hash_word(o->seed, o->hidden_layers);

	for (unsigned i = 0; i < o->hidden_layers; i++)
		hash = hash_word(hash, o->hidden[i]);
	hash = hash_word(hash_word(hash, o->epochs), batch);
	hash = hash_real(hash_real(hash, o->rate), o->momentum);
	hash = hash_real(hash_real(hash, o->weight_decay), o->warmup);
	hash = hash_bytes(hash, o->optimizer->name, strlen(o->optimizer->name));
	hash = hash_real(hash_real(hash_real(hash, o->beta2), o->epsilon), o->trust);
	hash = hash_word(hash_word(hash, (uint64_t)o->schedule.course), o->schedule.every);
	hash = hash_word(hash_real(hash, o->schedule.factor), (uint64_t)o->scaling);
	hash = hash_real(hash_real(hash, o->source.test_fraction), o->clip);
	hash = hash_word(hash, o->numbers->gradients->dtype);
	if (o->sync == &sync_async || o->sync == &sync_replay)
		return hash_async(o, hash, ranks);
	if (o->sync != &sync_local ||
	    (o->every == 1 && o->outer.rate == 0 && o->clip == 0 && o->optimizer->linear))
		return hash; /* an average of each step is that of gradients */
	hash = hash_word(hash_word(hash, o->every), (uint64_t)ranks);
	hash = hash_real(hash_real(hash, o->outer.rate), o->outer.momentum);
	return hash_word(hash, (uint64_t)o->outer.nesterov + 1);
}

uint64_t options_hash(const struct options *o)
{
	uint64_t hash = options_curve_hash(o, o->batch, 1);

	hash = hash_word(hash_word(hash, o->batch_per_rank), o->accumulate);
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
