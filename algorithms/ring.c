/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the ring: rank r hands to r + 1 and takes from r - 1, so that every link carries the same
 * load. Broadcast and reduce use it as a chain that begins or ends at the root. */
#include "algorithms.h"
#include "parts.h"

/* Ring all-reduce: 2(P-1) rounds, 2n(P-1)/P bytes sent per rank, any commutative op.
 * P = 3; per rank, which ranks are summed in blocks 0 1 2 after each round (* all):
 *   round 0    0  0  02     01 1  1      2  12 2
 *   round 1    0  *  02     01 1  *      *  12 2
 *   round 2    *  *  02     01 *  *      *  12 *
 *   round 3    *  *  *      *  *  *      *  *  *    */
static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);
	const struct tt_parts blocks = { .base = 0, .n = 1 };

	tt_sched_blocks(sched, group->size);
	tt_ring_reduce_scatter(sched, &all, blocks, TT_BUF_SEND, true);
	tt_ring_all_gather(sched, &all, blocks, 1);
}

/* P-1 rounds; the sum of block b begins at rank b + 1 and ends at b. Two slots: one is sent while
 * the other is filled. */
static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const int size = group->size, rank = group->rank;
	const int next = tt_mod(rank + 1, size), prev = tt_mod(rank - 1, size);

	for (int k = 0; k < size - 1; k++) {
		const int going = tt_mod(rank - 1 - k, size), coming = tt_mod(rank - 2 - k, size);
		const bool last = k == size - 2;

		tt_send(sched, next, k == 0 ? tt_in(going) : tt_tmp((k - 1) % 2, going), 1);
		tt_recv_reduce_left(sched, prev, last ? tt_out(coming) : tt_tmp(k % 2, coming),
				    tt_in(coming), 1);
		tt_weigh(sched, 1, k + 1);
		if (last)
			tt_final(sched);
		tt_round(sched);
	}
}

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);
	const struct tt_parts blocks = { .base = 0, .n = 1 };

	tt_copy(sched, tt_out(group->rank), tt_in(group->rank), 1);
	tt_ring_all_gather(sched, &all, blocks, 0);
}

/* P-1 rounds; the member v places behind the root receives in round v-1 and sends in round v. */
static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_from_root(group);

	if (team.me > 0) {
		tt_rounds(sched, team.me - 1);
		tt_recv(sched, tt_at(&team, team.me - 1), tt_out(0), 1);
		tt_round(sched);
	}
	if (team.me < team.size - 1)
		tt_send(sched, tt_at(&team, team.me + 1), team.me ? tt_out(0) : tt_in(0), 1);
	tt_round(sched);
	if (team.me == 0)
		tt_copy(sched, tt_out(0), tt_in(0), 1);
}

/* The same backwards: the last of the chain begins. */
static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team team = tt_from_root(group);
	struct tt_ref have = tt_in(0);

	if (team.me < team.size - 1) {
		have = team.me ? tt_tmp(0, 0) : tt_out(0);
		tt_rounds(sched, team.size - 2 - team.me);
		tt_recv_reduce(sched, tt_at(&team, team.me + 1), have, tt_in(0), 1);
		tt_weigh(sched, 1, team.size - 1 - team.me);
		if (team.me == 0)
			tt_final(sched);
		tt_round(sched);
	}
	if (team.me > 0)
		tt_send(sched, tt_at(&team, team.me - 1), have, 1);
}

/* Which share of the ring's links leave a host; a message meets them in turn, and all links are
 * busy at once, but in a chain. */
static double far_share(const struct tt_group *group)
{
	int far = 0;

	for (int r = 0; r < group->size; r++)
		far += group->host[r] != group->host[(r + 1) % group->size];
	return (double)far / group->size;
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double hops = group->size - 1, share = hops / group->size;
	const double far = far_share(group);
	const bool chain = TT_BIT(collective) & (TT_BIT(TT_BROADCAST) | TT_BIT(TT_REDUCE));
	struct tt_cost cost;

	if (collective == TT_ALL_REDUCE)
		cost = tt_cost_links(group, 2 * hops, 2 * share * bytes, share * bytes);
	else if (TT_BIT(collective) & TT_REDUCTIONS)
		cost = tt_cost_links(group, hops, share * bytes, share * bytes);
	else if (TT_BIT(collective) & TT_GATHERS)
		cost = tt_cost_links(group, hops, share * bytes, 0);
	else
		cost = tt_cost_links(group, hops, bytes, collective == TT_REDUCE ? bytes : 0);
	if (group->hosts > 1) {
		cost.messages[0] = cost.messages[1] * (1 - far);
		cost.messages[1] *= far;
		cost.crossing = far * group->size / group->hosts;
		cost.far_way = chain ? 0 : far;
	}
	if (chain)
		tt_cost_pipeline(&cost, (group->hosts > 1 ? far : 1) * hops - 1, bytes);
	return cost;
}

const struct tt_algorithm tt_algorithm_ring = {
	.name = "ring",
	.pipelined = true,
	.fits = tt_fits_any,
	.build = {
		[TT_BROADCAST] = broadcast,
		[TT_REDUCE] = reduce,
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE_SCATTER] = reduce_scatter,
		[TT_REDUCE_SCATTER_V] = reduce_scatter,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
	},
	.cost = cost,
};
