/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the linear prefix reductions: rank r waits for r - 1, adds its own and hands on to r + 1, in
 * round r. As long vectors are cut into segments, all ranks work at once. */
#include "algorithms.h"
#include "parts.h"

static void scan(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;

	if (rank == 0) {
		tt_copy(sched, tt_out(0), tt_in(0), 1);
	} else {
		tt_rounds(sched, rank - 1);
		tt_recv_reduce_left(sched, rank - 1, tt_out(0), tt_in(0), 1);
		tt_round(sched);
	}
	if (rank + 1 < group->size)
		tt_send(sched, rank + 1, tt_out(0), 1);
}

/* What comes in is the result, and what goes out has the own vector added, which in place is where
 * the result belongs: so both are made in scratch. The last rank hands nothing on. */
static void exscan(struct tt_sched *sched, const struct tt_group *group)
{
	const int rank = group->rank;
	const bool last = rank + 1 == group->size;

	if (rank > 0) {
		tt_rounds(sched, rank - 1);
		tt_recv(sched, rank - 1, last ? tt_out(0) : tt_tmp(0, 0), 1);
		tt_round(sched);
	}
	if (last)
		return;
	if (rank > 0) {
		tt_reduce(sched, tt_tmp(1, 0), 1);
		tt_source(sched, rank, tt_tmp(0, 0));
		tt_source(sched, rank, tt_in(0));
		tt_copy(sched, tt_out(0), tt_tmp(0, 0), 1);
	}
	tt_send(sched, rank + 1, rank ? tt_tmp(1, 0) : tt_in(0), 1);
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double hops = group->size - 1;
	const bool combines = hops > (collective == TT_EXSCAN); /* the last only takes */
	struct tt_cost cost = tt_cost_links(group, hops, bytes, combines ? bytes : 0);
	int far = 0;

	if (collective == TT_EXSCAN)
		cost.in_place = 0;
	for (int r = 1; r < group->size; r++)
		far += group->host[r] != group->host[r - 1];
	if (far > 0) {
		cost.messages[0] = hops - far;
		cost.messages[1] = far;
		cost.crossing = (double)far / (group->hosts - 1);
	}
	tt_cost_pipeline(&cost, (far > 0 ? far : hops) - 1, bytes);
	return cost;
}

const struct tt_algorithm tt_algorithm_chain = {
	.name = "chain",
	.ordered = true,
	.pipelined = true,
	.fits = tt_fits_any,
	.build = {
		[TT_SCAN] = scan,
		[TT_EXSCAN] = exscan,
	},
	.cost = cost,
};
