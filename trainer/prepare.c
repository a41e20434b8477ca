/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a rank makes before it trains: its copy of the data, or a part of them, the model, the
 * size of a batch, and the plan of the rate. */
#include <stdlib.h>

#include "save.h"
#include "train.h"

enum {
	ROWS_MIN = 64,	 /* at a time in validation */
	ROWS_MOST = 1024 /* at a time on the host: their outputs and deltas stay near */
};

static size_t choose_batch(const struct training *t)
{
	const struct options *o = t->options;

	if (o->batch_per_rank)
		return o->batch_per_rank * t->workers;
	return o->batch ? o->batch : t->split.train_rows;
}

/* One more than the servers is to be left, so that one of them holds all weights. */
static bool check_servers(const struct training *t)
{
	const int servers = (int)t->options->servers, size = t->team->size;
	const int least = t->survival.min_ranks < size ? t->survival.min_ranks : size;

	if (t->team->started <= servers)
		return why_invalid(
			"--servers: found %d of %d ranks, expected one worker at least; start more "
			"ranks",
			servers, t->team->started);
	if (servers > 0 && least <= servers)
		return why_invalid(
			"TUTTI_MIN_RANKS: found %d with %d servers, expected %d at least (tutti-run "
			"--min-ranks), so that a worker is left",
			least, servers, servers + 1);
	return true;
}

/* Who shares out a batch, of so many ranks. */
static size_t workers_of(const struct training *t, int ranks)
{
	const int workers =
		grid_is_cut(&t->grid) ? t->grid.lines : ranks - (int)t->options->servers;

	return (size_t)(workers > 0 ? workers : 1);
}

static bool check_sizes(const struct training *t)
{
	const struct options *o = t->options;
	const size_t ranks = workers_of(t, t->team->size);

	if (t->split.train_rows < ranks || t->split.train_rows < t->batch)
		return why_invalid(
			"%s: too few samples: found %zu to train on and %zu to validate, "
			"expected at least %zu to train on, one for each rank and for each place in a "
			"batch of %zu; use a smaller --batch or --test-fraction, or fewer ranks",
			o->source.path, t->split.train_rows, t->split.test_rows,
			ranks > t->batch ? ranks : t->batch, t->batch);
	if (o->source.test_fraction > 0 && t->split.test_rows == 0)
		return why_invalid(
			"%s: too few samples: found %zu, of which --test-fraction %g leaves "
			"none to validate; give a larger share, or 0",
			o->source.path, t->data.all_rows, o->source.test_fraction);
	if (o->predict && t->split.test_rows == 0)
		return why_invalid(
			"found --predict, but no samples to validate, whose labels it predicts; give a "
			"--test-fraction of more than 0, or --test-data");
	if (t->batch < ranks)
		return why_invalid(
			"--batch: found %zu sample%s per step for %zu ranks, expected at least one for "
			"each rank; give a larger --batch, or start fewer ranks",
			t->batch, t->batch == 1 ? "" : "s", ranks);
	return true;
}

/* Samples at a time: rank 0's slice of a batch is the largest, and larger where ranks are lost. It
 * has --accumulate parts, and on the host more where these are long. */
static size_t most_rows(const struct training *t)
{
	const size_t parts = t->grid.parts;
	/* more memory for those who are left is not what --accumulate asks for */
	const int size = t->team->size, min_ranks = t->survival.min_ranks;
	const int least = parts == 1 && min_ranks < size ? min_ranks : size;
	const bool cut = grid_is_cut(&t->grid);
	const size_t workers = t->sync->epoch ? t->workers : workers_of(t, least),
		     share = slice_of(t->batch, 0, (int)workers).count,
		     part = (share + parts - 1) / parts;

	if (cut) /* a micro-batch is one pass */
		return part > ROWS_MIN ? part : ROWS_MIN;
	if (t->engine == &engine_host && part > ROWS_MOST)
		return ROWS_MOST;
	return part > ROWS_MIN || parts > 1 ? part : ROWS_MIN;
}

