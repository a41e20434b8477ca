/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's part of the training: its copy of data and model. Ranks go through the same epochs
 * and steps; in each step every rank takes its slice of the same global batch, gradients are summed
 * over all ranks, and each rank makes the same update. What is summed is always a sum over samples,
 * divided by the global number of samples beforehand or afterwards, so that uneven slices weigh
 * every sample alike.
 *
 * Another number of ranks groups sums in another way. In float32 that opens or closes a ReLU now and
 * then, and curves part by a little (docs/reference/trainer.md says how much); in float64 they do
 * not. */
#include "train.h"

#include "bits.h"
#include "save.h"
#include "settle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum {
	ROWS_MIN = 64,	 /* at a time in validation */
	DIVERGED = 10,	 /* times the loss of guessing */
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
static tutti_result_t check_servers(const struct training *t, struct why *why)
{
	const int servers = (int)t->options->servers, size = t->team->size;
	const int least = t->survival.min_ranks < size ? t->survival.min_ranks : size;

	if (t->team->started <= servers)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"--servers: found %d of %d ranks, expected one worker at least; start more "
			"ranks",
			servers, t->team->started);
	if (servers > 0 && least <= servers)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"TUTTI_MIN_RANKS: found %d with %d servers, expected %d at least (tutti-run "
			"--min-ranks), so that a worker is left",
			least, servers, servers + 1);
	return TUTTI_OK;
}

static tutti_result_t count_workers(struct training *t, struct why *why)
{
	tutti_result_t result;

	if (grid_is_cut(&t->grid)) {
		t->workers = (size_t)t->grid.lines;
		return TUTTI_OK;
	}
	result = check_servers(t, why);
	t->workers = (size_t)t->team->started - t->options->servers;
	return result;
}

static tutti_result_t check_sizes(const struct training *t, struct why *why)
{
	const struct options *o = t->options;
	const int workers = grid_is_cut(&t->grid) ? t->grid.lines : t->team->size - (int)o->servers;
	const size_t ranks = (size_t)(workers > 0 ? workers : 1);

	if (t->split.train_rows < ranks || t->split.train_rows < t->batch)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: too few samples: found %zu to train on and %zu to validate, "
			"expected at least %zu to train on, one for each rank and for each place in a "
			"batch of %zu; use a smaller --batch or --test-fraction, or fewer ranks",
			o->source.path, t->split.train_rows, t->split.test_rows,
			ranks > t->batch ? ranks : t->batch, t->batch);
	if (o->source.test_fraction > 0 && t->split.test_rows == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: too few samples: found %zu, of which --test-fraction %g leaves "
			       "none to validate; give a larger share, or 0",
			       o->source.path, t->data.rows, o->source.test_fraction);
	if (o->predict && t->split.test_rows == 0)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"found --predict, but no samples to validate, whose labels it predicts; give a "
			"--test-fraction of more than 0, or --test-data");
	if (t->batch < ranks)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"--batch: found %zu sample%s per step for %zu ranks, expected at least one for "
			"each rank; give a larger --batch, or start fewer ranks",
			t->batch, t->batch == 1 ? "" : "s", ranks);
	return TUTTI_OK;
}

/* Samples at a time: rank 0's slice of a batch is the largest, and larger where ranks are lost. The
 * GPU takes a slice at once; the host --accumulate parts of it, and more of a long one. */
static size_t most_rows(const struct training *t)
{
	const struct options *o = t->options;
	/* more memory for those who are left is not what --accumulate asks for */
	const int size = t->team->size, min_ranks = t->survival.min_ranks;
	const int least = o->accumulate == 1 && min_ranks < size ? min_ranks : size;
	const bool cut = grid_is_cut(&t->grid);
	const int workers = t->sync->epoch || cut ? (int)t->workers : least - (int)o->servers;
	const size_t share = slice_of(t->batch, 0, workers).count;
	const size_t parts = cut ? t->grid.micro : o->accumulate,
		     part = (share + parts - 1) / parts;

	if (cut) /* a micro-batch is one pass */
		return part > ROWS_MIN ? part : ROWS_MIN;
	if (o->device == DEVICE_HOST && part > ROWS_MOST)
		return ROWS_MOST;
	return part > ROWS_MIN || o->accumulate > 1 ? part : ROWS_MIN;
}

