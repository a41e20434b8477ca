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
#include "replace.h"
#include "train.h"

static int ranks_at_start(const struct training *t)
{
	return (int)(t->workers + t->options->servers);
}

/* ---- going on from a checkpoint */

static bool refuse(const struct training *t, const char *what)
{
	return why_invalid("%s: is of a training with %s; give the same as then, or another --save",
			   t->options->save, what);
}

static bool check_fits(const struct training *t, const struct checkpoint *c)
{
	json_t *options = options_curve(t->options, t->batch, ranks_at_start(t));
	char text[320];
	const bool differ = options && options_differ(c->options, options, text, sizeof(text));

	json_decref(options);
	if (!options)
		return why_no_memory(t->options->save);
	if (differ)
		return refuse(t, text);
	if (c->data != t->data.hash || c->layers != t->model.cut.of ||
	    memcmp(c->width, t->model.width, (c->layers + 1) * sizeof(c->width[0])) != 0)
		return refuse(t, "other data");
	if (c->step != c->epoch_count * t->plan.epoch_steps)
		return refuse(t, "other steps in an epoch");
	snprintf(text, sizeof(text), "%u epochs, expected at most --epochs %u as now",
		 c->epoch_count, t->options->epochs);
	return c->epoch_count <= t->options->epochs || refuse(t, text);
}

/* It is no longer the checkpoint's. */
static void *own(void **array)
{
	void *taken = *array;

	*array = NULL;
	return taken;
}

/* A state that has no velocity leaves it to be shared out, and of a model that is cut
 * everything. */
static void take(struct training *t, struct checkpoint *c)
{
	const bool cut = grid_is_cut(&t->grid);
	const struct trained now = state_now(&t->state, 0);
	const size_t bytes = t->state.parameters * t->state.numbers->size;
	struct history *history = &t->report->history;

	if (cut)
		t->whole = own(&c->array[WEIGHTS]);
	else
		memcpy(now.weights, c->array[WEIGHTS], bytes);
	if (cut || t->sync->shares_velocity)
		t->velocity = own(&c->array[VELOCITY]);
	else
		memcpy(now.velocity[0], c->array[VELOCITY], c->velocities * bytes);
	t->state.step = c->step;
	memcpy(history->epochs, c->epochs, c->epoch_count * sizeof(*c->epochs));
	history->epoch_count = c->epoch_count;
	t->resumed_s = c->seconds;
	report_resumed(t->report);
}

static bool resume(struct training *t)
{
	struct checkpoint c = { 0 };
	bool ok;

	if (access(t->options->save, F_OK) < 0 && errno == ENOENT)
		return true; /* the first of several runs */
	ok = checkpoint_read(t->options->save, &c) && check_fits(t, &c);
	if (ok)
		take(t, &c);
	checkpoint_finish(&c);
	return ok;
}

bool save_check(const struct options *o)
{
	const struct named_file files[] = {
		{ "--data", o->source.path },
		{ "--labels", o->source.labels },
		{ "--test-data", o->source.test_path },
		{ "--test-labels", o->source.test_labels },
		{ "standard output", "/dev/stdout" },
		{ "--save", o->save },
		{ "--predict", o->predict },
		{ "--json", o->json && strcmp(o->json, "-") != 0 ? o->json : NULL },
		{ "--plot", o->plots[0] },
		{ "--plot", o->plots[1] },
		{ "--plot", o->plots[2] },
		{ "--plot", o->plots[3] },
	};

	return replace_distinct(files, 4, sizeof(files) / sizeof(files[0]));
}

bool save_open(struct training *t)
{
	const struct options *o = t->options;

	return t->team->rank > 0 ||
	       ((!o->save || replace_file(o->save, NULL, 0)) &&
		(!o->predict || replace_file(o->predict, NULL, 0)) && (!o->resume || resume(t)));
}

/* ---- a checkpoint */

/* To rank 0 weights and velocity of the whole model, in the state or in `*room`, the caller's to
 * free. Velocity in shares is collected first: that of this rank's piece, where the model is
 * cut. */
static bool collect(struct training *t, struct checkpoint *c, void **room)
{
	const struct numbers *numbers = t->model.numbers;
	const struct trained now = state_now(&t->state, 0);
	const bool writes = t->team->rank == 0, cut = grid_is_cut(&t->grid),
		   shares = t->sync->shares_velocity,
		   gathers = shares && (cut ? t->grid.line == 0 : writes);
	const size_t all = model_parameter_count(t->model.width, t->model.cut.of),
		     whole = cut && writes ? (1 + c->velocities) * all : 0;
	void *velocity = now.velocity[0];

	*room = calloc(whole + gathers * c->velocities * t->model.parameters + 1, numbers->size);
	if (!*room)
		return why_no_memory("a checkpoint");
	if (shares)
		velocity = gathers ? numbers_at(numbers, *room, whole) : NULL;
	if (shares && !kept_exchange(t, velocity, true))
		return false;
	c->array[WEIGHTS] = whole ? *room : now.weights;
	c->array[VELOCITY] = whole ? numbers_at(numbers, *room, all) : velocity;
	for (unsigned k = 0; cut && k <= c->velocities; k++)
		if (!grid_exchange(t, k == 0 ? now.weights : sync_velocity(t, velocity, k - 1),
				   whole ? numbers_at(numbers, *room, k * all) : NULL, true))
			return false;
	return true;
}

static bool write_checkpoint(struct training *t, bool writes)
{
	const struct history *history = &t->report->history;
	struct checkpoint c = {
		.numbers = t->model.numbers,
		.velocities = t->options->optimizer->velocities,
		.data = t->data.hash,
		.layers = t->model.cut.of,
		.step = t->state.step,
		.ranks = t->team->size,
		.seconds = now_s() - t->start_s,
		.epoch_count = history->epoch_count,
		.epochs = history->epochs,
		.array = { [MEAN] = t->data.mean, [FACTOR] = t->data.inverse },
	};
	void *room = NULL;
	bool ok = collect(t, &c, &room);

	if (ok && writes) {
		memcpy(c.width, t->model.width, sizeof(c.width));
		c.options = options_curve(t->options, t->batch, ranks_at_start(t));
		ok = c.options ? checkpoint_write(t->options->save, &c)
			       : why_no_memory("a checkpoint");
		json_decref(c.options);
	}
	free(room);
	return ok;
}

bool save_epoch(struct training *t)
{
	const struct options *o = t->options;
	const unsigned done = t->report->history.epoch_count;
	const bool writes = t->team->rank == 0,
		   has_part = t->sync->shares_velocity || grid_is_cut(&t->grid);

	if (!o->save || (done % o->every_epochs != 0 && done != o->epochs) ||
	    (!writes && !has_part))
		return true;
	return write_checkpoint(t, writes);
}
