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

enum { DIVERGED = 10 /* times the loss of guessing */ };

static bool verify(struct training *t)
{
	return t->engine->fetch(t) &&
	       team_verify(t->grid.column, state_now(&t->state, 0).weights,
			   t->model.parameters * t->model.numbers->size, t->state.step);
}

void training_order(struct training *t, unsigned epoch)
{
	if (t->ordered != epoch + 1)
		epoch_order(&t->split, t->options->seed, epoch, t->order);
	t->ordered = epoch + 1;
}

/* How ranks exchange what they do in each step. */
static void note_plan(struct training *t)
{
	const int servers = (int)t->options->servers;
	const struct grid *grid = &t->grid;
	const struct team *team = t->team;
	int peer = -1;

	if (grid->ways > 1) {
		team = &grid->mates;
	} else if (grid->stages > 1) {
		team = &grid->own_line;
		peer = team->rank == 0 ? 1 : 0;
	} else if (servers > 0 && team->size > 1) {
		peer = team->rank == 0 ? servers : 0;
	}
	team_plan(team, peer, t->summary.algorithm, t->summary.transports);
}

struct slice training_batch(const struct training *t, size_t s)
{
	const size_t first = s * t->batch, left = t->split.train_rows - first;

	return (struct slice){ first, left < t->batch ? left : t->batch };
}

static bool train_steps(struct training *t, unsigned epoch)
{
	const bool verifies = t->options->verify && t->sync->each_step;

	training_order(t, epoch);
	while (t->state.step < (epoch + 1) * t->plan.epoch_steps) {
		const size_t s = t->state.step - epoch * t->plan.epoch_steps;

		if (t->sharded && !sharded_deliver(t, s))
			return false;
		t->steps_begun++;
		if (!t->engine->step(t, training_batch(t, s)) || (verifies && !verify(t)))
			return false;
		report_step(t->report, epoch, s, t->plan.epoch_steps);
	}
	return true;
}

/* What of `epoch` is still to be done. */
static bool train_epoch(struct training *t, unsigned epoch)
{
	if (!(t->sync->epoch ? t->sync->epoch(t, epoch) : train_steps(t, epoch)))
		return false;
	note_plan(t);
	return true;
}

/* A model that knows nothing has a loss of ln(classes): one far above it, over a whole epoch, gets
 * worse. All ranks find it. */
static bool check_loss(struct training *t, const struct epoch *epoch)
{
	const double guessing = log(t->data.classes);
	char loss[32] = "not a number";

	if (epoch->train_loss <= DIVERGED * guessing)
		return true;
	t->failed_alike = true;
	if (isfinite(epoch->train_loss))
		snprintf(loss, sizeof(loss), "%.3g", epoch->train_loss);
	return why_invalid(
		"epoch %u: the training diverged: its loss is %s, and a guess among %u classes "
		"has %.3g; use a smaller --lr, a longer --warmup, or --clip",
		epoch->number, loss, t->data.classes, guessing);
}

/* Train and validate. A validation without samples gives 0/0, a NaN. */
static bool run_epoch(struct training *t, unsigned epoch, struct epoch *out)
{
	struct sums trained, validated;

	if (!train_epoch(t, epoch) || !(t->options->verify ? verify(t) : t->engine->fetch(t)) ||
	    !t->engine->validate(t, &validated) ||
	    !team_sum(t->team, (double *)&validated, SUMS_NUMBERS))
		return false;
	trained = *state_sums(&t->state); /* the last stage's; those of others are 0 */
	if (!grid_sum(&t->grid, (double *)&trained, SUMS_NUMBERS))
		return false;
	out->number = epoch + 1;
	out->train_loss = trained.loss / trained.samples;
	out->train_accuracy = trained.correct / trained.samples;
	out->test_loss = validated.loss / validated.samples;
	out->test_accuracy = validated.correct / validated.samples;
	out->rate = rate_at(&t->plan, t->state.step - 1);
	out->seconds = now_s() - t->start_s;
	shares_range(t, &out->least_share, &out->most_share);
	return check_loss(t, out);
}

/* The epochs that are still to be done. */
static bool run_epochs(struct training *t)
{
	const struct history *history = &t->report->history;
	bool ok = true;

	while (ok && history->epoch_count < t->options->epochs) {
		struct epoch epoch = { 0 };

		ok = run_epoch(t, history->epoch_count, &epoch) &&
		     report_epoch(t->report, &epoch) && save_epoch(t) &&
		     (history->epoch_count == t->options->epochs || shares_adapt(t));
	}
	return ok;
}

/* Ranks may have been lost between the end of an epoch and its checkpoint. */
static bool save_after_loss(struct training *t)
{
	const struct history *history = &t->report->history;
	const bool at_end = t->state.step == history->epoch_count * t->plan.epoch_steps;

	return history->loss_count == 0 || history->epoch_count == 0 || !at_end || save_epoch(t);
}

/* From wherever the training stands to its end. */
static bool go_on(struct training *t)
{
	bool ok;

	if (!t->engine->begin(t))
		return false;
	report_begin(t->report, (double)t->state.step / (double)t->plan.steps);
	ok = (t->team->rank > 0 || report_open(t->report)) && report_show(t->report) &&
	     save_after_loss(t) && run_epochs(t);
	t->summary.seconds = now_s() - t->start_s;
	return ok && training_account(t);
}

static void begin(struct training *t)
{
	t->report->training = t;
	t->here_s = now_s();
	t->start_s = t->here_s - t->resumed_s;
	t->team->blocked_s = 0;
	t->team->bytes = t->team->received = 0;
}

/* A lost server is more than a lost rank. */
static void name_server(const struct training *t)
{
	int rank = -1;

	if (t->survival.left_out ||
	    (why.result != TUTTI_ERR_PEER_LOST && why.result != TUTTI_ERR_TIMEOUT))
		return;
	tutti_comm_error(t->team->comm, &rank);
	if (rank >= 0 && rank < (int)t->options->servers)
		why_set(why.result,
			"parameter server %d was lost, and its weights with it: %s; start the training "
			"again, with --resume if there is a checkpoint",
			t->team->origins[rank], why.text);
}

/* Ranks that are lost on the way are gone on without, or replaced, as often as the launcher
 * allows. */
bool training_run(struct training *t)
{
	bool ok;

	begin(t);
	ok = settle(t) && go_on(t);
	while (!ok && survive(t))
		ok = go_on(t);
	if (!ok)
		name_server(t);
	t->engine->drain(t);
	return ok;
}
