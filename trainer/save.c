/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what goes from a training into files, and back. Rank 0 alone reads and writes: what it read
 * comes to the others as a newcomer gets the state, and what it writes is what all hold, but for
 * velocity that ranks keep in shares. */
#include "save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bits.h"
#include "checkpoint.h"
#include "replace.h"
#include "train.h"

/* Of a replay, those of the training that it replays. */
static int ranks_at_start(const struct training *t)
{
	return (int)(t->workers + t->options->servers);
}

/* ---- going on from a checkpoint */

static tutti_result_t check_fits(const struct training *t, const struct checkpoint *c,
				 struct why *why)
{
	const char *path = t->options->save, *differs = NULL;
	const bool fits =
		c->layers == t->model.cut.of &&
		memcmp(c->width, t->model.width, (c->layers + 1) * sizeof(c->width[0])) == 0;

	if (!fits)
		differs = "widths of layers";
	else if (c->velocities != t->options->optimizer->velocities)
		differs = "--optimizer";
	else if (c->numbers != t->model.numbers)
		differs = "--dtype";
	else if (c->data != t->data_hash)
		differs = "data";
	else if (c->options != options_curve_hash(t->options, t->batch, ranks_at_start(t)))
		differs =
			"options that shape the curve (such as --lr, --batch, --epochs; with --sync "
			"local the number of ranks, too)";
	else if (c->epoch_count > t->options->epochs ||
		 c->step != c->epoch_count * t->steps_per_epoch)
		differs = "steps";
	if (!differs)
		return TUTTI_OK;
	return why_set(
		why, TUTTI_ERR_INVALID,
		"%s: is of a training with other %s; give the same as then, or another --save",
		path, differs);
}

/* All weights, however they are cut. */
static size_t whole_parameters(const struct training *t)
{
	return model_parameter_count(t->model.width, t->model.cut.of);
}

/* The file has all velocity; a state that has none leaves it to be shared out, and of a model that is
 * cut everything. */
static void take_state(struct training *t, struct checkpoint *c)
{
	const struct state *state = &t->state;
	const size_t weights = state->parameters * state->numbers->size;
	struct sums sums;

	if (grid_is_cut(&t->grid)) {
		t->whole = (void *)c->state;
		c->state = NULL;
		return;
	}
	if (!t->sync->shares_velocity) {
		memcpy(state->now, c->state, state_bytes(state));
		return;
	}
	memcpy(state->now, c->state, weights);
	memcpy(t->velocity, (const char *)c->state + weights, c->velocities * weights);
	memcpy(&sums, (const char *)c->state + c->state_bytes - sizeof(sums), sizeof(sums));
	state_set_sums(&t->state, &sums);
}

static tutti_result_t take(struct training *t, struct checkpoint *c, struct why *why)
{
	struct history *history = &t->report->history;
	tutti_result_t result = check_fits(t, c, why);

	if (result == TUTTI_OK)
		result = history_reserve(history, c->epoch_count, 0, why);
	if (result != TUTTI_OK)
		return result;
	take_state(t, c);
	t->state.step = c->step;
	memcpy(history->epochs, c->epochs, c->epoch_count * sizeof(*c->epochs));
	history->epoch_count = c->epoch_count;
	t->resumed_s = c->seconds;
	report_resumed(t->report);
	return TUTTI_OK;
}

static tutti_result_t resume(struct training *t, struct why *why)
{
	struct checkpoint c = { 0 };
	tutti_result_t result;

	if (access(t->options->save, F_OK) < 0 && errno == ENOENT)
		return TUTTI_OK; /* the first of several runs */
	result = checkpoint_read(t->options->save, &c, why);
	if (result == TUTTI_OK)
		result = take(t, &c, why);
	checkpoint_finish(&c);
	return result;
}

tutti_result_t save_open(struct training *t, struct why *why)
{
	const struct options *o = t->options;
	tutti_result_t result = TUTTI_OK;

	if (t->team->rank > 0)
		return TUTTI_OK;
	if (o->save && o->resume && t->sync->shares_velocity && !grid_is_cut(&t->grid)) {
		t->velocity = calloc(o->optimizer->velocities * t->model.parameters + 1,
				     t->model.numbers->size);
		if (!t->velocity)
			return why_no_memory(why, "the velocity of all ranks");
	}
	if (o->save)
		result = replace_check(o->save, why);
	if (result == TUTTI_OK && o->predict)
		result = replace_check(o->predict, why);
	return result == TUTTI_OK && o->resume ? resume(t, why) : result;
}

/* ---- a checkpoint */

/* Of a model that is cut: this stage's velocity `k`, as the first line has it. With shares `shared` is
 * where it is collected; NULL on other lines. */
