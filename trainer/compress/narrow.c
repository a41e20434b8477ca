/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns --compress bf16, fp16, fp8 and int8: all-reduces whose elements travel in that format. */
#include "compress.h"

#include "train.h"

static tutti_result_t create(struct training *t, struct compressor *c, struct why *why)
{
	return TUTTI_OK;
}

static void reset(struct training *t, struct compressor *c)
{
}

/* The library rounds the input likewise. One rank alone sends nothing, and owes nothing. */
static tutti_result_t round_bucket(struct training *t, struct compressor *c, const struct bucket *b,
				   struct why *why)
{
	float *gradients = compress_gradients(t, b->first), *owed = compress_owed(c, b->first);

	if (t->grid.column->size == 1)
		return TUTTI_OK;
	compress_add_owed(t, c, b->first, b->count);
	const tutti_result_t result =
		tutti_wire_round(t->options->compress.wire, gradients, owed, b->count);
	if (result != TUTTI_OK)
		return why_set(why, result, "%s", tutti_last_error(NULL));
	for (size_t i = 0; i < b->count; i++)
		owed[i] = gradients[i] - owed[i];
	return TUTTI_OK;
}

static tutti_result_t gradients(struct training *t, struct compressor *c, unsigned l,
				struct why *why)
{
	for (unsigned i = 0; i < t->buckets.count; i++)
		if (t->buckets.bucket[i].last_layer == l) {
			const tutti_result_t result =
				round_bucket(t, c, &t->buckets.bucket[i], why);

			if (result != TUTTI_OK)
				return result;
		}
	return buckets_layer_ready(&t->buckets, &t->model, l, t->grid.column, why);
}

static tutti_result_t finish(struct training *t, struct compressor *c, struct why *why)
{
	return buckets_wait_all(&t->buckets, t->grid.column, why);
}

static void drain(struct training *t, struct compressor *c)
{
	buckets_drain(&t->buckets);
}

static void free_nothing(struct training *t, struct compressor *c)
{
}

const struct compression compress_narrow = {
	.create = create,
	.reset = reset,
	.gradients = gradients,
	.finish = finish,
	.drain = drain,
	.free = free_nothing,
};
