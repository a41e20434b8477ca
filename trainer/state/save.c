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

#include "checkpoint.h"
#include "predict.h"
#include "replace.h"
#include "train.h"

static int ranks_at_start(const struct training *t)
{
	return (int)(t->workers + t->options->servers);
}

/* ---- going on from a checkpoint */

static tutti_result_t refuse(const struct training *t, const char *what, struct why *why)
{
	return why_set(why, TUTTI_ERR_INVALID,
		       "%s: is of a training with %s; give the same as then, or another --save",
		       t->options->save, what);
}

static tutti_result_t check_fits(const struct training *t, const struct checkpoint *c,
				 struct why *why)
{
	json_t *options = options_curve(t->options, t->batch, ranks_at_start(t));
	char text[320];
	const bool differ = options && options_differ(c->options, options, text, sizeof(text));

	json_decref(options);
	if (!options)
		return why_no_memory(why, t->options->save);
	if (differ)
		return refuse(t, text, why);
	if (c->data != t->data_hash || c->layers != t->model.cut.of ||
	    memcmp(c->width, t->model.width, (c->layers + 1) * sizeof(c->width[0])) != 0)
		return refuse(t, "other data", why);
	if (c->step != c->epoch_count * t->steps_per_epoch)
		return refuse(t, "other steps in an epoch", why);
	snprintf(text, sizeof(text), "%u epochs, expected at most --epochs %u as now",
		 c->epoch_count, t->options->epochs);
	return c->epoch_count > t->options->epochs ? refuse(t, text, why) : TUTTI_OK;
}

static size_t weights_bytes(const struct training *t)
{
	return t->state.parameters * t->state.numbers->size;
}

/* A state that has no velocity leaves it to be shared out, and of a model that is cut everything. */
static void take_arrays(struct training *t, struct checkpoint *c)
{
	const bool cut = grid_is_cut(&t->grid);
	const struct trained now = state_now(&t->state, 0);

	if (cut || t->sync->shares_velocity) {
		t->velocity = c->array[VELOCITY];
		c->array[VELOCITY] = NULL;
	} else {
		memcpy(now.velocity[0], c->array[VELOCITY], c->velocities * weights_bytes(t));
	}
	if (cut) {
		t->whole = c->array[WEIGHTS];
		c->array[WEIGHTS] = NULL;
	} else {
		memcpy(now.weights, c->array[WEIGHTS], weights_bytes(t));
	}
}

