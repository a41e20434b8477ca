/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's part of each step on the processor, and the memory of the gradients. What ranks do with
 * these is sync.h's, and begins while the backward pass (pipeline.c) goes on. */
#include <stdlib.h>

#include "pipeline.h"
#include "train.h"

/* And a step's sums, in memory that ranks on a host reduce without a copy. */
static bool host_renew_gradients(struct training *t)
{
	const size_t bytes = numbers_sums_end(t->model.numbers, t->model.parameters);
	void *gradients;
	const tutti_result_t result = tutti_mem_alloc(bytes, &gradients);

	if (result != TUTTI_OK)
		return why_set(result, "no memory for the gradients: %s", tutti_last_error(NULL));
	t->model.gradients = gradients;
	return true;
}

static bool host_create(struct training *t)
{
	t->way = calloc(1, t->sync->bytes + 1);
	return host_renew_gradients(t) && pipeline_create(t) &&
	       (t->way || why_no_memory("the training"));
}

static void host_finish(struct training *t)
{
	if (t->way && t->sync->finish)
		t->sync->finish(t);
	free(t->way);
	kept_finish(&t->kept);
	pipeline_finish(t);
	tutti_mem_free(t->model.gradients);
}

static bool host_begin(struct training *t)
{
	t->model.weights = state_now(&t->state, 0).weights;
	return shares_begin(t) && (!t->sync->begin || t->sync->begin(t));
}

static bool host_step(struct training *t, struct slice batch)
{
	const struct slice mine = shares_own(t, batch.count);
	const double begun = now_s() - t->team->blocked_s;
	const size_t divisor = t->sync->each_step ? batch.count : mine.count > 0 ? mine.count : 1;
	struct sums sums = { 0 };
	bool ok = true;

	if (!kept_serves(t)) {
		ok = pipeline_gradients(t, (struct slice){ batch.first + mine.first, mine.count },
					1.0 / (double)divisor, &sums);
		shares_note(t, mine.count, now_s() - t->team->blocked_s - begun);
	}
	return ok && t->sync->update(t);
}

static bool host_fetch(struct training *t)
{
	return !t->sync->fetch || t->sync->fetch(t);
}

static bool host_validate(struct training *t, struct sums *sums)
{
	const struct team *column = t->grid.column;
	const struct slice mine =
		t->sharded ? (struct slice){ 0, t->sharded->test_count }
			   : slice_of(t->split.test_rows, column->rank, column->size);

	*sums = (struct sums){ 0 };
	return pipeline_validate(t, t->sharded ? t->sharded->test : t->split.test + mine.first,
				 mine.count, sums);
}

static void host_drain(struct training *t)
{
	pipeline_drain(t);
	buckets_drain(&t->buckets);
	if (t->sync->drain)
		t->sync->drain(t);
}

const struct engine engine_host = {
	.name = "host",
	.create = host_create,
	.begin = host_begin,
	.step = host_step,
	.fetch = host_fetch,
	.validate = host_validate,
	.drain = host_drain,
	.renew_gradients = host_renew_gradients,
	.finish = host_finish,
};
