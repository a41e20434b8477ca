/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the requests of gradients in flight. Ranks start the same buckets in the same order. */
#include "buckets.h"

void buckets_init(struct buckets *buckets, const struct model *model, size_t bytes, size_t tail)
{
	const struct numbers *numbers = model->numbers;
	const bool alike = numbers->sums == numbers->gradients;
	struct bucket *open = NULL;

	*buckets = (struct buckets){ .tail = alike ? tail : 0, .apart = alike ? 0 : tail };
	for (unsigned l = model->layers; l-- > 0;) {
		const struct layer *layer = &model->layer[l];

		if (!open) {
			open = &buckets->bucket[buckets->count++];
			open->first = layer->offset;
		}
		open->count += layer->count;
		open->last_layer = l;
		if (open->count * numbers->gradients->size >= bytes)
			open = NULL;
	}
}

static bool start_tail(struct buckets *buckets, const struct model *model, struct team *team)
{
	const struct numbers *numbers = model->numbers;

	return team_start_sum(team, numbers->sums,
			      (char *)model->gradients +
				      numbers_sums_offset(numbers, model->parameters),
			      buckets->apart, &buckets->apart_request);
}

static bool start(const struct model *model, struct bucket *bucket, size_t count, struct team *team)
{
	const struct numbers *numbers = model->numbers->gradients;

	return team_start_sum(team, numbers, numbers_at(numbers, model->gradients, bucket->first),
			      count, &bucket->request);
}

bool buckets_layer_ready(struct buckets *buckets, const struct model *model, unsigned layer,
			 struct team *team)
{
	bool ok = true;

	/* the shortest message goes first: what is behind it hides it */
	if (buckets->apart > 0 && layer == model->layers - 1)
		ok = start_tail(buckets, model, team);
	if (!ok)
		return false;
	for (unsigned i = 0; i < buckets->count; i++) {
		struct bucket *bucket = &buckets->bucket[i];

		if (bucket->last_layer == layer)
			return start(model, bucket,
				     bucket->count + (layer == 0 ? buckets->tail : 0), team);
	}
	return true;
}

bool buckets_wait(struct buckets *buckets, unsigned i, struct team *team)
{
	return team_wait(team, &buckets->bucket[i].request) &&
	       (i != buckets->count - 1 || team_wait(team, &buckets->apart_request));
}

bool buckets_wait_all(struct buckets *buckets, struct team *team)
{
	bool ok = true;

	for (unsigned i = 0; i < buckets->count && ok; i++)
		ok = buckets_wait(buckets, i, team);
	return ok;
}

void buckets_drain(struct buckets *buckets)
{
	for (unsigned i = 0; i < buckets->count; i++)
		tutti_wait(&buckets->bucket[i].request);
	tutti_wait(&buckets->apart_request);
}
