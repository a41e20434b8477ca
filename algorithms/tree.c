/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the binomial tree. Members are numbered from the root; member v > 0 is the child of v less
 * its lowest bit and heads the members v … v + lowest bit - 1, so that the blocks of a subtree are
 * one run, which may wrap round at the last rank. */
#include "algorithms.h"
#include "parts.h"

/* How many members there are in the subtree of v. */
static int span(const struct tt_team *team, int v)
{
	return v ? tt_min(v & -v, team->size - v) : team->size;
}

static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_from_root(group);

	tt_binomial_broadcast(sched, &team, tt_in(0), tt_out(0), 1, tt_log2_up(team.size));
	if (team.me == 0)
		tt_copy(sched, tt_out(0), tt_in(0), 1);
}

static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_from_root(group);

	tt_binomial_reduce(sched, &team, tt_in(0), team.me ? tt_tmp(0, 0) : tt_out(0), 1, true,
			   tt_log2_up(team.size));
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_everyone(group);
	const int rounds = tt_log2_up(team.size);

	tt_binomial_reduce(sched, &team, tt_in(0), tt_out(0), 1, true, rounds);
	tt_binomial_broadcast(sched, &team, tt_out(0), tt_out(0), 1, rounds);
}

/* log P rounds, the messages doubling; a member that heads others collects in scratch. */
static void gather(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_from_root(group);
	const int me = team.me, rank = group->rank, own = span(&team, me);
	const struct tt_ref mine = own > 1 ? tt_tmp(0, rank) : tt_in(rank);

	if (me == 0)
		tt_copy(sched, tt_out(rank), tt_in(rank), 1);
	else
		tt_copy(sched, mine, tt_in(rank), 1);
	for (int mask = 1; mask < team.size; mask *= 2) {
		if (me % (2 * mask) == mask) {
			tt_send_wrapped(sched, tt_at(&team, me - mask), mine, own);
		} else if (me % (2 * mask) == 0 && me + mask < team.size) {
			const int child = tt_at(&team, me + mask);

			tt_recv_wrapped(sched, child, me ? tt_tmp(mask, child) : tt_out(child),
					span(&team, me + mask));
		}
		tt_round(sched);
	}
}

static void scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_from_root(group);
	const int me = team.me, rank = group->rank, own = span(&team, me);
	const struct tt_ref mine = own > 1 ? tt_tmp(0, rank) : tt_out(rank);

	for (int mask = (1 << tt_log2_up(team.size)) / 2; mask > 0; mask /= 2) {
		if (me % (2 * mask) == mask) {
			tt_recv_wrapped(sched, tt_at(&team, me - mask), mine, own);
		} else if (me % (2 * mask) == 0 && me + mask < team.size) {
			const int child = tt_at(&team, me + mask);

			tt_send_wrapped(sched, child, me ? tt_tmp(mask, child) : tt_in(child),
					span(&team, me + mask));
		}
		tt_round(sched);
	}
	tt_copy(sched, tt_out(rank), me ? mine : tt_in(rank), 1);
}

static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_everyone(group);
	const int rounds = tt_log2_up(team.size);

	tt_binomial_signal(sched, &team, rounds);
	tt_binomial_broadcast(sched, &team, tt_in(0), tt_out(0), 1, rounds);
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double rounds = tt_log2_up(group->size);
	const double share = (group->size - 1.0) / group->size;

	switch (collective) {
	case TT_BROADCAST: return tt_cost_links(group, rounds, rounds * bytes, 0);
	case TT_REDUCE: return tt_cost_links(group, rounds, rounds * bytes, rounds * bytes);
	case TT_ALL_REDUCE:
		return tt_cost_links(group, 2 * rounds, 2 * rounds * bytes, rounds * bytes);
	case TT_BARRIER: return tt_cost_links(group, 2 * rounds, 0, 0);
	default: return tt_cost_links(group, rounds, share * bytes, 0);
	}
}

const struct tt_algorithm tt_algorithm_tree = {
	.name = "tree",
	.fits = tt_fits_any,
	.build = {
		[TT_BROADCAST] = broadcast,
		[TT_REDUCE] = reduce,
		[TT_ALL_REDUCE] = all_reduce,
		[TT_GATHER] = gather,
		[TT_SCATTER] = scatter,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
