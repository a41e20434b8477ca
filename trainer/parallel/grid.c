/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the teams of lines and columns, and which layers are whose. */
#include "grid.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "train.h"

bool grid_is_cut(const struct grid *grid)
{
	return grid->stages > 1 || grid->ways > 1;
}

/* As the user said it. */
static const char *said(const struct parallel *p, char text[96])
{
	const struct {
		const char *name;
		bool is;
		unsigned count;
	} axes[] = { { "data", p->data > 0, p->data },
		     { "pipeline", p->pipeline, p->stages },
		     { "tensor", p->tensor, p->ways } };
	size_t used = 0;

	for (int i = 0; i < 3; i++) {
		if (!axes[i].is)
			continue;
		used += (size_t)snprintf(text + used, 96 - used, "%s%s", used ? "," : "",
					 axes[i].name);
		if (axes[i].count)
			used += (size_t)snprintf(text + used, 96 - used, "=%u", axes[i].count);
	}
	return text;
}

/* What is said of each axis, and one that was not takes the ranks that are left. */
static bool share_out_ranks(const struct parallel *p, unsigned ranks, struct grid *out)
{
	unsigned axis[3] = { p->data, p->pipeline ? p->stages : 1, p->tensor ? p->ways : 1 };
	unsigned product = 1, *open = NULL;
	char text[96];

	if (p->data == 0 && axis[1] > 0 && axis[2] > 0)
		open = &axis[0];
	else if (p->data == 0)
		axis[0] = 1;
	for (int i = 0; i < 3; i++) {
		open = axis[i] == 0 ? &axis[i] : open;
		product *= axis[i] == 0 ? 1 : axis[i];
	}
	if (open && ranks % product == 0 && ranks >= product)
		*open = ranks / product;
	else if (ranks != product)
		return why_set(TUTTI_ERR_INVALID,
			       "--parallel: found %s with %u rank%s, expected %s%u; start as many",
			       said(p, text), ranks, ranks == 1 ? "" : "s",
			       open ? "a multiple of " : "", product);
	*out = (struct grid){ .lines = (int)axis[0], .stages = (int)axis[1], .ways = (int)axis[2] };
	return true;
}

