/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the exchange straight between the users' buffers, for long vectors in memory that all ranks
 * map: every byte is read once from where it lies and written once to where it belongs. */
#include "algorithms.h"
#include "parts.h"

/* Block r of the input is for rank r: the own one concerns nobody else. */
static void expose_others(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank, after = rank + 1;

	tt_expose(sched, tt_in(0), rank);
	tt_expose(sched, tt_in(after), group->size - after);
}

/* into = everyone's block of this rank, in rank order. */
static void fold(struct tt_sched *sched, const struct tt_group *group, struct tt_ref into)
{
	tt_reduce(sched, into, 1);
	for (int r = 0; r < group->size; r++)
		tt_source(sched, r, tt_in(group->rank));
	tt_final(sched);
}

/* Round 1: rank r combines block r of all; round 2: everyone copies it from there. */
static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	tt_sched_blocks(sched, group->size);
	expose_others(sched, group);
	tt_round(sched);
	fold(sched, group, tt_out(rank));
	tt_expose(sched, tt_out(rank), 1);
	tt_round(sched);
	for (int k = 1; k < group->size; k++) {
		const int from = tt_mod(rank + k, group->size);

		tt_copy_from(sched, tt_out(from), from, tt_out(from), 1);
	}
}

/* The same; who has no recv buffer combines into scratch. */
static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	tt_sched_blocks(sched, group->size);
	expose_others(sched, group);
	tt_round(sched);
	if (rank != group->root) {
		fold(sched, group, tt_tmp(0, rank));
		tt_expose(sched, tt_tmp(0, rank), 1);
		return;
	}
	fold(sched, group, tt_out(rank));
	tt_round(sched);
	for (int r = 0; r < group->size; r++)
		if (r != rank)
			tt_copy_from(sched, tt_out(r), r, tt_tmp(0, r), 1);
}

static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	expose_others(sched, group);
	tt_round(sched);
	fold(sched, group, tt_out(group->rank));
}

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	tt_expose(sched, tt_in(group->rank), 1);
	tt_round(sched);
	for (int k = 0; k < group->size; k++) {
		const int from = tt_mod(group->rank + k, group->size);

		tt_copy_from(sched, tt_out(from), from, tt_in(from), 1);
	}
}

static void all_to_all(struct tt_sched *sched, const struct tt_group *group)
{
	expose_others(sched, group);
	tt_round(sched);
	for (int k = 0; k < group->size; k++) {
		const int from = tt_mod(group->rank + k, group->size);

		tt_copy_from(sched, tt_out(from), from, tt_in(group->rank), 1);
	}
}

static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	const bool root = group->rank == group->root;

	if (root)
		tt_expose(sched, tt_in(0), 1);
	tt_round(sched);
	tt_copy_from(sched, tt_out(0), group->root, tt_in(0), 1);
}

static void scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const bool root = group->rank == group->root;

	if (root)
		expose_others(sched, group);
	tt_round(sched);
	tt_copy_from(sched, tt_out(group->rank), group->root, tt_in(group->rank), 1);
}

static void gather(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	if (rank != group->root) {
		tt_expose(sched, tt_in(rank), 1);
		return;
	}
	tt_round(sched);
	for (int r = 0; r < group->size; r++)
		tt_copy_from(sched, tt_out(r), r, tt_in(r), 1);
}

/* Bytes that the busiest rank exposes: its input but for its own block, and of an all-reduce
 * that block's result. */
static double exposed(const struct tt_group *group, enum tt_collective collective, double bytes)
{
	const uint32_t own_block = TT_GATHERS | TT_BIT(TT_GATHER);

	if (TT_BIT(collective) & own_block)
		return bytes / group->size;
	if (collective == TT_BROADCAST || collective == TT_ALL_REDUCE)
		return bytes;
	return bytes - bytes / group->size;
}

/* The bytes are what one rank reads of others and what it exposes: as most buffers are not
 * memory of tutti_mem_alloc(), it has to be copied first. Then a collective of two rounds takes
 * as long as by the algorithm board; where the buffers are such memory, half as long. So of the
 * two this is to be chosen: what is exposed counts for a little less. */
static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double share = (group->size - 1.0) / group->size;
	struct tt_cost cost = { .syncs = 1, .bytes = { share * bytes } };
	double copied = 0.9;

	const bool in_two = collective == TT_ALL_REDUCE || collective == TT_REDUCE;

	tt_cost_peers(&cost, group, in_two ? 2 : 1);
	if (in_two) {
		cost.syncs = 3;
		cost.bytes[0] *= 2;
		copied = 1;
	}
	if (collective == TT_REDUCE)
		cost.awaited = bytes / group->size;
	if (collective == TT_SCATTER)
		cost.bytes[0] = bytes / group->size;
	if (collective == TT_BROADCAST)
		cost.bytes[0] = bytes;
	cost.bytes[0] += copied * exposed(group, collective, bytes);
	if (TT_BIT(collective) & (TT_REDUCTIONS | TT_BIT(TT_ALL_REDUCE) | TT_BIT(TT_REDUCE)))
		cost.reduced = share * bytes;
	return cost;
}

const struct tt_algorithm tt_algorithm_direct = {
	.name = "direct",
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
	},
	.cost = cost,
};