static tutti_result_t collect_cut(struct training *t, char *bytes, void *shared, struct why *why)
{
	const struct numbers *numbers = t->model.numbers;
	const size_t all = whole_parameters(t);
	const void *own = t->sync->shares_velocity ? shared : state_now(&t->state, 0).velocity[0];
	tutti_result_t result = TUTTI_OK;

	if (t->sync->shares_velocity)
		result = t->sync->collect(t, shared, why);
	if (result == TUTTI_OK)
		result = grid_collect(t, state_now(&t->state, 0).weights, bytes, why);
	for (unsigned k = 0; k < t->options->optimizer->velocities && result == TUTTI_OK; k++)
		result = grid_collect(
			t, own ? numbers_from(numbers, own, k * t->model.parameters) : NULL,
			bytes ? numbers_at(numbers, bytes, (k + 1) * all) : NULL, why);
	return result;
}

static tutti_result_t collect_stages(struct training *t, char *bytes, struct why *why)
{
	const bool shared = t->sync->shares_velocity && t->grid.line == 0;
	void *velocity =
		shared ? calloc(t->options->optimizer->velocities * t->model.parameters + 1,
				t->model.numbers->size)
		       : NULL;
	tutti_result_t result;

	if (shared && !velocity)
		return why_no_memory(why, "a checkpoint");
	result = collect_cut(t, bytes, velocity, why);
	free(velocity);
	return result;
}

/* `bytes` is of a state that keeps all velocity. */
static tutti_result_t collect(struct training *t, char *bytes, size_t length, struct why *why)
{
	const struct state *state = &t->state;
	const size_t weights = state->parameters * state->numbers->size;
	const struct sums sums = state_sums(state);

	if (bytes) {
		memset(bytes, 0, length);
		memcpy(bytes + length - sizeof(sums), &sums, sizeof(sums));
	}
	if (grid_is_cut(&t->grid))
		return collect_stages(t, bytes, why);
	if (bytes)
		memcpy(bytes, state->now, weights);
	if (t->sync->shares_velocity)
		return t->sync->collect(t, bytes ? bytes + weights : NULL, why);
	if (bytes)
		memcpy(bytes + weights, (const char *)state->now + weights,
		       t->options->optimizer->velocities * weights);
	return TUTTI_OK;
}

static tutti_result_t write_checkpoint(const struct training *t, const void *state, size_t length,
				       struct why *why)
{
	const struct history *history = &t->report->history;
	const struct data *samples = t->sharded ? &t->sharded->own : &t->data;
	struct checkpoint c = {
		.numbers = t->model.numbers,
		.layers = t->model.cut.of,
		.velocities = t->options->optimizer->velocities,
		.options = options_curve_hash(t->options, t->batch, ranks_at_start(t)),
		.data = t->data_hash,
		.step = t->state.step,
		.epoch_count = history->epoch_count,
		.seconds = now_s() - t->start_s,
		.ranks = t->team->size,
		.epochs = history->epochs,
		.state = state,
		.state_bytes = length,
		.mean = samples->mean,
		.inverse = samples->inverse,
	};

	memcpy(c.width, t->model.width, sizeof(t->model.width));
	return checkpoint_write(t->options->save, &c, why);
}

static bool is_due(const struct training *t)
{
	const unsigned done = t->report->history.epoch_count;

	return t->options->save &&
	       (done % t->options->every_epochs == 0 || done == t->options->epochs);
}

tutti_result_t save_epoch(struct training *t, struct why *why)
{
	const bool writes = t->team->rank == 0;
	const size_t length = state_bytes_of(
		t->model.numbers, (1 + t->options->optimizer->velocities) * whole_parameters(t));
	tutti_result_t result;
	char *bytes = NULL;

	if (!is_due(t) || (!writes && !t->sync->shares_velocity && !grid_is_cut(&t->grid)))
		return TUTTI_OK;
	if (writes)
		bytes = malloc(length);
	if (writes && !bytes)
		return why_no_memory(why, "a checkpoint");
	result = collect(t, bytes, length, why);
	if (result == TUTTI_OK && writes)
		result = write_checkpoint(t, bytes, length, why);
	free(bytes);
	return result;
}

/* ---- predictions */

static int by_row(const void *a, const void *b)
{
	const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return (one > other) - (one < other);
}

enum { LINE_MOST = 12 }; /* bytes of a label and the end of its line */

tutti_result_t save_predictions(struct training *t, struct why *why)
{
	const size_t rows = t->split.test_rows;
	uint32_t *order = malloc((rows + 1) * sizeof(*order)),
		 *labels = malloc((rows + 1) * sizeof(*labels));
	char *text = malloc(rows * LINE_MOST + 1);
	tutti_result_t result =
		order && labels && text ? TUTTI_OK : why_no_memory(why, "predictions");
	size_t used = 0;

	if (result == TUTTI_OK) {
		memcpy(order, t->split.test, rows * sizeof(*order));
		qsort(order, rows, sizeof(*order), by_row);
		result = t->engine->predict(t, order, rows, labels, why);
	}
	for (size_t i = 0; i < rows && result == TUTTI_OK; i++)
		used += (size_t)snprintf(text + used, LINE_MOST, "%u\n", labels[i]);
	if (result == TUTTI_OK)
		result = replace_file(t->options->predict, text, used, why);
	free(order);
	free(labels);
	free(text);
	return result;
}
