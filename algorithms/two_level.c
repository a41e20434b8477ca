/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the exchange of short vectors through shared memory among many ranks: where `board` has
 * every rank read every other's lines, here it first reads those of a few that are near, its row,
 * and then what one rank of each other row made of its own. So P ranks read about 2 P sqrt(P) times
 * instead of P (P - 1), and lines of other caches and sockets are read as seldom as can be. Rows and
 * columns are Li, Hoefler and Snir's (HPDC 2013), but that no rank leads: all of a row combine it,
 * so nobody waits for a result to come back, and all do so in the same order. */
#include "algorithms.h"
#include "parts.h"

/* Ranks by rows, all of the same length; those of a row are of one domain. */
struct grid {
	int columns, rows; /* 0: there is none */
};

/* What a rank reads, in lines of its own domain. */
static int lines_read(const struct tt_extent *domains, int size, int columns)
{
	const int rows = size / columns, near = domains->fewest / columns;

	return columns - 1 + near - 1 + TT_FAR_LINE * (rows - near);
}

static struct grid grid_of(const struct tt_group *group)
{
	const struct tt_extent domains = tt_extent_of_domains(group);
	struct grid best = { 0, 0 };

	for (int n = 2; n <= domains.divisor && n <= group->size / 2; n++)
		if (domains.divisor % n == 0 &&
		    (!best.columns || lines_read(&domains, group->size, n) <
					      lines_read(&domains, group->size, best.columns)))
			best = (struct grid){ n, group->size / n };
	return best;
}

/* The grid with its ranks. */
struct layout {
	int columns, rows;
	int row, column; /* this rank's */
	int *member;	 /* [rows * columns] */
};

/* By domain, and ascending within one. */
static void sort_by_domain(struct layout *layout, const struct tt_group *group, int *next)
{
	for (int r = 0; r < group->size; r++)
		next[group->domain[r] + 1]++;
	for (int domain = 0; domain < group->domains; domain++)
		next[domain + 1] += next[domain];
	for (int r = 0; r < group->size; r++) {
		const int place = next[group->domain[r]]++;

		layout->member[place] = r;
		if (r == group->rank) {
			layout->row = place / layout->columns;
			layout->column = place % layout->columns;
		}
	}
}

/* NULL: no memory. */
static const struct layout *lay_out(struct tt_sched *sched, const struct tt_group *group)
{
	const size_t n = (size_t)group->size + (size_t)group->domains + 1;
	struct layout *layout = tt_sched_memory(sched, sizeof(*layout) + n * sizeof(int));
	const struct grid grid = grid_of(group);

	if (!layout)
		return NULL;
	layout->columns = grid.columns;
	layout->rows = grid.rows;
	layout->member = (int *)(layout + 1);
	sort_by_domain(layout, group, layout->member + group->size);
	return layout;
}

static int at(const struct layout *layout, int row, int column)
{
	return layout->member[row * layout->columns + column];
}

static int column_of(const struct layout *layout, int rank)
{
	int place = 0;

	while (layout->member[place] != rank)
		place++;
	return place % layout->columns;
}

static void post(struct tt_sched *sched, struct tt_ref from, struct tt_ref slot)
{
	tt_copy(sched, slot, from, 1);
	tt_expose(sched, slot, 1);
}

/* into = what the ranks of the row, this one among them, posted in slot 0. */
static void fold_row(struct tt_sched *sched, const struct layout *l, int rank, struct tt_ref into)
{
	tt_reduce(sched, into, 1);
	for (int k = 0; k < l->columns; k++) {
		const int r = at(l, l->row, k);

		tt_source(sched, r, r == rank ? tt_in(0) : tt_tmp(0, 0));
	}
}

/* out = what the ranks of the column made of their rows, in `slot`. */
static void fold_column(struct tt_sched *sched, const struct layout *l, struct tt_ref slot)
{
	tt_reduce(sched, tt_out(0), 1);
	for (int k = 0; k < l->rows; k++)
		tt_source(sched, at(l, k, l->column), slot);
	tt_final(sched);
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	post(sched, tt_in(0), tt_tmp(0, 0));
	tt_round(sched);
	fold_row(sched, layout, group->rank, tt_tmp(1, 0));
	tt_expose(sched, tt_tmp(1, 0), 1);
	tt_round(sched);
	fold_column(sched, layout, tt_tmp(1, 0));
}

