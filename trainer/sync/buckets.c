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

static tutti_result_t start_tail(struct buckets *buckets, const struct model *model,
				 struct team *team, struct why *why)
{
	const struct numbers *numbers = model->numbers;

	return team_start_sum(team, numbers->sums,
			      (char *)model->gradients +
				      numbers_sums_offset(numbers, model->parameters),
			      buckets->apart, &buckets->apart_request, why);
}

static tutti_result_t start(const struct model *model, struct bucket *bucket, size_t count,
			    struct team *team, struct why *why)
{
	const struct numbers *numbers = model->numbers->gradients;

	return team_start_sum(team, numbers, numbers_at(numbers, model->gradients, bucket->first),
			      count, &bucket->request, why);
}

tutti_result_t buckets_layer_ready(struct buckets *buckets, const struct model *model,
				   unsigned layer, struct team *team, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	/* the shortest message goes first: what is behind it hides it */
	if (buckets->apart > 0 && layer == model->layers - 1)
		result = start_tail(buckets, model, team, why);
	if (result != TUTTI_OK)
		return result;
	for (unsigned i = 0; i < buckets->count; i++) {
		struct bucket *bucket = &buckets->bucket[i];

		if (bucket->last_layer == layer)
			return start(model, bucket,
				     bucket->count + (layer == 0 ? buckets->tail : 0), team, why);
	}
	return TUTTI_OK;
}

tutti_result_t buckets_wait(struct buckets *buckets, unsigned i, struct team *team, struct why *why)
{
	const tutti_result_t result = team_wait(team, &buckets->bucket[i].request, why);

	return result == TUTTI_OK && i == buckets->count - 1
		       ? team_wait(team, &buckets->apart_request, why)
		       : result;
}

tutti_result_t buckets_wait_all(struct buckets *buckets, struct team *team, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (unsigned i = 0; i < buckets->count && result == TUTTI_OK; i++)
		result = buckets_wait(buckets, i, team, why);
	return result;
}

void buckets_drain(struct buckets *buckets)
{
	for (unsigned i = 0; i < buckets->count; i++)
		tutti_wait(&buckets->bucket[i].request);
	tutti_wait(&buckets->apart_request);
}
