/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the choice of an algorithm: the cheapest of those that can, by a model of what messages, bytes, reductions
 * and waits cost. Every rank must choose alike, so nothing here depends on the rank. */
#include <string.h>

#include "log.h"
#include "plan.h"
#include "registry.h"

/* Seconds, and seconds per byte. Measured on a 2-core virtual machine; orders of magnitude decide. */
struct model {
	double message[2];  /* a message within a host, between hosts */
	double byte[2];
	double reduced;
	double sync;	    /* waiting for all ranks of the host once */
};

static const struct model fitting = { { 0.4e-6, 4e-6 }, { 0.10e-9, 0.20e-9 }, 0.05e-9, 0.2e-6 };
/* Every wait costs switches between ranks that share a core. */
static const struct model crowded = { { 2e-6, 12e-6 }, { 0.20e-9, 0.40e-9 }, 0.10e-9, 1.5e-6 };

static double seconds(const struct tutti_comm *comm, const struct tt_cost *cost)
{
	const struct model *model = comm->any_oversubscribed ? &crowded : &fitting;
	const int inside = comm->by_network ? 1 : 0;

	return cost->messages[0] * model->message[inside] + cost->messages[1] * model->message[1] +
	       cost->bytes[0] * model->byte[inside] + cost->bytes[1] * model->byte[1] +
	       cost->reduced * model->reduced + cost->syncs * model->sync;
}

static bool needs_order(const struct tutti_comm *comm, const struct tt_call *call)
{
	const int user = call->op - TUTTI_OP_COUNT;

	return call->op >= 0 &&
	       (comm->settings.reproducible || (user >= 0 && !comm->user_ops[user].commutative));
}

static bool can(const struct tutti_comm *comm, const struct tt_group *group,
		const struct tt_call *call, const struct tt_algorithm *algorithm)
{
	return (algorithm->collectives & TT_BIT(call->collective)) &&
	       (!algorithm->shared || comm->board.base) &&
	       (algorithm->ordered || !needs_order(comm, call)) &&
	       algorithm->fits(group, call->collective);
}

const struct tt_algorithm *tt_tuner_choose(const struct tutti_comm *comm, const struct tt_group *group,
					   const struct tt_call *call, double bytes)
{
	const struct tt_algorithm *best = NULL;
	double best_time = 0;

	if (*comm->settings.algorithm) {
		const struct tt_algorithm *forced = tt_algorithm_by_name(comm->settings.algorithm);

		if (can(comm, group, call, forced))
			return forced;
		tt_log(INFO, PLAN, "algorithm %s cannot do this call: another is chosen", forced->name);
	}
	for (int i = 0; tt_algorithms[i]; i++) {
		if (!can(comm, group, call, tt_algorithms[i]))
			continue;
		const struct tt_cost cost = tt_algorithms[i]->cost(group, call->collective, bytes);
		const double time = seconds(comm, &cost);
		if (!best || time < best_time) {
			best = tt_algorithms[i];
			best_time = time;
		}
	}
	return best;
}