bool grid_place(const struct options *o, struct team *team, struct grid *out)
{
	struct grid grid = { .lines = team->started, .stages = 1, .ways = 1 };
	bool ok = true;

	if (o->parallel.pipeline || o->parallel.tensor)
		ok = share_out_ranks(&o->parallel, (unsigned)team->started, &grid);
	if (!ok)
		return false;
	grid.way = team->rank % grid.ways;
	grid.stage = grid.stages - 1 - team->rank / grid.ways % grid.stages;
	grid.line = team->rank / grid.ways / grid.stages;
	grid.micro = o->micro ? o->micro : grid.stages > 1 ? 4 : 1;
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

/* Of the first `layers` layers on the first stages. */
struct best {
	double slowest; /* seconds of the stage that takes longest, in units of its share */
	unsigned first; /* layer of the last of these stages */
};

/* The stages up to `stage` hold the layers before `layers`: the last of them from which layer on? What
 * stages hand on is whole: those of layers in parts have an even number of these, but for the first. */
static struct best add_stage(const struct grid *grid, const struct options *o, const size_t *width,
			     const struct best *before, int stage, unsigned layers)
{
	struct best best = { DBL_MAX, 0 };
	double own = 0;

	for (unsigned first = layers; first-- > (unsigned)stage;) {
		own += cost_of(width, first);
		if (grid->ways > 1 && stage > 0 && (layers - first) % 2 == 1)
			continue;
		const double time = own / share_of(o, stage),
			     slowest = before[first].slowest > time ? before[first].slowest : time;

		if (slowest < best.slowest)
			best = (struct best){ slowest, first };
	}
	return best;
}

/* Each part has one input or output at least. */
static bool check_parts(const struct grid *grid, const size_t *width, struct cut cut)
{
	for (unsigned b = cut.layers; b-- > 0;)
		if ((cut.layers - b) % 2 == 1 && width[cut.first + b] < (size_t)grid->ways)
			return why_set(
				TUTTI_ERR_INVALID,
				"--parallel: found %d parts of %s %u, which has %zu, expected as "
				"many at least; give a wider one, or fewer parts",
				grid->ways,
				cut.first + b ? "hidden layer" : "features before layer",
				cut.first + b ? cut.first + b : 1, width[cut.first + b]);
	return true;
}

bool grid_cut(const struct grid *grid, const struct options *o, const size_t *width,
	      unsigned layers, struct cut *out)
{
	struct best table[MODEL_LAYERS_MAX + 1][MODEL_LAYERS_MAX + 1]; /* [stages][layers] */
	unsigned end = layers;

	if ((unsigned)grid->stages > layers)
		return why_set(TUTTI_ERR_INVALID,
			       "--parallel: found %d stages for %u layer%s, expected a layer for "
			       "each stage at least; give more --hidden layers, or fewer stages",
			       grid->stages, layers, layers == 1 ? "" : "s");
	for (unsigned n = 0; n <= layers; n++)
		table[0][n] = (struct best){ n == 0 ? 0 : DBL_MAX, 0 };
	for (int s = 0; s < grid->stages; s++)
		for (unsigned n = 0; n <= layers; n++)
			table[s + 1][n] = add_stage(grid, o, width, table[s], s, n);
	if (table[grid->stages][layers].slowest == DBL_MAX)
		return why_set(
			TUTTI_ERR_INVALID,
			"--parallel: found %d stages for %u layers in parts, expected two layers "
			"for each stage but the first at least; give more --hidden layers, or fewer "
			"stages",
			grid->stages, layers);
	for (int s = grid->stages; s-- > 0;) {
		const unsigned first = table[s + 1][end].first;

		if (s == grid->stage)
			*out = (struct cut){ first, end - first, layers, grid->way, grid->ways };
		end = first;
	}
	return check_parts(grid, width, *out);
}

/* ---- teams */

bool grid_begin(struct grid *grid, struct team *team)
{
	const int stages = grid->stages, ways = grid->ways;
	bool ok;

	if (!grid_is_cut(grid) || grid->own_column.comm)
		return true;
	ok = team_divide(team, grid->line * ways + grid->way, team->rank, &grid->own_stages) &&
	     team_divide(team, grid->line * stages + grid->stage, team->rank, &grid->mates) &&
	     team_divide(team, grid->stage * ways + grid->way, team->rank, &grid->own_column);
	if (ok)
		grid->column = &grid->own_column;
	return ok;
}

void grid_finish(struct grid *grid)
{
	struct team *teams[] = { &grid->own_stages, &grid->mates, &grid->own_column };

	for (int i = 0; i < 3; i++)
		if (teams[i]->comm)
			team_leave(teams[i]);
}

bool grid_sum_parts(struct grid *grid, const struct numbers *numbers, void *values, size_t count)
{
	return grid->ways <= 1 || count <= 0 ||
	       team_start_sum(&grid->mates, numbers, values, count, NULL);
}

bool grid_sum(struct grid *grid, double *values, size_t count)
{
	bool ok = grid_sum_parts(grid, &numbers_f64, values, count);

	if (ok && grid->stages > 1)
		ok = team_sum(&grid->own_stages, values, count);
	return ok;
}

/* ---- all weights of a line */

/* The cut of the rank of this line that is at another stage, or has another part. */
static bool cut_of(const struct training *t, int stage, int way, struct cut *out)
{
	struct grid place = t->grid;

	place.stage = stage;
	place.way = way;
	return grid_cut(&place, t->options, t->model.width, t->model.cut.of, out);
}

/* Numbers of whole layers of each stage, in order of rank. */
static bool count_stages(const struct training *t, size_t *counts)
{
	bool ok = true;

	for (int r = 0; r < t->grid.stages && ok; r++) {
		struct cut cut = { 0 };

		ok = cut_of(t, t->grid.stages - 1 - r, 0, &cut);
		counts[r] = model_parameter_count(t->model.width + cut.first, cut.layers);
	}
	return ok;
}

/* What the mates of a stage hold, one part behind the other, and what it is a part of. */
struct parts {
	size_t *counts; /* [ways] */
	void *pieces;	/* the first part's: all */
	void *whole;	/* likewise: layers as they are when whole */
};

static struct cut part_of_stage(const struct training *t, int way)
{
	struct cut cut = t->model.cut;

	cut.way = way;
	return cut;
}

static bool create_parts(const struct training *t, struct parts *out)
{
	const size_t size = t->model.numbers->size;
	size_t all = 0;

	*out = (struct parts){ .counts = calloc((size_t)t->grid.ways, sizeof(*out->counts)) };
	for (int w = 0; out->counts && w < t->grid.ways; w++) {
		out->counts[w] = model_cut_parameters(t->model.width, part_of_stage(t, w));
		all += out->counts[w];
	}
	if (t->grid.way == 0) {
		out->pieces = malloc(all * size);
		out->whole = malloc(model_parameter_count(t->model.width + t->model.cut.first,
							  t->model.layers) *
				    size);
	}
	return (out->counts && (t->grid.way > 0 || (out->pieces && out->whole))) ||
	       why_no_memory("all parts of a stage");
}

static void finish_parts(struct parts *parts)
{
	free(parts->counts);
	free(parts->pieces);
	free(parts->whole);
}

/* Between the pieces and the whole. */
static void join(const struct training *t, const struct parts *parts, bool takes)
{
	char *piece = parts->pieces;

	for (int w = 0; w < t->grid.ways; w++) {
		if (takes)
			model_take_part(t->model.numbers, t->model.width, part_of_stage(t, w),
					parts->whole, piece);
		else
			model_put_part(t->model.numbers, t->model.width, part_of_stage(t, w), piece,
				       parts->whole);
		piece += parts->counts[w] * t->model.numbers->size;
	}
}

static bool collect(struct training *t, struct parts *parts, const void *mine, void *all)
{
	size_t counts[MODEL_LAYERS_MAX];
	bool ok = count_stages(t, counts) && team_collect(&t->grid.mates, t->model.numbers, mine,
							  parts->counts, parts->pieces);

	if (!ok || t->grid.way > 0)
		return ok;
	join(t, parts, false);
	return team_collect(&t->grid.own_stages, t->model.numbers, parts->whole, counts, all);
}

bool grid_collect(struct training *t, const void *mine, void *all)
{
	struct parts parts = { 0 };
	bool ok;

	if (t->grid.line > 0)
		return true;
	ok = create_parts(t, &parts) && collect(t, &parts, mine, all);
	finish_parts(&parts);
	return ok;
}

static bool share_out(struct training *t, struct parts *parts, const void *all, void *mine)
{
	size_t counts[MODEL_LAYERS_MAX];
	bool ok = count_stages(t, counts);

	if (ok && t->grid.way == 0) {
		ok = team_share_out(&t->grid.own_stages, t->model.numbers, all, counts,
				    parts->whole);
		if (ok)
			join(t, parts, true);
	}
	return ok &&
	       team_share_out(&t->grid.mates, t->model.numbers, parts->pieces, parts->counts, mine);
}

bool grid_share_out(struct training *t, const void *all, void *mine)
{
	const size_t bytes = t->model.parameters * t->model.numbers->size;
	struct parts parts = { 0 };
	bool ok = true;

	if (t->grid.line == 0) {
		ok = create_parts(t, &parts) && share_out(t, &parts, all, mine);
		finish_parts(&parts);
	}
	return ok && team_broadcast(t->grid.column, mine, mine, bytes, 0);
}
