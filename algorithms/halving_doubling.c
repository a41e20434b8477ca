/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns recursive halving and doubling of long vectors (Rabenseifner; Thakur, Rabenseifner and
 * Gropp, Optimization of collective communication operations in MPICH, 2005): the bytes of a ring
 * in log P rounds. Ranks beyond a power of two are folded in: the even one of each of the first
 * pairs acts for both, see tt_fold. */
#include "algorithms.h"
#include "parts.h"

/* One exchange among those that act: both know the range of them [low, low + 2 * mask) that they
 * share, of which each keeps the half that it is in. */
struct halves {
	int peer, mine, other; /* partner's rank; where the halves begin */
};

static struct halves halves_of(const struct tt_fold *fold, int mask)
{
	const int mine = fold->me & ~(mask - 1);

	return (struct halves){ tt_unfolded(fold, fold->me ^ mask), mine, mine ^ mask };
}

/* How many ranks those that act contribute for whose number leaves the same rest as `me`, divided
 * by `stride`. */
static int weight_of_rest(const struct tt_fold *fold, int me, int stride)
{
	const int first = me % stride, pairs = fold->extra - first;

	return fold->size / stride + (pairs > 0 ? (pairs + stride - 1) / stride : 0);
}

/* The step just written combines halves: what was kept before, of all that are a multiple of 2 *
 * mask away, with what the partner kept. */
static void weigh_halves(struct tt_sched *sched, const struct tt_fold *fold, int mask)
{
	tt_weigh(sched, weight_of_rest(fold, fold->me, 2 * mask),
		 weight_of_rest(fold, fold->me ^ mask, 2 * mask));
}

/* 2 log P rounds; block b belongs to the b-th of those that act. */
static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);
	const struct tt_fold fold = tt_fold_of(&all);
	const bool paired = all.me < 2 * fold.extra;
	const int twin = all.me ^ 1;
	bool fresh = !paired; /* the contribution is still in send alone */

	tt_sched_blocks(sched, fold.size);
	if (fold.me < 0) {
		tt_send(sched, twin, tt_in(0), fold.size);
		tt_rounds(sched, 1 + 2 * tt_log2_up(fold.size));
		tt_recv(sched, twin, tt_out(0), fold.size);
		return;
	}
	if (paired) {
		tt_recv_reduce(sched, twin, tt_out(0), tt_in(0), fold.size);
		tt_weigh(sched, 1, 1);
	}
	if (fold.extra)
		tt_round(sched);
	for (int mask = fold.size / 2; mask > 0; mask /= 2, fresh = false) {
		const struct halves h = halves_of(&fold, mask);

		tt_send(sched, h.peer, fresh ? tt_in(h.other) : tt_out(h.other), mask);
		tt_recv_reduce(sched, h.peer, tt_out(h.mine),
			       fresh ? tt_in(h.mine) : tt_out(h.mine), mask);
		weigh_halves(sched, &fold, mask);
		if (mask == 1)
			tt_final(sched);
		tt_round(sched);
	}
	for (int mask = 1; mask < fold.size; mask *= 2) {
		const struct halves h = halves_of(&fold, mask);

		tt_send(sched, h.peer, tt_out(h.mine), mask);
		tt_recv(sched, h.peer, tt_out(h.other), mask);
		tt_round(sched);
	}
	if (paired)
		tt_send(sched, twin, tt_out(0), fold.size);
}

/* In the collectives of blocks those that act own the blocks of the ranks they act for: a run,
 * since pairs are neighbours. This is how many blocks `mask` of them from `first` on own. */
static int owned(const struct tt_fold *fold, int first, int mask)
{
	return tt_unfolded(fold, first + mask) - tt_unfolded(fold, first);
}

