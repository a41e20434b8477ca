/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the course of a training. Ranks go through the same epochs and steps. In each step every rank
 * takes its slice of the same global batch, gradients are summed over all ranks, and each rank makes
 * the same update. What is summed is always a sum over samples, divided by the global number of
 * samples beforehand or afterwards, so that uneven slices weigh every sample alike.
 *
 * Another number of ranks groups sums in another way. In float32 that opens or closes a ReLU now and
 * then, and curves part by a little (docs/reference/trainer.md says how much); in float64 they do
 * not. */
#include "train.h"

#include <math.h>
#include <stdio.h>

#include "save.h"
#include "settle.h"

enum { DIVERGED = 10 /* times the loss of guessing */ };

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
	return result == TUTTI_OK ? training_account(t, why) : result;
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