static tutti_result_t create_model(struct training *t, struct why *why)
{
	const struct options *o = t->options;
	size_t width[MODEL_LAYERS_MAX + 1];
	struct cut cut = { 0 };
	const unsigned layers = o->hidden_layers + 1;
	tutti_result_t result;

	width[0] = t->data.features;
	for (unsigned l = 0; l < o->hidden_layers; l++)
		width[l + 1] = o->hidden[l];
	width[layers] = t->data.classes;
	result = grid_cut(&t->grid, o, width, layers, &cut, why);
	if (result == TUTTI_OK)
		result = model_create(o->numbers, width, cut, most_rows(t), &t->model, why);
	if (result == TUTTI_OK)
		result = state_create(o->numbers, t->model.parameters,
				      o->sync->shares_velocity
					      ? 0
					      : o->optimizer->velocities * t->model.parameters,
				      &t->state, why);
	return result;
}

static void make_plan(struct training *t)
{
	const struct options *o = t->options;
	const size_t steps = (t->split.train_rows + t->batch - 1) / t->batch;
	const double warmup = o->warmup * (double)steps, all = (double)(steps * o->epochs);

	t->steps_per_epoch = steps;
	t->plan = (struct rate_plan){
		.base = o->rate,
		.scaling = o->scaling,
		.schedule = o->schedule,
		.batch = t->batch,
		.steps = steps * o->epochs,
		.epoch_steps = steps,
		.warmup_steps = (size_t)(warmup < all ? warmup : all),
	};
}

static void describe(struct training *t)
{
	t->summary = (struct summary){
		.ranks_at_start = t->team->size,
		.train_rows = t->split.train_rows,
		.test_rows = t->split.test_rows,
		.features = t->data.features,
		.classes = t->data.classes,
		.parameters = model_parameter_count(t->model.width, t->model.cut.of),
		.stages = t->grid.stages,
		.ways = t->grid.ways,
		.micro = t->grid.micro,
		.buckets = t->buckets.count,
		.steps = t->plan.steps,
		.batch = t->batch,
	};
}

/* What a lost rank holds, no other has; where there are several lines one could go on, but none does. */
static tutti_result_t check_survival(const struct training *t, struct why *why)
{
	const bool cut = grid_is_cut(&t->grid);

	if ((!cut && !t->options->shard) ||
	    (t->survival.min_ranks >= t->team->started && t->survival.restarts == 0))
		return TUTTI_OK;
	return why_set(why, TUTTI_ERR_UNSUPPORTED,
		       "found --%s with tutti-run's --min-ranks or --restart, expected neither: a "
		       "rank that is lost is missed; use --save, and start again with --resume",
		       cut ? "parallel" : "shard");
}

static tutti_result_t check_features(const struct training *t, struct why *why)
{
	const struct data *data = t->sharded ? &t->sharded->own : &t->data;

	for (size_t j = 0; j < data->features; j++)
		if (data->inverse[j] > 0)
			return TUTTI_OK;
	return why_set(
		why, TUTTI_ERR_INVALID,
		"%s: found the same in all samples to train on but for their labels, expected a "
		"feature that varies; give other samples",
		t->options->source.path);
}

/* Once it is known what the samples are. */
static tutti_result_t complete(struct training *t, struct why *why)
{
	const struct options *o = t->options;
	tutti_result_t result =
		split_create(&t->data, o->source.test_fraction, o->seed, &t->split, why);

	if (result == TUTTI_OK) {
		t->batch = choose_batch(t);
		result = check_sizes(t, why);
	}
	if (result == TUTTI_OK)
		result = o->shard ? sharded_standardise(t, why)
				  : standardise(&t->data, &t->split, why);
	if (result == TUTTI_OK)
		result = check_features(t, why);
	if (result == TUTTI_OK)
		result = create_model(t, why);
	if (result != TUTTI_OK)
		return result;
	t->order = malloc(t->split.train_rows * sizeof(*t->order));
	if (!t->order)
		return why_no_memory(why, "the training");
	buckets_init(&t->buckets, &t->model, o->bucket_bytes, SUMS_NUMBERS);
	make_plan(t);
	describe(t);
	t->model.weights = state_now(&t->state, 0).weights;
	result = model_init_weights(&t->model, o->seed, why);
	if (result == TUTTI_OK)
		result = t->engine->create(t, why);
	return result == TUTTI_OK && !t->team->newcomer ? save_open(t, why) : result;
}

