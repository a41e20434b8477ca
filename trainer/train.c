/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's part of the training: its copy of data and model. Ranks go through the same epochs
 * and steps; in each step every rank takes its slice of the same global batch, gradients are summed
 * over all ranks, and each rank makes the same update. What is summed is always a sum over samples,
 * divided by the global number of samples beforehand or afterwards, so that uneven slices weigh
 * every sample alike.
 *
 * Numbers are float64: in float32 the other grouping of sums that another number of ranks brings
 * opens or closes a ReLU now and then, and the loss curves part. */
#include "train.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum {
	ROWS_MIN = 64, /* at a time in validation */
	SUMS_NUMBERS = 3,
};
static_assert(sizeof(struct sums) == SUMS_NUMBERS * sizeof(double), "sums travel as a vector");

static tutti_result_t check_sizes(const struct training *t, struct why *why)
{
	const struct options *o = t->options;
	const size_t ranks = (size_t)t->team->size;

	if (t->split.train_rows < ranks || t->split.train_rows < o->batch)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: too few samples: found %zu to train on and %zu to validate, "
			"expected at least one to train on for each of %zu ranks and for each "
			"place in a batch of %zu; use fewer ranks, --batch or --test-fraction",
			o->source.path, t->split.train_rows, t->split.test_rows, ranks, o->batch);
	if (o->test_fraction > 0 && t->split.test_rows == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: too few samples: found %zu, of which --test-fraction %g leaves "
			       "none to validate; give a larger share, or 0",
			       o->source.path, t->data.rows, o->test_fraction);
	if (o->batch < ranks)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"--batch: found %zu samples per step for %zu ranks, expected at least "
			"one for each rank",
			o->batch, ranks);
	return TUTTI_OK;
}

static tutti_result_t create_model(struct training *t, size_t rows_max, struct why *why)
{
	const struct options *o = t->options;
	size_t width[MODEL_LAYERS_MAX + 1];
	const unsigned layers = o->hidden_layers + 1;
	void *gradients;
	tutti_result_t result;

	width[0] = t->data.features;
	for (unsigned l = 0; l < o->hidden_layers; l++)
		width[l + 1] = o->hidden[l];
	width[layers] = t->data.classes;
	result = tutti_mem_alloc(model_parameter_count(width, layers) * sizeof(double), &gradients);
	if (result != TUTTI_OK)
		return why_set(why, result, "no memory for the gradients: %s",
			       tutti_last_error(NULL));
	t->gradients = gradients;
	return model_create(width, layers, rows_max, gradients, &t->model, why);
}

static tutti_result_t allocate(struct training *t, size_t rows_max, struct why *why)
{
	t->velocity = calloc(t->model.parameters, sizeof(*t->velocity));
	t->x = malloc(rows_max * t->data.features * sizeof(*t->x));
	t->y = malloc(rows_max * sizeof(*t->y));
	t->order = malloc(t->split.train_rows * sizeof(*t->order));
	if (!t->velocity || !t->x || !t->y || !t->order)
		return why_no_memory(why, "the training");
	return TUTTI_OK;
}

static void make_plan(struct training *t)
{
	const struct options *o = t->options;
	const size_t steps = (t->split.train_rows + o->batch - 1) / o->batch;
	const double warmup = o->warmup * (double)steps, all = (double)(steps * o->epochs);

	t->steps_per_epoch = steps;
	t->plan = (struct rate_plan){
		.base = o->rate,
		.scaling = o->scaling,
		.schedule = o->schedule,
		.batch = o->batch,
		.steps = steps * o->epochs,
		.warmup_steps = (size_t)(warmup < all ? warmup : all),
	};
}

static tutti_result_t prepare(struct training *t, struct why *why)
{
	const struct options *o = t->options;
	const size_t share = slice_of(o->batch, 0, t->team->size).count; /* rank 0's is largest */
	const size_t rows_max = share > ROWS_MIN ? share : ROWS_MIN;
	tutti_result_t result = data_read(&o->source, &t->data, why);

	if (result == TUTTI_OK)
		result = split_create(&t->data, o->test_fraction, o->seed, &t->split, why);
	if (result == TUTTI_OK)
		result = check_sizes(t, why);
	if (result == TUTTI_OK)
		result = standardise(&t->data, &t->split, why);
	if (result == TUTTI_OK)
		result = create_model(t, rows_max, why);
	if (result == TUTTI_OK)
		result = allocate(t, rows_max, why);
	if (result != TUTTI_OK)
		return result;
	buckets_init(&t->buckets, &t->model, o->bucket_bytes);
	make_plan(t);
	return TUTTI_OK;
}

tutti_result_t training_create(const struct options *options, struct team *team,
			       struct report *report, struct training *out, struct why *why)
{
	struct training t = { .options = options, .team = team, .report = report };
	const tutti_result_t result = prepare(&t, why);

	if (result != TUTTI_OK) {
		training_finish(&t);
		return result;
	}
	*out = t;
	return TUTTI_OK;
}

void training_finish(struct training *t)
{
	buckets_drain(&t->buckets);
	free(t->order);
	free(t->y);
	free(t->x);
	free(t->velocity);
	model_finish(&t->model);
	tutti_mem_free(t->gradients);
	split_finish(&t->split);
	data_finish(&t->data);
}

/* Update each bucket as it arrives, while the next are under way. */
static tutti_result_t update(struct training *t, double rate, struct why *why)
{
	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *b = &t->buckets.bucket[i];
		const tutti_result_t result = buckets_wait(&t->buckets, i, t->team, why);

		if (result != TUTTI_OK)
			return result;
		sgd_update(t->model.weights + b->first, t->velocity + b->first,
			   t->model.gradients + b->first, b->count, rate, t->options->momentum,
			   t->options->weight_decay);
	}
	return TUTTI_OK;
}

