/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns recursive doubling of short vectors: log P rounds that carry the whole of what is known. The
 * prefix reductions double a window instead (Hillis and Steele, Data parallel algorithms, 1986):
 * after round k rank r has combined the ranks r - 2^(k+1) + 1 … r, in their order. */
#include "algorithms.h"
#include "parts.h"

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);

	tt_doubling_all_reduce(sched, &all, tt_in(0), tt_out(0));
}

static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);

	tt_doubling_signal(sched, &all);
}

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	tt_copy(sched, tt_out(rank), tt_in(rank), 1);
	for (int mask = 1; mask < group->size; mask *= 2) {
		const int mine = rank & ~(mask - 1);

		tt_send(sched, rank ^ mask, tt_out(mine), mask);
		tt_recv(sched, rank ^ mask, tt_out(mine ^ mask), mask);
		tt_round(sched);
	}
}

/* Inclusive prefix of `have` over the ranks from `first` on. A round may send one place while it
 * writes another: two scratch slots take turns, until the last window ends in recv. */
static void windows(struct tt_sched *sched, const struct tt_group *group, int first,
		    struct tt_ref have)
{
	const int rank = group->rank;
	const int me = rank - first;
	int slot = 0;

	if (me == 0) {
		tt_copy(sched, tt_out(0), have, 1);
		have = tt_out(0);
	} else if (me == 1) { /* its only window is written while `have`, in place, is sent */
		tt_copy(sched, tt_tmp(1, 0), have, 1);
		have = tt_tmp(1, 0);
	}
	for (int reach = 1; reach < group->size - first; reach *= 2) {
		struct tt_ref next = have;

		if (rank + reach < group->size)
			tt_send(sched, rank + reach, have, 1);
		if (me >= reach) {
			next = me < 2 * reach ? tt_out(0) : tt_tmp(slot, 0);
			tt_recv_reduce_left(sched, rank - reach, next, have, 1);
			slot = !slot;
		}
		have = next;
		tt_round(sched);
	}
}

static void scan(struct tt_sched *sched, const struct tt_group *group)
{
	windows(sched, group, 0, tt_in(0));
}

/* Everyone takes its left neighbour's vector; the inclusive prefix of those is the exclusive one.
 */
static void exscan(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank + 1 < group->size)
		tt_send(sched, group->rank + 1, tt_in(0), 1);
	if (group->rank == 0)
		return;
	tt_recv(sched, group->rank - 1, tt_tmp(1, 0), 1);
	tt_round(sched);
	windows(sched, group, 1, tt_tmp(1, 0));
}

static bool fits(const struct tt_group *group, enum tt_collective collective)
{
	if (TT_BIT(collective) & TT_GATHERS)
		return (group->size & (group->size - 1)) == 0;
	return true;
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double rounds = tt_doubling_rounds(group->size), windows = tt_log2_up(group->size);
	const double fewer = tt_log2_up(group->size - 1); /* rank 0 has no neighbour to add */

	switch (collective) {
	case TT_ALL_REDUCE: return tt_cost_exchange(group, rounds, rounds * bytes, rounds * bytes);
	case TT_BARRIER: return tt_cost_exchange(group, rounds, 0, 0);
	case TT_SCAN: return tt_cost_exchange(group, windows, windows * bytes, windows * bytes);
	case TT_EXSCAN:
		return tt_cost_exchange(group, fewer + 1, (fewer + 1) * bytes, fewer * bytes);
	default: return tt_cost_exchange(group, rounds, bytes * (group->size - 1) / group->size, 0);
	}
}

const struct tt_algorithm tt_algorithm_doubling = {
	.name = "doubling",
	.fits = fits,
	.build = {
		[TT_ALL_REDUCE] = all_reduce,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
		[TT_SCAN] = scan,
		[TT_EXSCAN] = exscan,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
