/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the requests of gradients in flight. Ranks start the same buckets in the same order. */
#include "buckets.h"

void buckets_init(struct buckets *buckets, const struct model *model, size_t bytes, size_t tail)
{
	struct bucket *open = NULL;

	*buckets = (struct buckets){ .tail = tail };
	for (unsigned l = model->layers; l-- > 0;) {
		const struct layer *layer = &model->layer[l];

		if (!open) {
			open = &buckets->bucket[buckets->count++];
			open->first = layer->offset;
		}
		open->count += layer->count;
		open->last_layer = l;
		if (open->count * model->numbers->size >= bytes)
			open = NULL;
	}
}

tutti_result_t buckets_layer_ready(struct buckets *buckets, const struct model *model,
				   unsigned layer, struct team *team, struct why *why)
{
	for (unsigned i = 0; i < buckets->count; i++) {
		struct bucket *bucket = &buckets->bucket[i];

		if (bucket->last_layer == layer)
			return team_start_sum(
				team, model->numbers,
				numbers_at(model->numbers, model->gradients, bucket->first),
				bucket->count + (layer == 0 ? buckets->tail : 0), &bucket->request,
				why);
	}
	return TUTTI_OK;
}

tutti_result_t buckets_wait(struct buckets *buckets, unsigned i, struct team *team, struct why *why)
{
	return team_wait(team, &buckets->bucket[i].request, why);
}

void buckets_drain(struct buckets *buckets)
{
	for (unsigned i = 0; i < buckets->count; i++)
		tutti_wait(&buckets->bucket[i].request);
}