/* Slot b of scratch holds the sum of block b so far. */
static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);
	const struct tt_fold fold = tt_fold_of(&all);
	const int rank = group->rank, twin = rank ^ 1;
	const bool paired = rank < 2 * fold.extra;
	bool fresh = !paired;

	if (fold.me < 0) {
		tt_send(sched, twin, tt_in(0), group->size);
		tt_rounds(sched, 1 + tt_log2_up(fold.size));
		tt_recv(sched, twin, tt_out(rank), 1);
		return;
	}
	if (paired) {
		tt_recv_reduce(sched, twin, tt_tmp(0, 0), tt_in(0), group->size);
		tt_weigh(sched, 1, 1);
	}
	if (fold.extra)
		tt_round(sched);
	for (int mask = fold.size / 2; mask > 0; mask /= 2, fresh = false) {
		const struct halves h = halves_of(&fold, mask);
		const int keep = tt_unfolded(&fold, h.mine), give = tt_unfolded(&fold, h.other);
		const bool own = mask == 1 && !paired;

		tt_send(sched, h.peer, fresh ? tt_in(give) : tt_tmp(give, give),
			owned(&fold, h.other, mask));
		tt_recv_reduce(sched, h.peer, own ? tt_out(rank) : tt_tmp(keep, keep),
			       fresh ? tt_in(keep) : tt_tmp(keep, keep),
			       owned(&fold, h.mine, mask));
		weigh_halves(sched, &fold, mask);
		if (mask == 1)
			tt_final(sched);
		tt_round(sched);
	}
	if (paired) {
		tt_copy(sched, tt_out(rank), tt_tmp(rank, rank), 1);
		tt_send(sched, twin, tt_tmp(twin, twin), 1);
	}
}

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);
	const struct tt_fold fold = tt_fold_of(&all);
	const int rank = group->rank, twin = rank ^ 1;
	const bool paired = rank < 2 * fold.extra;

	tt_copy(sched, tt_out(rank), tt_in(rank), 1);
	if (fold.me < 0) {
		tt_send(sched, twin, tt_out(rank), 1);
		tt_rounds(sched, 1 + tt_log2_up(fold.size));
		tt_recv(sched, twin, tt_out(0), rank); /* all but the own block */
		tt_recv(sched, twin, tt_out(rank + 1), group->size - rank - 1);
		return;
	}
	if (paired)
		tt_recv(sched, twin, tt_out(twin), 1);
	if (fold.extra)
		tt_round(sched);
	for (int mask = 1; mask < fold.size; mask *= 2) {
		const struct halves h = halves_of(&fold, mask);

		tt_send(sched, h.peer, tt_out(tt_unfolded(&fold, h.mine)),
			owned(&fold, h.mine, mask));
		tt_recv(sched, h.peer, tt_out(tt_unfolded(&fold, h.other)),
			owned(&fold, h.other, mask));
		tt_round(sched);
	}
	if (paired) {
		tt_send(sched, twin, tt_out(0), twin);
		tt_send(sched, twin, tt_out(twin + 1), group->size - twin - 1);
	}
}

/* The blocks on the way through the first rank in the collectives of blocks; no other acts for
 * more. */
static double blocks_on_the_way(const struct tt_group *group)
{
	const struct tt_team all = { .size = group->size };
	const struct tt_fold fold = tt_fold_of(&all);
	double blocks = fold.extra ? group->size : 0;

	for (int mask = fold.size / 2; mask > 0; mask /= 2)
		blocks += owned(&fold, 0, mask);
	return blocks;
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const int power = tt_power_of_two(group->size), extra = power < group->size;
	const double rounds = tt_log2_up(power) + 2 * extra;
	const double moved = bytes * (power - 1) / power;
	const double through = bytes * blocks_on_the_way(group) / group->size;

	switch (collective) {
	case TT_ALL_REDUCE:
		return tt_cost_exchange(group, 2 * tt_log2_up(power) + 2 * extra,
					2 * moved + 2 * extra * bytes, moved + extra * bytes);
	case TT_REDUCE_SCATTER: return tt_cost_exchange(group, rounds, through, through);
	default: return tt_cost_exchange(group, rounds, through, 0);
	}
}

const struct tt_algorithm tt_algorithm_halving_doubling = {
	.name = "halving_doubling",
	.fits = tt_fits_any,
	.build = {
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE_SCATTER] = reduce_scatter,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
	},
	.cost = cost,
};
