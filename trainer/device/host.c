/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's part of each step on the processor: the samples at hand, and the memory of the
 * gradients. What ranks do with these is sync.h's, and begins while the backward pass goes on. */
#include <stdlib.h>

#include "host.h"
#include "pipeline.h"
#include "train.h"

/* Of a rank's slice of a batch. */
struct part {
	size_t count;
	bool first, last;
};

static bool host_renew_gradients(struct training *t)
{
	const size_t bytes = numbers_sums_end(t->model.numbers, t->model.parameters);
	void *gradients;
	const tutti_result_t result = tutti_mem_alloc(bytes, &gradients);

	if (result != TUTTI_OK)
		return why_set(result, "no memory for the gradients: %s", tutti_last_error(NULL));
	t->gradients = t->model.gradients = gradients;
	return true;
}

static bool host_create(struct training *t)
{
	const size_t rows_max = t->model.rows_max;
	bool ok;

	t->x = malloc(rows_max * t->data.features * t->model.numbers->size);
	t->y = malloc(rows_max * sizeof(*t->y));
	if (!t->x || !t->y)
		return why_no_memory("the training");
	ok = host_renew_gradients(t);
	if (ok && grid_is_cut(&t->grid))
		ok = pipeline_create(t);
	t->way = calloc(1, t->sync->bytes + 1);
	return ok && (t->way || why_no_memory("the training"));
}

static void host_finish(struct training *t)
{
	if (t->way && t->sync->finish)
		t->sync->finish(t);
	free(t->way);
	kept_finish(&t->kept);
	pipeline_finish(t);
	free(t->y);
	free(t->x);
	tutti_mem_free(t->gradients);
}

static bool host_begin(struct training *t)
{
	t->model.weights = state_now(&t->state, 0).weights;
	return grid_begin(&t->grid, t->team) && shares_begin(t) &&
	       (!t->sync->begin || t->sync->begin(t));
}

static void take_samples(struct training *t, const struct samples *from, const uint32_t *rows,
			 size_t count)
{
	const size_t features = t->data.features;

	t->model.numbers->gather(t->x, from->x, from->stride, features, rows, count);
	for (size_t i = 0; i < count; i++)
		t->y[i] = from->y ? from->y[rows[i]]
				  : (uint32_t)from->x[rows[i] * from->stride + features];
}

/* Of which t->split and t->order have the numbers; with --shard, those that this rank keeps. */
static struct samples all_samples(const struct training *t)
{
	return (struct samples){ t->data.x, t->data.features, t->data.y };
}

static bool forward(struct training *t, size_t rows)
{
	for (unsigned l = 0; l < t->model.layers; l++) {
		if (!sync_weights(t, l))
			return false;
		model_forward_layer(&t->model, t->x, l, rows);
	}
	return true;
}

/* A part of the slice: the gradients of all but the last are only added up. */
static bool pass(struct training *t, const struct samples *from, const uint32_t *rows,
		 struct part part, double scale, struct sums *sums)
{
	take_samples(t, from, rows, part.count);
	if (!forward(t, part.count))
		return false;
	model_loss(&t->model, t->y, part.count, scale, sums);
	if (part.last) /* loss and hits travel behind the gradients: they are not lost with the rank */
		sync_store_sums(t, sums);
	for (unsigned l = t->model.layers; l-- > 0;) {
		model_backward(&t->model, l, part.count, !part.first);
		if (part.last && !sync_gradients(t, l))
			return false;
	}
	return true;
}

bool host_gradients(struct training *t, struct slice samples, double scale, struct sums *sums)
{
	struct samples from = all_samples(t);
	const uint32_t *rows =
		t->sharded ? sharded_places(t->sharded, samples.first, t->data.features, &from)
			   : t->order + samples.first;
	size_t done = 0;

	for (;;) { /* also without a sample */
		const size_t left = samples.count - done, most = t->model.rows_max;
		const struct part part = { left < most ? left : most, done == 0, left <= most };
		const bool ok = pass(t, &from, rows + done, part, scale, sums);

		if (!ok || part.last)
			return ok;
		done += part.count;
	}
}

static bool gradients(struct training *t, struct slice samples, double scale, struct sums *sums)
{
	return grid_is_cut(&t->grid) ? pipeline_gradients(t, samples, scale, sums)
				     : host_gradients(t, samples, scale, sums);
}

static bool host_step(struct training *t, size_t place, size_t count, int first)
{
	const struct worker worker = sync_worker(t);
	const struct slice mine = worker.index < 0
					  ? (struct slice){ 0 }
					  : shares_slice(t, count, worker.index, worker.count);
	const double begun = now_s() - t->team->blocked_s;
	const struct step step = { mine.count, count, first };
	const size_t divisor = t->sync->each_step ? count : mine.count > 0 ? mine.count : 1;
	struct sums sums = { 0 };
	bool ok = true;

	if (worker.index >= 0) {
		ok = gradients(t, (struct slice){ place + mine.first, mine.count },
			       1.0 / (double)divisor, &sums);
		shares_note(t, mine.count, now_s() - t->team->blocked_s - begun);
	}
	return ok && t->sync->update(t, &step);
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
	const uint32_t *rows = t->sharded ? t->sharded->test : t->split.test + mine.first;
	const struct samples from = all_samples(t);

	*sums = (struct sums){ 0 };
	if (grid_is_cut(&t->grid))
		return pipeline_validate(t, rows, mine.count, sums);
	for (size_t done = 0; done < mine.count; done += t->model.rows_max) {
		const size_t left = mine.count - done;
		const size_t count = left < t->model.rows_max ? left : t->model.rows_max;

		take_samples(t, &from, rows + done, count);
		model_forward(&t->model, t->x, count);
		model_loss(&t->model, t->y, count, 0, sums);
	}
	return true;
}

static void host_drain(struct training *t)
{
	pipeline_drain(t);
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