static bool create_model(struct training *t)
{
	const struct options *o = t->options;
	size_t width[MODEL_LAYERS_MAX + 1];
	struct cut cut = { 0 };
	const unsigned layers = o->hidden_layers + 1;

	width[0] = t->data.features;
	for (unsigned l = 0; l < o->hidden_layers; l++)
		width[l + 1] = o->hidden[l];
	width[layers] = t->data.classes;
	return grid_cut(&t->grid, o, width, layers, &cut) &&
	       model_create(o->numbers, width, cut, most_rows(t), &t->model) &&
	       state_create(o->numbers, t->model.parameters,
			    o->sync->shares_velocity
				    ? 0
				    : o->optimizer->velocities * t->model.parameters,
			    &t->state);
}

static void make_plan(struct training *t)
{
	const struct options *o = t->options;
	const size_t steps = (t->split.train_rows + t->batch - 1) / t->batch;
	const double warmup = o->warmup * (double)steps, all = (double)(steps * o->epochs);

	t->plan = (struct rate_plan){
		.peak = rate_scaled(o->rate, o->scaling, t->batch),
		.schedule = o->schedule,
		.steps = steps * o->epochs,
		.epoch_steps = steps,
		.warmup_steps = (size_t)(warmup < all ? warmup : all),
	};
}

/* What a lost rank holds, no other has; where there are several lines one could go on, but none does. */
static bool check_survival(const struct training *t)
{
	const bool cut = grid_is_cut(&t->grid);

	if ((!cut && !t->options->shard) ||
	    (t->survival.min_ranks >= t->team->started && t->survival.restarts == 0))
		return true;
	return why_set(TUTTI_ERR_UNSUPPORTED,
		       "found --%s with tutti-run's --min-ranks or --restart, expected neither: a "
		       "rank that is lost is missed; use --save, and start again with --resume",
		       cut ? "parallel" : "shard");
}

static bool check_features(const struct training *t)
{
	for (size_t j = 0; j < t->data.features; j++)
		if (t->data.inverse[j] > 0)
			return true;
	return why_invalid(
		"%s: found the same in all samples to train on but for their labels, expected a "
		"feature that varies; give other samples",
		t->options->source.path);
}

/* Once it is known what the samples are. */
static bool complete(struct training *t)
{
	const struct options *o = t->options;

	if (!split_create(&t->data, o->source.test_fraction, o->seed, &t->split))
		return false;
	t->workers = workers_of(t, t->team->started);
	t->batch = choose_batch(t);
	if (!check_sizes(t) ||
	    !(o->shard ? sharded_standardise(t)
		       : standardise(&t->data, t->split.train, t->split.train_rows,
				     t->split.train_rows, NULL)) ||
	    !check_features(t) || !create_model(t))
		return false;
	t->order = malloc(t->split.train_rows * sizeof(*t->order));
	if (!t->order)
		return why_no_memory("the training");
	buckets_init(&t->buckets, &t->model, o->bucket_bytes);
	make_plan(t);
	t->model.weights = state_now(&t->state, 0).weights;
	return model_init_weights(&t->model, o->seed) && t->engine->create(t) &&
	       (t->team->newcomer || save_open(t));
}

static bool read_samples(struct training *t)
{
	const double start = now_s();
	const bool ok =
		t->options->shard ? sharded_read(t) : data_read(&t->options->source, &t->data);

	t->reading_s = now_s() - start;
	return ok;
}

bool training_share(struct training *t)
{
	return sharded_join(t) && complete(t);
}

bool training_create(const struct options *options, struct team *team, struct report *report,
		     struct training *out)
{
	*out = (struct training){
		.options = options,
		.sync = options->sync,
		.engine = options->engine,
		.team = team,
		.report = report,
	};
	return survival_init(&out->survival, team) && grid_place(options, team, &out->grid) &&
	       check_survival(out) && check_servers(out) && shares_check(out) &&
	       read_samples(out) && (options->shard || complete(out));
}

void training_finish(struct training *t)
{
	if (t->engine)
		t->engine->finish(t);
	free(t->order);
	shares_finish(&t->shares);
	sharded_finish(t);
	free(t->velocity);
	state_finish(&t->state);
	survival_finish(&t->survival);
	free(t->whole);
	free(t->summary.accounts);
	model_finish(&t->model);
	split_finish(&t->split);
	data_finish(&t->data);
}
