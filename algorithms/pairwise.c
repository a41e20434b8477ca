/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the pairwise exchange: P-1 rounds in each of which every rank has one partner to send to and
 * one to receive from, so that no rank is ever flooded. With a power of two the two are the same
 * rank. Reductions are folded locally, in rank order from 0, when all contributions are there. */
#include "algorithms.h"
#include "parts.h"

static int target(const struct tt_group *group, int round)
{
	const bool power = (group->size & (group->size - 1)) == 0;

	return power ? group->rank ^ round : tt_mod(group->rank + round, group->size);
}

static int source(const struct tt_group *group, int round)
{
	const bool power = (group->size & (group->size - 1)) == 0;

	return power ? group->rank ^ round : tt_mod(group->rank - round, group->size);
}

static void all_to_all(struct tt_sched *sched, const struct tt_group *group)
{
	tt_copy(sched, tt_out(group->rank), tt_in(group->rank), 1);
	for (int k = 1; k < group->size; k++) {
		tt_send(sched, target(group, k), tt_in(target(group, k)), 1);
		tt_recv(sched, source(group, k), tt_out(source(group, k)), 1);
		tt_round(sched);
	}
}

/* Everyone's block of this rank into the slots of their ranks, then one fold. */
static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	for (int k = 1; k < group->size; k++) {
		tt_send(sched, target(group, k), tt_in(target(group, k)), 1);
		tt_recv(sched, source(group, k), tt_tmp(source(group, k), rank), 1);
		tt_round(sched);
	}
	tt_reduce(sched, tt_out(rank), 1);
	for (int r = 0; r < group->size; r++)
		tt_source(sched, rank, r == rank ? tt_in(rank) : tt_tmp(r, rank));
	tt_final(sched);
}

/* Block `rank` of recv is there already. */
static void spread(struct tt_sched *sched, const struct tt_group *group)
{
	for (int k = 1; k < group->size; k++) {
		tt_send(sched, target(group, k), tt_out(group->rank), 1);
		tt_recv(sched, source(group, k), tt_out(source(group, k)), 1);
		tt_round(sched);
	}
}

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	tt_copy(sched, tt_out(group->rank), tt_in(group->rank), 1);
	spread(sched, group);
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	tt_sched_blocks(sched, group->size);
	reduce_scatter(sched, group);
	spread(sched, group);
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double others = group->size - 1, moved = bytes * others / group->size;
	struct tt_cost cost =
		collective == TT_ALL_REDUCE
			? tt_cost_exchange(group, 2 * others, 2 * moved, moved)
			: tt_cost_exchange(group, others, moved,
					   TT_BIT(collective) & TT_REDUCTIONS ? moved : 0);

	cost.in_place = 0;
	return cost;
}

const struct tt_algorithm tt_algorithm_pairwise = {
	.name = "pairwise",
	.ordered = true,
	.one_fold = true,
	.fits = tt_fits_fold,
	.build = {
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE_SCATTER] = reduce_scatter,
		[TT_REDUCE_SCATTER_V] = reduce_scatter,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
		[TT_ALL_TO_ALL] = all_to_all,
		[TT_ALL_TO_ALL_V] = all_to_all,
	},
	.cost = cost,
};
