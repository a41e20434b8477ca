/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: what the ways to train together have in common. */
#include "sync.h"

#include <math.h>
#include <string.h>

#include "train.h"

bool sync_weights(struct training *t, unsigned l)
{
	struct bucket *bucket = buckets_find(&t->buckets, l);

	return !bucket->request || team_wait(t->grid.column, &bucket->request);
}

bool sync_wait_all(struct training *t, tutti_request_t *requests, size_t *pending)
{
	for (size_t i = 0; i < *pending; i++)
		if (!team_wait(t->team, &requests[i]))
			return false;
	*pending = 0;
	return true;
}

void sync_store_sums(struct training *t, const struct sums *sums)
{
	t->model.numbers->sums->store(model_sums(&t->model), (const double *)sums, SUMS_NUMBERS);
}

struct sums sync_load_sums(const struct training *t)
{
	struct sums sums;

	t->model.numbers->sums->load((double *)&sums, model_sums(&t->model), SUMS_NUMBERS);
	return sums;
}

/* ---- updates */

struct rule sync_rule(const struct training *t)
{
	struct rule rule = t->options->rule;

	rule.rate = rate_at(&t->plan, t->state.step);
	rule.step = t->state.step + 1 - t->velocity_since;
	rule.part = rule.trust = 1;
	return rule;
}

/* What of a stretch is of layer `l`; empty: nothing. */
static struct slice within(const struct training *t, const struct stretch *s, unsigned l)
{
	const struct layer *layer = &t->model.layer[l];
	const size_t end = s->of.first + s->of.count, layer_end = layer->offset + layer->count;
	const size_t from = layer->offset > s->of.first ? layer->offset : s->of.first;
	const size_t to = layer_end < end ? layer_end : end;

	return (struct slice){ from, from < to ? to - from : 0 };
}

static struct trained from_place(const struct training *t, struct trained trained, size_t place)
{
	trained.weights = numbers_at(t->model.numbers, trained.weights, place);
	for (unsigned k = 0; k < t->options->optimizer->velocities; k++)
		trained.velocity[k] = numbers_at(t->model.numbers, trained.velocity[k], place);
	return trained;
}

static void *gradients_at(const struct training *t, size_t first)
{
	return numbers_at(t->model.numbers->gradients, t->model.gradients, first);
}

/* Pascanu et al. 2013, algorithm 1. */
static bool clip(struct training *t, const struct stretch *s, unsigned count, bool parted)
{
	const struct numbers *numbers = t->model.numbers->gradients;
	double sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += numbers->square_sum(gradients_at(t, s[i].of.first), s[i].of.count);
	if ((parted && !team_sum(t->grid.column, &sum, 1)) || !grid_sum(&t->grid, &sum, 1))
		return false;
	for (unsigned i = 0; i < count && sqrt(sum) > t->options->clip; i++)
		numbers->scale(gradients_at(t, s[i].of.first), s[i].of.count,
			       t->options->clip / sqrt(sum));
	return true;
}

static void measure(const struct training *t, const struct stretch *s, struct squares *sum)
{
	const struct rule rule = sync_rule(t);

	for (unsigned l = 0; l < t->model.layers; l++) {
		const struct slice piece = within(t, s, l);

		if (piece.count > 0)
			optimizer_measure(t->options->optimizer, t->model.numbers, &rule,
					  from_place(t, s->from, piece.first - s->of.first),
					  gradients_at(t, piece.first), piece.count, &sum[l]);
	}
}

bool sync_survey(struct training *t, const struct stretch *s, unsigned count, bool parted,
		 struct squares out[MODEL_LAYERS_MAX])
{
	const size_t bytes = MODEL_LAYERS_MAX * sizeof(*out), numbers = bytes / sizeof(double);

	memset(out, 0, bytes);
	if (t->options->clip > 0 && !clip(t, s, count, parted))
		return false;
	if (!t->options->optimizer->trust)
		return true;
	for (unsigned i = 0; i < count; i++)
		measure(t, &s[i], out);
	return (!parted || team_sum(t->grid.column, (double *)out, numbers)) &&
	       grid_sum_parts(&t->grid, &numbers_f64, out, numbers);
}

void sync_update(const struct training *t, const struct stretch *s, const struct squares *squares)
{
	const struct optimizer *optimizer = t->options->optimizer;
	struct rule rule = sync_rule(t);

	for (unsigned l = 0; l < t->model.layers; l++) {
		const struct slice piece = within(t, s, l);
		const size_t place = piece.first - s->of.first;

		if (piece.count == 0)
			continue;
		if (optimizer->trust)
			rule.trust = optimizer->trust(&rule, &squares[l], t->options->trust);
		optimizer_update(optimizer, t->model.numbers, &rule, from_place(t, s->from, place),
				 gradients_at(t, piece.first), piece.count,
				 from_place(t, s->to, place));
	}
}

void sync_advance(struct training *t)
{
	const struct sums sums = sync_load_sums(t);

	state_advance(&t->state, &sums, t->state.step % t->plan.epoch_steps == 0);
	t->model.weights = state_now(&t->state, 0).weights;
}

/* ---- who has what */

void *sync_velocity(const struct training *t, void *velocity, unsigned k)
{
	return velocity ? numbers_at(t->model.numbers, velocity, k * t->model.parameters) : NULL;
}

bool sync_keeps(const struct training *t)
{
	const struct optimizer *o = t->options->optimizer;
	const bool by_momentum = o->by == MOVE_MOMENTUM || o->by == MOVE_NESTEROV;

	return o->velocities > 0 && (t->options->rule.momentum > 0 || !by_momentum);
}

struct worker sync_worker(const struct training *t)
{
	const int servers = (int)t->options->servers, index = t->grid.column->rank - servers;

	return (struct worker){ index < 0 ? -1 : index, t->grid.column->size - servers };
}