/* Of each row the rank in the root's column reads the others, and the root reads those. */
static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	if (layout->column != column_of(layout, group->root)) {
		post(sched, tt_in(0), tt_tmp(0, 0));
		return;
	}
	tt_round(sched);
	fold_row(sched, layout, group->rank, tt_tmp(0, 0));
	if (group->rank != group->root) {
		tt_expose(sched, tt_tmp(0, 0), 1);
		return;
	}
	tt_round(sched);
	fold_column(sched, layout, tt_tmp(0, 0));
}

/* The way back: those of the root's column read the root and post the vector for their rows. */
static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const int column = column_of(layout, group->root), first = at(layout, layout->row, column);

	if (group->rank == group->root) {
		post(sched, tt_in(0), tt_tmp(0, 0));
		tt_copy(sched, tt_out(0), tt_in(0), 1);
		return;
	}
	tt_round(sched);
	if (layout->column == column) {
		tt_copy_from(sched, tt_tmp(0, 0), group->root, tt_tmp(0, 0), 1);
		tt_expose(sched, tt_tmp(0, 0), 1);
		tt_copy(sched, tt_out(0), tt_tmp(0, 0), 1);
		return;
	}
	if (first != group->root)
		tt_round(sched);
	tt_copy_from(sched, tt_out(0), first, tt_tmp(0, 0), 1);
}

/* Slot k has the block of column k of the row. */
static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *l = lay_out(sched, group);

	if (!l)
		return;
	post(sched, tt_in(group->rank), tt_tmp(l->column, group->rank));
	tt_copy(sched, tt_out(group->rank), tt_in(group->rank), 1);
	tt_round(sched);
	for (int k = 0; k < l->columns; k++) {
		const int r = at(l, l->row, k);

		if (r == group->rank)
			continue;
		tt_copy_from(sched, tt_tmp(k, r), r, tt_tmp(k, r), 1);
		tt_expose(sched, tt_tmp(k, r), 1);
		tt_copy(sched, tt_out(r), tt_tmp(k, r), 1);
	}
	tt_round(sched);
	for (int i = 1; i < l->rows; i++) {
		const int row = tt_mod(l->row + i, l->rows);

		for (int k = 0; k < l->columns; k++)
			tt_copy_from(sched, tt_out(at(l, row, k)), at(l, row, l->column),
				     tt_tmp(k, at(l, row, k)), 1);
	}
}

static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	tt_round(sched);
	for (int k = 0; k < layout->columns; k++)
		if (k != layout->column)
			tt_await(sched, at(layout, layout->row, k));
	tt_round(sched);
	for (int k = 0; k < layout->rows; k++)
		if (k != layout->row)
			tt_await(sched, at(layout, k, layout->column));
}

static bool fits(const struct tt_group *group, enum tt_collective collective)
{
	return group->domain && tt_fits_fold_of_host(group, collective) &&
	       grid_of(group).columns > 0;
}

/* The bytes are what one rank posts and what it reads. */
static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const struct tt_extent domains = tt_extent_of_domains(group);
	const struct grid grid = grid_of(group);
	const double near = domains.fewest / grid.columns; /* rows of this domain */
	const double read = grid.columns - 1 + grid.rows - 1;
	struct tt_cost cost = { .syncs = 2,
				.peers = { grid.columns - 1 + near - 1, grid.rows - near } };

	switch (collective) {
	case TT_BARRIER: break;
	case TT_BROADCAST: cost.bytes[0] = 3 * bytes; break;
	case TT_REDUCE:
		cost.bytes[0] = cost.reduced = read * bytes;
		cost.awaited = 2 * bytes;
		break;
	case TT_ALL_REDUCE:
		cost.bytes[0] = (2 + read) * bytes;
		cost.reduced = read * bytes;
		break;
	default: cost.bytes[0] = (group->size - 1 + grid.columns) * bytes / group->size;
	}
	return cost;
}

const struct tt_algorithm tt_algorithm_two_level = {
	.name = "two_level",
	.shared = true,
	.fits = fits,
	.build = {
		[TT_BROADCAST] = broadcast,
		[TT_REDUCE] = reduce,
		[TT_ALL_REDUCE] = all_reduce,
		[TT_ALL_GATHER] = all_gather,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