static tutti_result_t take(struct training *t, struct checkpoint *c, struct why *why)
{
	struct history *history = &t->report->history;
	tutti_result_t result = check_fits(t, c, why);

	if (result == TUTTI_OK)
		result = history_reserve(history, c->epoch_count, 0, why);
	if (result != TUTTI_OK)
		return result;
	take_arrays(t, c);
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

tutti_result_t save_check(const struct options *o, struct why *why)
{
	const struct named_file files[] = {
		{ "--data", o->source.path },
		{ "--labels", o->source.labels },
		{ "--test-data", o->source.test_path },
		{ "--test-labels", o->source.test_labels },
		{ "--save", o->save },
		{ "--predict", o->predict },
		{ "--json", o->json && strcmp(o->json, "-") != 0 ? o->json : NULL },
		{ "--plot", o->plots[0] },
		{ "--plot", o->plots[1] },
		{ "--plot", o->plots[2] },
		{ "--plot", o->plots[3] },
	};

	return replace_distinct(files, 4, sizeof(files) / sizeof(files[0]), why);
}

tutti_result_t save_open(struct training *t, struct why *why)
{
	const struct options *o = t->options;
	tutti_result_t result = TUTTI_OK;

	if (t->team->rank > 0)
		return TUTTI_OK;
	if (o->save)
		result = replace_file(o->save, NULL, 0, why);
	if (result == TUTTI_OK && o->predict)
		result = replace_file(o->predict, NULL, 0, why);
	return result == TUTTI_OK && o->resume ? resume(t, why) : result;
}

/* ---- a checkpoint */

/* To rank 0 weights and velocity of the whole model, in the state or in memory that is `owned`. Velocity
 * in shares is collected first: that of this rank's piece, where the model is cut. */
static tutti_result_t collect(struct training *t, struct checkpoint *c, void *owned[3],
			      struct why *why)
{
	const struct numbers *numbers = t->model.numbers;
	const bool writes = t->team->rank == 0, cut = grid_is_cut(&t->grid),
		   shares = t->sync->shares_velocity,
		   gathers = shares && (cut ? t->grid.line == 0 : writes);
	const size_t all = model_parameter_count(t->model.width, t->model.cut.of);
	const struct trained now = state_now(&t->state, 0);
	tutti_result_t result = TUTTI_OK;

	if (gathers)
		owned[0] = calloc(c->velocities * t->model.parameters + 1, numbers->size);
	if (cut && writes) {
		owned[1] = malloc(all * numbers->size);
		owned[2] = malloc(c->velocities * all * numbers->size + 1);
	}
	if ((gathers && !owned[0]) || (cut && writes && (!owned[1] || !owned[2])))
		return why_no_memory(why, "a checkpoint");
	void *const own = shares ? owned[0] : now.velocity[0];

	c->array[WEIGHTS] = cut ? owned[1] : now.weights;
	c->array[VELOCITY] = cut ? owned[2] : own;
	if (shares)
		result = t->sync->collect(t, own, why);
	if (!cut || result != TUTTI_OK)
		return result;
	result = grid_collect(t, now.weights, owned[1], why);
	for (unsigned k = 0; k < c->velocities && result == TUTTI_OK; k++)
		result =
			grid_collect(t, sync_velocity(t, own, k),
				     owned[2] ? numbers_at(numbers, owned[2], k * all) : NULL, why);
	return result;
}

static tutti_result_t write_checkpoint(const struct training *t, struct checkpoint *c,
				       struct why *why)
{
	const struct history *history = &t->report->history;
	const struct data *samples = t->sharded ? &t->sharded->own : &t->data;
	tutti_result_t result;

	c->options = options_curve(t->options, t->batch, ranks_at_start(t));
	if (!c->options)
		return why_no_memory(why, "a checkpoint");
	c->numbers = t->model.numbers;
	c->data = t->data_hash;
	c->layers = t->model.cut.of;
	memcpy(c->width, t->model.width, sizeof(t->model.width));
	c->step = t->state.step;
	c->ranks = t->team->size;
	c->seconds = now_s() - t->start_s;
	c->epoch_count = history->epoch_count;
	c->epochs = history->epochs;
	c->array[MEAN] = samples->mean;
	c->array[FACTOR] = samples->inverse;
	result = checkpoint_write(t->options->save, c, why);
	json_decref(c->options);
	return result;
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
	struct checkpoint c = { .velocities = t->options->optimizer->velocities };
	void *owned[3] = { NULL };
	tutti_result_t result;

	if (!is_due(t) || (!writes && !t->sync->shares_velocity && !grid_is_cut(&t->grid)))
		return TUTTI_OK;
	result = collect(t, &c, owned, why);
	if (result == TUTTI_OK && writes)
		result = write_checkpoint(t, &c, why);
	for (int i = 0; i < 3; i++)
		free(owned[i]);
	return result;
}

/* ---- predictions */

static int by_row(const void *a, const void *b)
{
	const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return (one > other) - (one < other);
}

tutti_result_t save_predictions(struct training *t, struct why *why)
{
	const size_t rows = t->split.test_rows;
	uint32_t *order = malloc((rows + 1) * sizeof(*order));
	tutti_result_t result;

	if (!order)
		return why_no_memory(why, "predictions");
	memcpy(order, t->split.test, rows * sizeof(*order));
	qsort(order, rows, sizeof(*order), by_row);
	result = predict_write(&t->model, &t->data, order, rows, t->options->predict, NULL, why);
	free(order);
	return result;
}
