/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the teams of lines and columns, and which layers are whose. */
#include "grid.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "train.h"

bool grid_is_cut(const struct grid *grid)
{
	return grid->stages > 1 || grid->ways > 1;
}

/* What is said of each axis, and one that was not takes the ranks that are left. */
static bool share_out_ranks(const struct options *o, unsigned ranks, struct grid *out)
{
	const struct parallel *p = &o->parallel;
	unsigned axis[3] = { p->data, p->pipeline ? p->stages : 1, p->tensor ? p->ways : 1 };
	unsigned product = 1, *open = NULL;

	if (p->data == 0 && (axis[1] == 0 || axis[2] == 0))
		axis[0] = 1;
	for (int i = 0; i < 3; i++) {
		if (axis[i] == 0)
			open = &axis[i];
		else
			product *= axis[i];
	}
	if (open && ranks % product == 0 && ranks >= product)
		*open = ranks / product;
	else if (ranks != product)
		return why_invalid(
			"--parallel: found %s with %u rank%s, expected %s%u; start as many",
			option_said(o, "parallel"), ranks, ranks == 1 ? "" : "s",
			open ? "a multiple of " : "", product);
	*out = (struct grid){ .lines = (int)axis[0], .stages = (int)axis[1], .ways = (int)axis[2] };
	return true;
}

bool grid_place(const struct options *o, struct team *team, struct grid *out)
{
	struct grid grid = { .lines = team->started, .stages = 1, .ways = 1 };

	if ((o->parallel.pipeline || o->parallel.tensor) &&
	    !share_out_ranks(o, (unsigned)team->started, &grid))
		return false;
	grid.way = team->rank % grid.ways;
	grid.stage = grid.stages - 1 - team->rank / grid.ways % grid.stages;
	grid.line = team->rank / grid.ways / grid.stages;
	grid.parts = o->accumulate ? o->accumulate : grid.stages > 1 ? 4 : 1;
	grid.column = team;
	*out = grid;
	return true;
}

/* ---- which layers */

/* Products of the two passes: the first layer has no delta to hand on. */
static double cost_of(const size_t *width, unsigned l)
{
	return (double)width[l] * (double)width[l + 1] * (l == 0 ? 2 : 3);
}

static double share_of(const struct options *o, int stage)
{
	return o->shares.count > 0 ? o->shares.of[stage] : 1;
}

/* The layers before `end` on the stages up to `stage`, so that the slowest of them takes as little
 * as possible: how long that is, in units of a share; DBL_MAX: there is no way. What stages hand on
 * is whole: those of layers in parts have an even number of these, but for the first. */
static double divide(const struct grid *grid, const struct options *o, const size_t *width,
		     int stage, unsigned end, unsigned *first)
{
	unsigned before[MODEL_LAYERS_MAX + 1];
	double own = 0, best = DBL_MAX;

	if (stage < 0)
		return end == 0 ? 0 : DBL_MAX;
	for (unsigned begin = end; begin-- > (unsigned)stage;) {
		own += cost_of(width, begin);
		if (grid->ways > 1 && stage > 0 && (end - begin) % 2 == 1)
			continue;
		const double slowest = fmax(own / share_of(o, stage),
					    divide(grid, o, width, stage - 1, begin, before));

		if (slowest < best) {
			best = slowest;
			memcpy(first, before, (size_t)stage * sizeof(*first));
			first[stage] = begin;
		}
	}
	return best;
}

/* Of the rank of a line that is `rank` in it. */
static struct cut cut_of(const struct grid *grid, int rank)
{
	const int stage = grid->stages - 1 - rank / grid->ways;
	const unsigned first = grid->first[stage];

	return (struct cut){ first, grid->first[stage + 1] - first, grid->first[grid->stages],
			     rank % grid->ways, grid->ways };
}

/* Each part has one input or output at least. */
static bool check_parts(const struct grid *grid, const size_t *width, struct cut cut)
{
	for (unsigned b = cut.layers; b-- > 0;)
		if ((cut.layers - b) % 2 == 1 && width[cut.first + b] < (size_t)grid->ways)
			return why_invalid(
				"--parallel: found %d parts of %s %u, which has %zu, expected as "
				"many at least; give a wider one, or fewer parts",
				grid->ways,
				cut.first + b ? "hidden layer" : "features before layer",
				cut.first + b ? cut.first + b : 1, width[cut.first + b]);
	return true;
}

