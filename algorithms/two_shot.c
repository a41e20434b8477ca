/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the two-shot exchange: everyone hands block r to rank r, which folds it in rank order from 0
 * and hands the result to whom it concerns. The bytes are those of the ring, the rounds two
 * whatever the size. */
#include "algorithms.h"
#include "parts.h"

/* Block r is that of rank r. */
static const struct tt_parts blocks = { .base = 0, .n = 1 };

static void collect(struct tt_sched *sched, const struct tt_group *group, struct tt_ref into)
{
	const struct tt_team all = tt_everyone(group);

	tt_sched_blocks(sched, group->size);
	tt_shot_reduce_scatter(sched, &all, blocks, TT_BUF_SEND, into, true);
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);

	collect(sched, group, tt_out(group->rank));
	tt_shot_all_gather(sched, &all, blocks);
}

/* Who is not the root has no recv buffer: its block is folded into its own slot, which nobody
 * filled. */
static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	if (rank != group->root) {
		collect(sched, group, tt_tmp(rank, rank));
		tt_send(sched, group->root, tt_tmp(rank, rank), 1);
		return;
	}
	collect(sched, group, tt_out(rank));
	for (int r = 0; r < group->size; r++)
		if (r != rank)
			tt_recv(sched, r, tt_out(r), 1);
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double others = group->size - 1, moved = bytes * others / group->size;

	struct tt_cost cost = tt_cost_exchange(group, 2, 2 * moved, moved);

	cost.in_place = 0;
	if (collective ==
	    TT_REDUCE) /* the root's own block is done when it has to wait for the others' */
		cost.awaited = bytes / group->size;
	tt_cost_at_once(&cost, others, 0);
	return cost;
}

const struct tt_algorithm tt_algorithm_two_shot = {
	.name = "two_shot",
	.ordered = true,
	.one_fold = true,
	.fits = tt_fits_fold,
	.build = {
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE] = reduce,
	},
	.cost = cost,
};