/* One step: `rows` are the global batch, of which this rank takes its slice. */
static tutti_result_t train_step(struct training *t, const uint32_t *rows, size_t count,
				 double rate, struct sums *sums, struct why *why)
{
	const struct slice mine = slice_of(count, t->team->rank, t->team->size);

	gather(&t->data, rows + mine.first, mine.count, t->x, t->y);
	model_forward(&t->model, t->x, mine.count);
	model_loss(&t->model, t->y, mine.count, 1.0 / (double)count, sums);
	for (unsigned l = t->model.layers; l-- > 0;) {
		tutti_result_t result;

		model_backward(&t->model, l, mine.count);
		result = buckets_layer_ready(&t->buckets, &t->model, l, t->team, why);
		if (result != TUTTI_OK)
			return result;
	}
	return update(t, rate, why);
}

static tutti_result_t train_epoch(struct training *t, unsigned epoch, struct sums *sums,
				  struct why *why)
{
	const size_t rows = t->split.train_rows, batch = t->options->batch;

	epoch_order(&t->split, t->options->seed, epoch, t->order);
	for (size_t s = 0; s < t->steps_per_epoch; s++) {
		const size_t first = s * batch, left = rows - first;
		const size_t step = epoch * t->steps_per_epoch + s;
		tutti_result_t result = train_step(t, t->order + first, left < batch ? left : batch,
						   sgd_rate(&t->plan, step), sums, why);

		if (result == TUTTI_OK && t->options->verify)
			result = team_verify(t->team, t->model.weights, t->model.parameters,
					     step + 1, why);
		if (result != TUTTI_OK)
			return result;
		report_step(t->report, epoch, s, t->steps_per_epoch);
	}
	return TUTTI_OK;
}

/* This rank's slice of the validation samples. */
static void validate(struct training *t, struct sums *sums)
{
	const struct slice mine = slice_of(t->split.test_rows, t->team->rank, t->team->size);
	const uint32_t *rows = t->split.test + mine.first;

	for (size_t done = 0; done < mine.count; done += t->model.rows_max) {
		const size_t left = mine.count - done;
		const size_t count = left < t->model.rows_max ? left : t->model.rows_max;

		gather(&t->data, rows + done, count, t->x, t->y);
		model_forward(&t->model, t->x, count);
		model_loss(&t->model, t->y, count, 0, sums);
	}
}

/* Train and validate; the sums of both travel in one message. A validation without samples gives
 * 0/0, a NaN. */
static tutti_result_t run_epoch(struct training *t, unsigned epoch, struct epoch *out,
				struct why *why)
{
	struct sums sums[2] = { 0 };
	tutti_result_t result = train_epoch(t, epoch, &sums[0], why);

	if (result != TUTTI_OK)
		return result;
	validate(t, &sums[1]);
	result = team_sum(t->team, (double *)sums, 2 * SUMS_NUMBERS, why);
	if (result != TUTTI_OK)
		return result;
	out->number = epoch + 1;
	out->train_loss = sums[0].loss / sums[0].samples;
	out->train_accuracy = sums[0].correct / sums[0].samples;
	out->test_loss = sums[1].loss / sums[1].samples;
	out->test_accuracy = sums[1].correct / sums[1].samples;
	out->rate = sgd_rate(&t->plan, (epoch + 1) * t->steps_per_epoch - 1);
	if (!isfinite(out->train_loss))
		return why_set(
			why, TUTTI_ERR_INVALID,
			"epoch %u: the loss is %g; the training diverged: use a smaller --lr "
			"or a longer --warmup",
			out->number, out->train_loss);
	return TUTTI_OK;
}

/* Share of the time each rank was blocked: mean and worst, over the ranks. */
static tutti_result_t account(struct training *t, struct summary *summary, double seconds,
			      struct why *why)
{
	const double share = t->team->blocked_s / seconds;
	double mean = share, worst = share;
	tutti_result_t result;

	summary->seconds = seconds;
	summary->reduced_bytes = (double)t->team->bytes;
	result = team_sum(t->team, &mean, 1, why);
	if (result == TUTTI_OK)
		result = team_max(t->team, &worst, why);
	summary->blocked_mean = mean / t->team->size;
	summary->blocked_worst = worst;
	return result;
}

static struct summary describe(const struct training *t)
{
	return (struct summary){
		.ranks = t->team->size,
		.train_rows = t->split.train_rows,
		.test_rows = t->split.test_rows,
		.features = t->data.features,
		.classes = t->data.classes,
		.parameters = t->model.parameters,
		.buckets = t->buckets.count,
		.steps = t->plan.steps,
	};
}

tutti_result_t training_run(struct training *t, struct summary *summary, struct why *why)
{
	double start;
	tutti_result_t result;

	*summary = describe(t);
	if (t->team->rank == 0)
		model_init_weights(&t->model, t->options->seed);
	result = team_broadcast(t->team, t->model.weights, t->model.parameters, why);
	if (result == TUTTI_OK)
		result = report_start(t->report, summary, why);
	start = now_s();
	t->team->blocked_s = 0;
	t->team->bytes = 0;
	for (unsigned e = 0; e < t->options->epochs && result == TUTTI_OK; e++) {
		struct epoch epoch = { 0 };

		result = run_epoch(t, e, &epoch, why);
		epoch.seconds = now_s() - start;
		if (result == TUTTI_OK)
			result = report_epoch(t->report, &epoch, why);
	}
	return result == TUTTI_OK ? account(t, summary, now_s() - start, why) : result;
}
