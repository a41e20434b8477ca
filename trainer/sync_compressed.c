/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns synchronous data parallelism by compressed gradients (--compress): each step all ranks have about
 * the sum, the same bits, and make the same update. What the methods are is in compress/. */
#include "sync.h"

#include <stdlib.h>
#include <string.h>

#include "compress/compress.h"
#include "train.h"

float *compress_gradients(const struct training *t, size_t first)
{
	return (float *)t->gradients + first;
}

float *compress_owed(const struct compressor *c, size_t first)
{
	return c->owed + first;
}

void compress_add_owed(const struct training *t, const struct compressor *c, size_t first,
		       size_t count)
{
	float *gradients = compress_gradients(t, first);

	for (size_t i = 0; i < count; i++)
		gradients[i] += c->owed[first + i];
}

static struct compressor *compressor(const struct training *t)
{
	return t->way;
}

static const struct compression *method(const struct training *t)
{
	return t->options->compress.how;
}

static tutti_result_t create(struct training *t, struct why *why)
{
	struct compressor *c = calloc(1, sizeof(*c));

	t->way = c;
	if (c)
		c->owed = calloc(t->model.parameters, sizeof(*c->owed));
	return c && c->owed ? method(t)->create(t, c, why)
			    : why_no_memory(why, "gradients that are owed");
}

/* Ranks that were lost took with them what they owed; the others forget what they owe, as they go back to
 * a state of which it is not known. */
static tutti_result_t begin(struct training *t, struct why *why)
{
	memset(compressor(t)->owed, 0, t->model.parameters * sizeof(float));
	method(t)->reset(t, compressor(t));
	t->model.weights = state_now(&t->state, 0).weights;
	return TUTTI_OK;
}

static tutti_result_t gradients(struct training *t, unsigned l, struct why *why)
{
	return method(t)->gradients(t, compressor(t), l, why);
}

static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	tutti_result_t result = method(t)->finish(t, compressor(t), why);

	if (result == TUTTI_OK && t->options->clip > 0)
		result = sync_clip(t, why);
	if (result == TUTTI_OK)
		result = sync_update_all(t, why);
	if (result == TUTTI_OK)
		sync_advance(t, step);
	return result;
}

static void drain(struct training *t)
{
	if (compressor(t))
		method(t)->drain(t, compressor(t));
}

static void finish(struct training *t)
{
	struct compressor *c = compressor(t);

	if (!c)
		return;
	method(t)->free(t, c);
	free(c->owed);
	free(c);
	t->way = NULL;
}

const struct sync sync_compressed = {
	.name = "allreduce",
	.what = "compressed gradients",
	.each_step = true,
	.create = create,
	.begin = begin,
	.work = sync_has_epochs,
	.weights = sync_no_layer,
	.divisor = sync_all_samples,
	.gradients = gradients,
	.update = update,
	.fetch = sync_nothing,
	.end = sync_nothing,
	.others = sync_no_others,
	.drain = drain,
	.give_up = sync_tells_nobody,
	.finish = finish,
};
