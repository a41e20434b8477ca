/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns --compress topk:F: of each bucket a rank sends the numbers of largest magnitude alone, with their
 * places (Stich et al. 2018, algorithm 1; Aji and Heafield 2017). */
#include "compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

/* As it travels. */
struct entry {
	uint32_t place; /* in its bucket */
	float value;
};

struct topk {
	uint32_t *magnitudes; /* owned, [largest bucket] */
	struct entry *all;    /* owned: what all ranks send of each bucket, one after the other */
	int ranks;	      /* that there is room for */
	size_t first[MODEL_LAYERS_MAX]; /* a bucket's in `all`, for one rank */
	size_t each;			/* entries of a rank, of all buckets */
	tutti_request_t request[MODEL_LAYERS_MAX];
};

/* One of each bucket at least. */
static size_t chosen(const struct training *t, const struct bucket *b)
{
	const size_t count = (size_t)ceil(t->options->compress.fraction * (double)b->count);

	return count < 1 ? 1 : count;
}

static tutti_result_t create(struct training *t, struct compressor *c, struct why *why)
{
	struct topk *own = calloc(1, sizeof(*own));
	size_t largest = 0;

	c->own = own;
	if (!own)
		return why_no_memory(why, "the largest gradients");
	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *b = &t->buckets.bucket[i];

		own->first[i] = own->each;
		own->each += chosen(t, b);
		largest = b->count > largest ? b->count : largest;
	}
	own->magnitudes = malloc(largest * sizeof(*own->magnitudes));
	return own->magnitudes ? TUTTI_OK : why_no_memory(why, "the largest gradients");
}

static void reset(struct training *t, struct compressor *c)
{
}

/* There may be other ranks than before. */
static tutti_result_t make_room(struct training *t, struct topk *own, struct why *why)
{
	const int ranks = t->grid.column->size;

	if (own->ranks == ranks)
		return TUTTI_OK;
	free(own->all);
	own->all = malloc(own->each * (size_t)ranks * sizeof(*own->all));
	own->ranks = own->all ? ranks : 0;
	return own->all ? TUTTI_OK : why_no_memory(why, "all ranks' largest gradients");
}

/* Of a bucket, what all ranks send. */
static struct entry *entries(const struct topk *own, unsigned bucket)
{
	return own->all + own->first[bucket] * (size_t)own->ranks;
}

static uint32_t magnitude(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits & 0x7fffffff; /* in the order of magnitudes; a NaN is above all */
}

static void swap(uint32_t *a, uint32_t *b)
{
	const uint32_t kept = *a;

	*a = *b;
	*b = kept;
}

/* The number that is at place `k` when the largest comes first. (Hoare 1961, algorithm 65) */
static uint32_t kth_largest(uint32_t *x, size_t count, size_t k)
{
	size_t low = 0, high = count - 1;

	while (low < high) {
		const uint32_t pivot = x[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;;) {
			while (x[i] > pivot)
				i++;
			while (x[j] < pivot)
				j--;
			if (i >= j)
				break;
			swap(&x[i++], &x[j--]);
		}
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return x[k];
}

/* Those above the threshold go, and of those that equal it as many as are missing, the first ones. What
 * goes is owed no longer. */
static void choose(const float *x, size_t count, uint32_t threshold, size_t above, size_t k,
		   struct entry *out, float *owed)
{
	size_t equal = k - above, n = 0;

	for (size_t i = 0; i < count; i++) {
		const uint32_t bits = magnitude(x[i]);
		const bool goes = bits > threshold || (bits == threshold && equal > 0);

		equal -= goes && bits == threshold;
		owed[i] = goes ? 0 : x[i];
		if (goes)
			out[n++] = (struct entry){ (uint32_t)i, x[i] };
	}
}

static tutti_result_t start_bucket(struct training *t, struct compressor *c, unsigned i,
				   struct why *why)
{
	struct topk *own = c->own;
	const struct bucket *b = &t->buckets.bucket[i];
	const size_t k = chosen(t, b);
	const float *x = compress_gradients(t, b->first);
	struct entry *out = entries(own, i) + k * (size_t)t->grid.column->rank;
	size_t above = 0;

	compress_add_owed(t, c, b->first, b->count);
	for (size_t n = 0; n < b->count; n++)
		own->magnitudes[n] = magnitude(x[n]);
	const uint32_t threshold = kth_largest(own->magnitudes, b->count, k - 1);
	for (size_t n = 0; n < b->count; n++)
		above += magnitude(x[n]) > threshold;
	choose(x, b->count, threshold, above, k, out, compress_owed(c, b->first));
	return team_start_gather_blocks(t->grid.column, entries(own, i), k * sizeof(*out),
					&own->request[i], why);
}

static tutti_result_t gradients(struct training *t, struct compressor *c, unsigned l,
				struct why *why)
{
	tutti_result_t result = make_room(t, c->own, why);

	if (result == TUTTI_OK && l == t->model.layers - 1)
		result = buckets_start_tail(&t->buckets, &t->model, t->grid.column, why);
	for (unsigned i = 0; i < t->buckets.count && result == TUTTI_OK; i++)
		if (t->buckets.bucket[i].last_layer == l)
			result = start_bucket(t, c, i, why);
	return result;
}

/* In the order of ranks on all of them, for the same bits. */
static void add_all(struct training *t, const struct topk *own, unsigned i)
{
	const struct bucket *b = &t->buckets.bucket[i];
	const size_t count = chosen(t, b) * (size_t)own->ranks;
	const struct entry *all = entries(own, i);
	float *x = compress_gradients(t, b->first);

	memset(x, 0, b->count * sizeof(*x));
	for (size_t n = 0; n < count; n++)
		if (all[n].place < b->count) /* a peer's word */
			x[all[n].place] += all[n].value;
}

static tutti_result_t finish(struct training *t, struct compressor *c, struct why *why)
{
	struct topk *own = c->own;
	tutti_result_t result = TUTTI_OK;

	for (unsigned i = 0; i < t->buckets.count && result == TUTTI_OK; i++) {
		result = team_wait(t->grid.column, &own->request[i], why);
		if (result == TUTTI_OK)
			add_all(t, own, i);
	}
	return result == TUTTI_OK ? buckets_wait_tail(&t->buckets, t->grid.column, why) : result;
}

static void drain(struct training *t, struct compressor *c)
{
	struct topk *own = c->own;

	for (unsigned i = 0; own && i < t->buckets.count; i++)
		tutti_wait(&own->request[i]);
	buckets_drain(&t->buckets);
}

static void free_own(struct training *t, struct compressor *c)
{
	struct topk *own = c->own;

	if (own) {
		free(own->magnitudes);
		free(own->all);
	}
	free(own);
}

const struct compression compress_topk = {
	.name = "topk",
	.create = create,
	.reset = reset,
	.gradients = gradients,
	.finish = finish,
	.drain = drain,
	.free = free_own,
};