static tutti_result_t read_samples(struct training *t, struct why *why)
{
	const double start = now_s();
	const tutti_result_t result = t->options->shard
					      ? sharded_read(t, why)
					      : data_read(&t->options->source, &t->data, why);

	t->reading_s = now_s() - start;
	return result;
}

static tutti_result_t prepare(struct training *t, struct why *why)
{
	const struct options *o = t->options;
	tutti_result_t result = survival_init(&t->survival, t->team, why);

	if (result == TUTTI_OK)
		result = grid_place(o, t->team, &t->grid, why);
	if (result == TUTTI_OK)
		result = check_survival(t, why);
	if (result == TUTTI_OK)
		result = count_workers(t, why);
	if (result == TUTTI_OK)
		result = shares_check(t, why);
	if (result == TUTTI_OK)
		result = read_samples(t, why);
	if (result != TUTTI_OK || o->shard)
		return result;
	t->data_hash = data_hash(&t->data);
	return complete(t, why);
}

tutti_result_t training_share(struct training *t, struct why *why)
{
	const tutti_result_t result = sharded_join(t, why);

	return result == TUTTI_OK ? complete(t, why) : result;
}

tutti_result_t training_create(const struct options *options, struct team *team,
			       struct report *report, struct training *out, struct why *why)
{
	struct training t = {
		.options = options,
		.sync = options->sync,
		.engine = options->device == DEVICE_CUDA ? &engine_cuda : &engine_host,
		.team = team,
		.report = report,
	};
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

static tutti_result_t verify(struct training *t, struct why *why)
{
	const tutti_result_t result = t->engine->fetch(t, why);

	return result == TUTTI_OK ? team_verify(t->grid.column, state_now(&t->state, 0).weights,
						t->model.parameters * t->model.numbers->size,
						t->state.step, why)
				  : result;
}

void training_order(struct training *t, unsigned epoch)
{
	if (t->ordered != epoch + 1)
		epoch_order(&t->split, t->options->seed, epoch, t->order);
	t->ordered = epoch + 1;
}

/* What its ranks exchange in each step. */
static void note_plan_of_line(struct training *t)
{
	const struct team *stages = &t->grid.own_stages;
	struct summary *s = &t->summary;

	if (t->grid.ways > 1)
		team_last_plan(&t->grid.mates, s->algorithm, s->transports);
	else
		team_message_plan(stages, stages->rank == 0 ? 1 : 0, s->algorithm, s->transports);
}

static tutti_result_t train_steps(struct training *t, unsigned epoch, struct why *why)
{
	const size_t rows = t->split.train_rows, batch = t->batch;

	training_order(t, epoch);
	while (t->state.step < (epoch + 1) * t->steps_per_epoch) {
		const size_t s = t->state.step - epoch * t->steps_per_epoch;
		const size_t first = s * batch, left = rows - first;
		tutti_result_t result = t->sharded ? sharded_deliver(t, s, why) : TUTTI_OK;

		if (result != TUTTI_OK)
			return result;
		t->steps_begun++;
		result = t->engine->step(t, first, left < batch ? left : batch, s == 0, why);
		if (result == TUTTI_OK && t->options->verify && t->sync->each_step)
			result = verify(t, why);
		if (result != TUTTI_OK)
			return result;
		report_step(t->report, epoch, s, t->steps_per_epoch);
	}
	return TUTTI_OK;
}

/* What of `epoch` is still to be done. */
static tutti_result_t train_epoch(struct training *t, unsigned epoch, struct why *why)
{
	const tutti_result_t result =
		t->sync->epoch ? t->sync->epoch(t, epoch, why) : train_steps(t, epoch, why);

	if (result != TUTTI_OK)
		return result;
	if (grid_is_cut(&t->grid))
		note_plan_of_line(t);
	else if (t->options->servers > 0 && t->team->size > 1)
		team_message_plan(t->team, t->team->rank > 0 ? 0 : (int)t->options->servers,
				  t->summary.algorithm, t->summary.transports);
	else
		team_last_plan(t->team, t->summary.algorithm, t->summary.transports);
	return TUTTI_OK;
}

/* A model that knows nothing has a loss of ln(classes): one far above it, over a whole epoch, gets
 * worse. All ranks find it. */
static tutti_result_t check_loss(struct training *t, const struct epoch *epoch, struct why *why)
{
	const double guessing = log(t->data.classes);
	char loss[32] = "not a number";

	if (epoch->train_loss <= DIVERGED * guessing)
		return TUTTI_OK;
	t->failed_alike = true;
	if (isfinite(epoch->train_loss))
		snprintf(loss, sizeof(loss), "%.3g", epoch->train_loss);
	return why_set(
		why, TUTTI_ERR_INVALID,
		"epoch %u: the training diverged: its loss is %s, and a guess among %u classes "
		"has %.3g; use a smaller --lr, a longer --warmup, or --clip",
		epoch->number, loss, t->data.classes, guessing);
}

/* Train and validate. A validation without samples gives 0/0, a NaN. */
static tutti_result_t run_epoch(struct training *t, unsigned epoch, struct epoch *out,
				struct why *why)
{
	struct sums trained, validated;
	tutti_result_t result = train_epoch(t, epoch, why);

