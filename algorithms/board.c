/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the one-shot exchange through shared memory, for short vectors: round 0 puts what others
 * need into scratch that they can read, round 1 reads it from there and folds in rank order.
 * Nothing of the user's is exposed, so that a rank need not wait for its readers before it gives
 * the buffers back. */
#include "algorithms.h"
#include "parts.h"

static void post(struct tt_sched *sched, struct tt_ref from, struct tt_ref slot, int n)
{
	tt_copy(sched, slot, from, n);
	tt_expose(sched, slot, n);
}

/* Block r of the input is for rank r: the own one concerns nobody else. */
static void post_others(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank, after = rank + 1;

	if (rank > 0)
		post(sched, tt_in(0), tt_tmp(0, 0), rank);
	if (after < group->size)
		post(sched, tt_in(after), tt_tmp(after, after), group->size - after);
}

/* dst = ranks 0 … last, of each what it posted in `slot`; this rank's own is also in `own`, and
 * that line no peer takes away. */
static void fold(struct tt_sched *sched, struct tt_ref dst, struct tt_ref slot, struct tt_ref own,
		 const struct tt_group *group, int last)
{
	tt_reduce(sched, dst, 1);
	for (int r = 0; r <= last; r++)
		tt_source(sched, r, r == group->rank ? own : slot);
}

static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	const bool root = group->rank == group->root;

	if (root)
		post(sched, tt_in(0), tt_tmp(0, 0), 1);
	tt_round(sched);
	tt_copy_from(sched, tt_out(0), group->root, root ? tt_in(0) : tt_tmp(0, 0), 1);
}

static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank != group->root) {
		post(sched, tt_in(0), tt_tmp(0, 0), 1);
		return;
	}
	tt_round(sched);
	fold(sched, tt_out(0), tt_tmp(0, 0), tt_in(0), group, group->size - 1);
	tt_final(sched);
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	post(sched, tt_in(0), tt_tmp(0, 0), 1);
	tt_round(sched);
	fold(sched, tt_out(0), tt_tmp(0, 0), tt_in(0), group, group->size - 1);
	tt_final(sched);
}

static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	post_others(sched, group);
	tt_round(sched);
	fold(sched, tt_out(rank), tt_tmp(rank, rank), tt_in(rank), group, group->size - 1);
	tt_final(sched);
}

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	post(sched, tt_in(rank), tt_tmp(0, rank), 1);
	tt_round(sched);
	for (int r = 0; r < group->size; r++)
		tt_copy_from(sched, tt_out(r), r, r == rank ? tt_in(r) : tt_tmp(0, r), 1);
}

static void gather(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	if (rank != group->root) {
		post(sched, tt_in(rank), tt_tmp(0, rank), 1);
		return;
	}
	tt_round(sched);
	for (int r = 0; r < group->size; r++)
		tt_copy_from(sched, tt_out(r), r, r == rank ? tt_in(r) : tt_tmp(0, r), 1);
}

static void scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;
	const bool root = rank == group->root;

	if (root)
		post_others(sched, group);
	tt_round(sched);
	tt_copy_from(sched, tt_out(rank), group->root, root ? tt_in(rank) : tt_tmp(rank, rank), 1);
}

static void all_to_all(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	post_others(sched, group);
	tt_round(sched);
	for (int r = 0; r < group->size; r++)
		tt_copy_from(sched, tt_out(r), r, r == rank ? tt_in(r) : tt_tmp(rank, rank), 1);
}

/* Nobody reads of the last rank. */
static void post_for_later(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank + 1 < group->size)
		post(sched, tt_in(0), tt_tmp(0, 0), 1);
	tt_round(sched);
}

static void scan(struct tt_sched *sched, const struct tt_group *group)
{
	post_for_later(sched, group);
	fold(sched, tt_out(0), tt_tmp(0, 0), tt_in(0), group, group->rank);
}

static void exscan(struct tt_sched *sched, const struct tt_group *group)
{
	post_for_later(sched, group);
	if (group->rank > 0)
		fold(sched, tt_out(0), tt_tmp(0, 0), tt_in(0), group, group->rank - 1);
}

static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	tt_round(sched);
	for (int r = 0; r < group->size; r++)
		if (r != group->rank)
			tt_await(sched, r);
}

/* The bytes are what one rank posts and what it reads. */
static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double others = group->size - 1, share = others / group->size;
	struct tt_cost cost = { .syncs = 1 };

	tt_cost_peers(&cost, group, 1);
	switch (collective) {
	case TT_BARRIER: break;
	case TT_BROADCAST: cost.bytes[0] = 2 * bytes; break;
	case TT_REDUCE:
		cost.bytes[0] = cost.reduced = others * bytes;
		cost.awaited = bytes;
		break;
	case TT_ALL_REDUCE:
	case TT_SCAN:
		cost.bytes[0] = group->size * bytes;
		cost.reduced = others * bytes;
		break;
	case TT_EXSCAN:
		cost.bytes[0] = group->size * bytes;
		cost.reduced = (others - 1) * bytes;
		break;
	case TT_REDUCE_SCATTER:
	case TT_REDUCE_SCATTER_V:
		cost.bytes[0] = 2 * share * bytes;
		cost.reduced = share * bytes;
		break;
	case TT_ALL_GATHER:
	case TT_ALL_GATHER_V:
	case TT_GATHER: cost.bytes[0] = bytes; break;
	case TT_SCATTER: cost.bytes[0] = bytes; break;
	default: cost.bytes[0] = 2 * share * bytes;
	}
	return cost;
}

const struct tt_algorithm tt_algorithm_board = {
	.name = "board",
	.shared = true,
	.ordered = true,
	.one_fold = true,
	.fits = tt_fits_fold_of_host,
	.build = {
		[TT_BROADCAST] = broadcast,
		[TT_REDUCE] = reduce,
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE_SCATTER] = reduce_scatter,
		[TT_REDUCE_SCATTER_V] = reduce_scatter,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
		[TT_GATHER] = gather,
		[TT_SCATTER] = scatter,
		[TT_ALL_TO_ALL] = all_to_all,
		[TT_SCAN] = scan,
		[TT_EXSCAN] = exscan,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