bool grid_cut(struct grid *grid, const struct options *o, const size_t *width, unsigned layers,
	      struct cut *out)
{
	if ((unsigned)grid->stages > layers)
		return why_invalid(
			"--parallel: found %d stages for %u layer%s, expected a layer for "
			"each stage at least; give more --hidden layers, or fewer stages",
			grid->stages, layers, layers == 1 ? "" : "s");
	if (divide(grid, o, width, grid->stages - 1, layers, grid->first) == DBL_MAX)
		return why_invalid(
			"--parallel: found %d stages for %u layers in parts, expected two layers "
			"for each stage but the first at least; give more --hidden layers, or fewer "
			"stages",
			grid->stages, layers);
	grid->first[grid->stages] = layers;
	*out = cut_of(grid, (grid->stages - 1 - grid->stage) * grid->ways + grid->way);
	return check_parts(grid, width, *out);
}

/* ---- teams */

bool grid_begin(struct grid *grid, struct team *team)
{
	const int line = grid->stages * grid->ways;

	if (!grid_is_cut(grid))
		return true;
	if (!team_divide(team, grid->line * line, 1, &grid->own_line) ||
	    !team_divide(team, team->rank - grid->way, 1, &grid->mates) ||
	    !team_divide(team, team->rank - grid->line * line, line, &grid->own_column))
		return false;
	grid->column = &grid->own_column;
	return true;
}

void grid_finish(struct grid *grid)
{
	struct team *teams[] = { &grid->own_line, &grid->mates, &grid->own_column };

	for (int i = 0; i < 3; i++)
		if (teams[i]->comm)
			team_leave(teams[i]);
}

bool grid_sum_parts(struct grid *grid, const struct numbers *numbers, void *values, size_t count)
{
	return grid->ways <= 1 || count == 0 ||
	       team_start_sum(&grid->mates, numbers, values, count, NULL);
}

bool grid_sum(struct grid *grid, double *values, size_t count)
{
	return !grid_is_cut(grid) || team_sum(&grid->own_line, values, count);
}

/* ---- all weights of a line */

/* Between the pieces and the whole model. The last stage comes first in both. */
static void join(const struct training *t, char *piece, char *whole, bool takes)
{
	const struct numbers *numbers = t->model.numbers;
	const size_t *width = t->model.width;

	for (int r = 0; r < t->grid.stages * t->grid.ways; r++) {
		const struct cut cut = cut_of(&t->grid, r);

		model_copy_part(numbers, width, cut, whole, piece, takes);
		piece += model_cut_parameters(width, cut) * numbers->size;
		if (cut.way == cut.ways - 1)
			whole += model_parameter_count(width + cut.first, cut.layers) *
				 numbers->size;
	}
}

/* Between what rank 0 has of all weights, and each rank of its line. */
static bool exchange(struct training *t, void *mine, void *all, bool collects)
{
	struct team *line = &t->grid.own_line;
	const bool joins = line->rank == 0;
	size_t *counts = calloc((size_t)line->size, sizeof(*counts)), sum = 0;

	for (int r = 0; counts && r < line->size; r++)
		sum += counts[r] = model_cut_parameters(t->model.width, cut_of(&t->grid, r));
	void *pieces = joins ? malloc(sum * t->model.numbers->size) : NULL;
	bool ok = (counts && (pieces || !joins)) || why_no_memory("all pieces of the model");

	if (ok && joins && !collects)
		join(t, pieces, all, true);
	ok = ok && team_exchange(line, t->model.numbers, counts, mine, pieces, collects);
	if (ok && joins && collects)
		join(t, pieces, all, false);
	free(pieces);
	free(counts);
	return ok;
}

bool grid_exchange(struct training *t, void *mine, void *all, bool collects)
{
	const size_t bytes = t->model.parameters * t->model.numbers->size;

	return (t->grid.line > 0 || exchange(t, mine, all, collects)) &&
	       (collects || team_broadcast(t->grid.column, mine, mine, bytes, 0));
}
