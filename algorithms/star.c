/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the star: everyone sends to rank 0, which folds in rank order and sends the result to
 * everyone. No pattern passes fewer messages, and each waits for one other only: best where
 * short messages cost cores that ranks share. */
#include "algorithms.h"
#include "parts.h"

#define HUB 0

static void spoke(struct tt_sched *sched)
{
	tt_send(sched, HUB, tt_in(0), 1);
	tt_round(sched);
	tt_recv(sched, HUB, tt_out(0), 1);
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank != HUB) {
		spoke(sched);
		return;
	}
	for (int r = 1; r < group->size; r++)
		tt_recv(sched, r, tt_tmp(r - 1, 0), 1);
	tt_round(sched);
	tt_reduce(sched, tt_out(0), 1);
	tt_source(sched, HUB, tt_in(0));
	for (int r = 1; r < group->size; r++)
		tt_source(sched, HUB, tt_tmp(r - 1, 0));
	tt_final(sched);
	for (int r = 1; r < group->size; r++)
		tt_send(sched, r, tt_out(0), 1);
}

static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank != HUB) {
		spoke(sched);
		return;
	}
	for (int r = 1; r < group->size; r++)
		tt_recv(sched, r, tt_out(0), 1);
	tt_round(sched);
	for (int r = 1; r < group->size; r++)
		tt_send(sched, r, tt_in(0), 1);
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double others = group->size - 1;

	struct tt_cost cost = collective == TT_BARRIER
				      ? tt_cost_links(group, 2, 0, 0)
				      : tt_cost_links(group, 2, 2 * others * bytes, others * bytes);

	cost.in_place = 0;
	tt_cost_at_once(&cost, others, 0.5);
	return cost;
}

const struct tt_algorithm tt_algorithm_star = {
	.name = "star",
	.ordered = true,
	.one_fold = true,
	.fits = tt_fits_fold,
	.build = {
		[TT_ALL_REDUCE] = all_reduce,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
