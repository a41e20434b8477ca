/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the star: everyone sends to rank 0, which sends everyone its result, folded in rank order.
 * No pattern passes fewer messages, and each waits for one other only: best where short messages
 * cost cores that ranks share. */
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

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank != HUB) {
		tt_send(sched, HUB, tt_in(group->rank), 1);
		tt_round(sched);
		tt_recv(sched, HUB, tt_out(0), group->size);
		return;
	}
	tt_copy(sched, tt_out(HUB), tt_in(HUB), 1);
	for (int r = 1; r < group->size; r++)
		tt_recv(sched, r, tt_out(r), 1);
	tt_round(sched);
	for (int r = 1; r < group->size; r++)
		tt_send(sched, r, tt_out(0), group->size);
}

/* Of equal blocks: scratch has room for the longest block of each rank, P - 1 times. */
static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const int size = group->size;

	if (group->rank != HUB) {
		tt_send(sched, HUB, tt_in(0), size);
		tt_round(sched);
		tt_recv(sched, HUB, tt_out(group->rank), 1);
		return;
	}
	for (int r = 1; r < size; r++)
		tt_recv(sched, r, tt_tmp((r - 1) * size, 0), size);
	tt_round(sched);
	tt_reduce(sched, tt_tmp(0, 0), size);
	tt_source(sched, HUB, tt_in(0));
	for (int r = 1; r < size; r++)
		tt_source(sched, HUB, tt_tmp((r - 1) * size, 0));
	tt_final(sched);
	tt_copy(sched, tt_out(HUB), tt_tmp(HUB, HUB), 1);
	for (int r = 1; r < size; r++)
		tt_send(sched, r, tt_tmp(r, r), 1);
}

/* Through the links of the hub. */
static struct tt_cost hub_cost(const struct tt_group *group, enum tt_collective collective,
			       double bytes)
{
	const double others = group->size - 1, share = others / group->size;

	switch (collective) {
	case TT_BARRIER: return tt_cost_links(group, 2, 0, 0);
	case TT_ALL_GATHER:
	case TT_ALL_GATHER_V: return tt_cost_links(group, 2, (share + others) * bytes, 0);
	case TT_REDUCE_SCATTER:
		return tt_cost_links(group, 2, (others + share) * bytes, others * bytes);
	default: return tt_cost_links(group, 2, 2 * others * bytes, others * bytes);
	}
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	struct tt_cost cost = hub_cost(group, collective, bytes);

	cost.in_place = 0;
	tt_cost_at_once(&cost, group->size - 1, 0.5);
	return cost;
}

const struct tt_algorithm tt_algorithm_star = {
	.name = "star",
	.ordered = true,
	.one_fold = true,
	.fits = tt_fits_fold,
	.build = {
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE_SCATTER] = reduce_scatter,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