	if (result != TUTTI_OK)
		return result;
	result = t->options->verify ? verify(t, why) : t->engine->fetch(t, why);
	if (result == TUTTI_OK)
		result = t->engine->validate(t, &validated, why);
	if (result != TUTTI_OK)
		return result;
	result = team_sum(t->team, (double *)&validated, SUMS_NUMBERS, why);
	if (result != TUTTI_OK)
		return result;
	trained = state_sums(&t->state); /* the last stage's; those of others are 0 */
	result = grid_sum(&t->grid, (double *)&trained, SUMS_NUMBERS, why);
	if (result != TUTTI_OK)
		return result;
	out->number = epoch + 1;
	out->train_loss = trained.loss / trained.samples;
	out->train_accuracy = trained.correct / trained.samples;
	out->test_loss = validated.loss / validated.samples;
	out->test_accuracy = validated.correct / validated.samples;
	out->rate = rate_at(&t->plan, t->state.step - 1);
	out->seconds = now_s() - t->start_s;
	shares_range(t, &out->least_share, &out->most_share);
	return check_loss(t, out, why);
}

/* The epochs that are still to be done. */
static tutti_result_t run_epochs(struct training *t, struct why *why)
{
	const struct history *history = &t->report->history;

	while (history->epoch_count < t->options->epochs) {
		struct epoch epoch = { 0 };
		tutti_result_t result = run_epoch(t, history->epoch_count, &epoch, why);

		if (result == TUTTI_OK)
			result = report_epoch(t->report, &epoch, why);
		if (result == TUTTI_OK)
			result = save_epoch(t, why);
		if (result == TUTTI_OK && history->epoch_count < t->options->epochs)
			result = shares_adapt(t, why);
		if (result != TUTTI_OK)
			return result;
	}
	return TUTTI_OK;
}

static void sum_up(struct training *t)
{
	struct summary *summary = &t->summary;
	double total = 0;

	summary->blocked_worst = summary->sent_bytes = 0;
	for (int r = 0; r < summary->ranks; r++) {
		total += summary->accounts[r].blocked;
		summary->blocked_worst = fmax(summary->blocked_worst, summary->accounts[r].blocked);
		summary->sent_bytes = fmax(summary->sent_bytes, (double)summary->accounts[r].bytes);
	}
	summary->blocked_mean = total / summary->ranks;
	summary->steps_begun = t->steps_begun;
}

static double own_share(const struct training *t)
{
	const struct worker worker = sync_worker(t);

	if (t->sync->epoch)
		return t->share;
	return worker.index < 0
		       ? 0
		       : (double)shares_slice(t, t->batch, worker.index, worker.count).count /
				 (double)t->batch;
}

static uint64_t most_memory(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

static struct rank_account own_account(const struct training *t)
{
	return (struct rank_account){
		.weights = hash_bytes(0, state_now(&t->state, 0).weights,
				      t->model.parameters * t->model.numbers->size),
		.bytes = t->team->bytes,
		.received = t->team->received,
		.memory = most_memory(),
		.blocked = t->team->blocked_s / (now_s() - t->here_s),
		.share = own_share(t),
		.read = t->sharded ? t->sharded->own.read : t->data.read,
		.read_s = t->reading_s,
		.rows_sent = t->sharded ? t->sharded->sent : 0,
	};
}

static tutti_result_t account(struct training *t, struct why *why)
{
	const struct rank_account mine = own_account(t);
	struct summary *s = &t->summary;
	tutti_result_t result;

	free(s->accounts);
	s->ranks = t->team->size;
	s->accounts = calloc((size_t)s->ranks, sizeof(mine));
	if (!s->accounts)
		return why_no_memory(why, "the ranks' accounts");
	result = team_gather(t->team, &mine, s->accounts, sizeof(mine), why);
	if (result == TUTTI_OK)
		sum_up(t);
	return result;
}

/* Ranks may have been lost between the end of an epoch and its checkpoint. */
static tutti_result_t save_after_loss(struct training *t, struct why *why)
{
	const struct history *history = &t->report->history;
	const bool at_end = t->state.step == history->epoch_count * t->steps_per_epoch;

	return history->loss_count > 0 && history->epoch_count > 0 && at_end ? save_epoch(t, why)
									     : TUTTI_OK;
}

/* From wherever the training stands to its end. */
static tutti_result_t go_on(struct training *t, struct why *why)
{
	tutti_result_t result = t->engine->begin(t, why);

	if (result != TUTTI_OK)
		return result;
	report_begin(t->report, (double)t->state.step / (double)t->plan.steps);
	if (t->team->rank == 0)
		result = report_take_over(t->report, why);
	if (result == TUTTI_OK)
		result = report_show(t->report, why);
	if (result == TUTTI_OK)
		result = save_after_loss(t, why);
	if (result == TUTTI_OK)
		result = run_epochs(t, why);
	t->summary.seconds = now_s() - t->start_s;
	if (result == TUTTI_OK)
		result = t->sync->end(t, why);
	return result == TUTTI_OK ? account(t, why) : result;
}

static void begin(struct training *t)
{
	t->report->summary = &t->summary;
	t->here_s = now_s();
	t->start_s = t->here_s - t->resumed_s;
	t->team->blocked_s = 0;
	t->team->bytes = t->team->received = 0;
}

/* A lost server is more than a lost rank. */
static void name_server(const struct training *t, tutti_result_t fault, struct why *why)
{
	const struct why cause = *why;
	int rank = -1;

	if (t->survival.left_out || (fault != TUTTI_ERR_PEER_LOST && fault != TUTTI_ERR_TIMEOUT))
		return;
	tutti_comm_error(t->team->comm, &rank);
	if (rank >= 0 && rank < (int)t->options->servers)
		why_set(why, fault,
			"parameter server %d was lost, and its weights with it: %s; start the training "
			"again, with --resume if there is a checkpoint",
			survival_origin(&t->survival, rank), cause.text);
}

/* Ranks that are lost on the way are gone on without, or replaced, as often as the launcher
 * allows. */
tutti_result_t training_run(struct training *t, struct why *why)
{
	tutti_result_t result;

	begin(t);
	result = settle(t, why);
	for (;;) {
		if (result == TUTTI_OK)
			result = go_on(t, why);
		if (!survival_possible(t, result))
			break;
		result = survive(t, result, why);
	}
	name_server(t, result, why);
	t->engine->drain(t);
	return result;
}
