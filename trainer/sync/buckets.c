/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the requests of gradients in flight. Ranks start the same buckets in the same order. */
#include "buckets.h"

void buckets_init(struct buckets *buckets, const struct model *model, size_t bytes)
{
	const struct numbers *numbers = model->numbers;
	struct bucket *open = NULL;

	*buckets = (struct buckets){ .apart = numbers->sums != numbers->gradients };
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

struct bucket *buckets_find(struct buckets *buckets, unsigned l)
{
	struct bucket *bucket = buckets->bucket;

	while (bucket->last_layer > l)
		bucket++;
	return bucket;
}

bool buckets_layer_ready(struct buckets *buckets, const struct model *model, unsigned layer,
			 struct team *team)
{
	struct bucket *bucket = buckets_find(buckets, layer);
	const struct numbers *numbers = model->numbers, *gradients = numbers->gradients;
	void *first = numbers_at(gradients, model->gradients, bucket->first);

	/* the shortest message goes first: what is behind it hides it */
	if (buckets->apart && layer == model->layers - 1 &&
	    !team_start_sum(team, numbers->sums, model_sums(model), SUMS_NUMBERS,
			    &buckets->apart_request))
		return false;
	if (bucket->last_layer != layer)
		return true;
	if (bucket->counts)
		return team_start_scatter_sum(team, gradients, first, bucket->counts,
					      &bucket->request);
	return team_start_sum(team, gradients, first,
			      bucket->count + (layer == 0 && !buckets->apart ? SUMS_NUMBERS : 0),
			      &bucket->request);
}

bool buckets_wait(struct buckets *buckets, unsigned i, struct team *team)
{
	return team_wait(team, &buckets->bucket[i].request) &&
	       (i != buckets->count - 1 || team_wait(team, &buckets->apart_request));
}

bool buckets_wait_all(struct buckets *buckets, struct team *team)
{
	for (unsigned i = 0; i < buckets->count; i++)
		if (!buckets_wait(buckets, i, team))
			return false;
	return true;
}

void buckets_drain(struct buckets *buckets)
{
	for (unsigned i = 0; i < buckets->count; i++)
		tutti_wait(&buckets->bucket[i].request);
	tutti_wait(&buckets->apart_request);
}
