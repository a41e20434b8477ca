/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the two-shot exchange: everyone hands block r to rank r, which folds it in rank order from 0
 * and hands the result to whom it concerns. The bytes are those of the ring, the rounds two
 * whatever the size. */
#include "algorithms.h"
#include "parts.h"

/* Round 0: block r goes to rank r. Round 1 begins with the fold of the own block into `into`. */
static void collect(struct tt_sched *sched, const struct tt_group *group, struct tt_ref into)
{
	const int rank = group->rank;

	tt_sched_blocks(sched, group->size);
	for (int k = 1; k < group->size; k++) {
		const int to = tt_mod(rank + k, group->size), from = tt_mod(rank - k, group->size);

		tt_send(sched, to, tt_in(to), 1);
		tt_recv(sched, from, tt_tmp(from, rank), 1);
	}
	tt_round(sched);
	tt_reduce(sched, into, 1);
	for (int r = 0; r < group->size; r++)
		tt_source(sched, rank, r == rank ? tt_in(rank) : tt_tmp(r, rank));
	tt_final(sched);
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	collect(sched, group, tt_out(rank));
	for (int k = 1; k < group->size; k++) {
		const int from = tt_mod(rank - k, group->size);

		tt_send(sched, tt_mod(rank + k, group->size), tt_out(rank), 1);
		tt_recv(sched, from, tt_out(from), 1);
	}
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
