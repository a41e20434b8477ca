/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the flat exchange: whoever has something for another sends it straight there, all in one
 * round, and reductions are then folded locally in rank order from 0. Ranks begin with their right
 * neighbour, so that not everybody sends to the same one first. */
#include "algorithms.h"
#include "parts.h"

#define CACHED_BYTES                                                                               \
	((double)(1 << 20)) /* as much of a vector as stays in a core's cache while it is sent */

/* The contributions of ranks 0 … last: the own one from send, the others' from the scratch slots of
 * their ranks. */
static void fold(struct tt_sched *sched, const struct tt_group *group, int last)
{
	tt_reduce(sched, tt_out(0), 1);
	for (int r = 0; r <= last; r++)
		tt_source(sched, group->rank, r == group->rank ? tt_in(0) : tt_tmp(r, 0));
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	for (int k = 1; k < group->size; k++) {
		const int to = tt_mod(group->rank + k, group->size);
		const int from = tt_mod(group->rank - k, group->size);

		tt_send(sched, to, tt_in(0), 1);
		tt_recv(sched, from, tt_tmp(from, 0), 1);
	}
	tt_round(sched);
	fold(sched, group, group->size - 1);
	tt_final(sched);
}

/* Of two ranks: a fold of both, where the other one's contribution arrives. */
static void combine_with_peer(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank == 0)
		tt_recv_reduce(sched, 1, tt_out(0), tt_in(0), 1);
	else
		tt_recv_reduce_left(sched, 0, tt_out(0), tt_in(0), 1);
	tt_weigh(sched, 1, 1);
	tt_final(sched);
}

static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank != group->root) {
		tt_send(sched, group->root, tt_in(0), 1);
		return;
	}
	if (group->size == 2) {
		combine_with_peer(sched, group);
		return;
	}
	for (int r = 0; r < group->size; r++)
		if (r != group->root)
			tt_recv(sched, r, tt_tmp(r, 0), 1);
	tt_round(sched);
	fold(sched, group, group->size - 1);
	tt_final(sched);
}

/* Block r is that of rank r. */
static const struct tt_parts blocks = { .base = 0, .n = 1 };

static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);

	tt_shot_reduce_scatter(sched, &all, blocks, TT_BUF_SEND, tt_out(group->rank), true);
}

static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const struct tt_team all = tt_everyone(group);

	tt_copy(sched, tt_out(group->rank), tt_in(group->rank), 1);
	tt_shot_all_gather(sched, &all, blocks);
}

static void all_to_all(struct tt_sched *sched, const struct tt_group *group)
{
	tt_copy(sched, tt_out(group->rank), tt_in(group->rank), 1);
	for (int k = 1; k < group->size; k++) {
		const int to = tt_mod(group->rank + k, group->size);
		const int from = tt_mod(group->rank - k, group->size);

		tt_send(sched, to, tt_in(to), 1);
		tt_recv(sched, from, tt_out(from), 1);
	}
}

static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->rank != group->root) {
		tt_recv(sched, group->root, tt_out(0), 1);
		return;
	}
	for (int k = 1; k < group->size; k++)
		tt_send(sched, tt_mod(group->rank + k, group->size), tt_in(0), 1);
	tt_round(sched);
	tt_copy(sched, tt_out(0), tt_in(0), 1);
}

static void gather(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	if (rank != group->root) {
		tt_send(sched, group->root, tt_in(rank), 1);
		return;
	}
	tt_copy(sched, tt_out(rank), tt_in(rank), 1);
	for (int r = 0; r < group->size; r++)
		if (r != rank)
			tt_recv(sched, r, tt_out(r), 1);
}

static void scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	if (rank != group->root) {
		tt_recv(sched, group->root, tt_out(rank), 1);
		return;
	}
	for (int r = 0; r < group->size; r++)
		if (r != rank)
			tt_send(sched, r, tt_in(r), 1);
	tt_round(sched);
	tt_copy(sched, tt_out(rank), tt_in(rank), 1);
}

/* Every rank hands its vector to all higher ones; `last` is the highest whose contribution counts.
 */
static void prefix(struct tt_sched *sched, const struct tt_group *group, int last)
{
	for (int r = group->rank + 1; r < group->size; r++)
		tt_send(sched, r, tt_in(0), 1);
	for (int r = 0; r < group->rank; r++)
		tt_recv(sched, r, tt_tmp(r, 0), 1);
	tt_round(sched);
	if (last >= 0)
		fold(sched, group, last);
}

static void scan(struct tt_sched *sched, const struct tt_group *group)
{
	prefix(sched, group, group->rank);
}

static void exscan(struct tt_sched *sched, const struct tt_group *group)
{
	if (group->size > 2)
		prefix(sched, group, group->rank - 1);
	else if (group->rank == 0) /* who is between may need its input while others' come */
		tt_send(sched, 1, tt_in(0), 1);
	else
		tt_recv(sched, 0, tt_out(0), 1);
}

static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	for (int k = 1; k < group->size; k++) {
		tt_send(sched, tt_mod(group->rank + k, group->size), tt_in(0), 1);
		tt_recv(sched, tt_mod(group->rank - k, group->size), tt_out(0), 1);
	}
}

/* One round, seen from the rank that talks most: the root, if there is one. */
static struct tt_cost round_cost(const struct tt_group *group, enum tt_collective collective,
				 double bytes)
{
	const double others = group->size - 1, share = others / group->size;

	switch (collective) {
	case TT_BROADCAST: return tt_cost_links(group, 1, others * bytes, 0);
	case TT_REDUCE: return tt_cost_links(group, 1, others * bytes, others * bytes);
	case TT_ALL_REDUCE:
	case TT_SCAN: return tt_cost_exchange(group, 1, others * bytes, others * bytes);
	case TT_EXSCAN:
		return tt_cost_exchange(group, 1, others * bytes,
					others > 1 ? (others - 1) * bytes : 0);
	case TT_REDUCE_SCATTER:
	case TT_REDUCE_SCATTER_V: return tt_cost_exchange(group, 1, share * bytes, share * bytes);
	case TT_BARRIER: return tt_cost_links(group, 1, 0, 0);
	case TT_GATHER:
	case TT_GATHER_V:
	case TT_SCATTER:
	case TT_SCATTER_V: return tt_cost_links(group, 1, share * bytes, 0);
	default: return tt_cost_exchange(group, 1, share * bytes, 0);
	}
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	struct tt_cost cost = round_cost(group, collective, bytes);

	cost.in_place = 0;
	if (collective == TT_BROADCAST && group->hosts == 1)
		cost.again = (group->size - 2) * (bytes < CACHED_BYTES ? bytes : CACHED_BYTES);
	const bool gathers =
		collective == TT_REDUCE || collective == TT_GATHER || collective == TT_GATHER_V;
	tt_cost_at_once(&cost, group->size - 1, gathers ? 1 : 0);
	return cost;
}

const struct tt_algorithm tt_algorithm_flat = {
	.name = "flat",
	.ordered = true,
	.one_fold = true,
	.fits = tt_fits_fold,
	.build = {
		[TT_BROADCAST] = broadcast,
		[TT_REDUCE] = reduce,
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE_SCATTER] = reduce_scatter,
		[TT_REDUCE_SCATTER_V] = reduce_scatter,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
		[TT_GATHER] = gather,
		[TT_GATHER_V] = gather,
		[TT_SCATTER] = scatter,
		[TT_SCATTER_V] = scatter,
		[TT_ALL_TO_ALL] = all_to_all,
		[TT_ALL_TO_ALL_V] = all_to_all,
		[TT_SCAN] = scan,
		[TT_EXSCAN] = exscan,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
