/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the counting of what all ranks together do. Where ranks outnumber cores, the sum of
 * everybody's work bounds an operation, not its longest path: a tree of P ranks passes 2(P-1)
 * messages, recursive doubling P log2 P. The schedules themselves say how many. */
#include <stdlib.h>

#include "log.h"
#include "names.h"
#include "plan.h"
#include "planning.h"
#include "registry.h"

#define ALL_COUNTED 64 /* so many ranks at most: more would cost more than they tell */
#define SAMPLES                                                                                    \
	16 /* of more ranks: the first, which is the root of trees and stars, and some that stand
	    * for the others */

static bool is_receive(const struct tt_step *step)
{
	return step->kind == TT_STEP_RECV || step->kind == TT_STEP_RECV_REDUCE;
}

static bool receives(const struct tt_sched *sched, uint32_t round)
{
	for (uint32_t i = sched->round[round]; i < sched->round[round + 1]; i++)
		if (is_receive(&sched->steps[i]))
			return true;
	return false;
}

static tutti_result_t count_rank(const struct tutti_comm *comm,
				 const struct tt_algorithm *algorithm,
				 enum tt_collective collective, int rank, struct tt_work *work)
{
	const struct tt_group group = { rank, comm->size, 0, comm->topology.host,
					comm->topology.hosts };
	struct tt_sched sched;

	const tutti_result_t result = tt_sched_build(&sched, algorithm, &group, collective);
	/* a vector's blocks are parts of it; the others' blocks are one rank's share of `bytes` */
	const bool vector = tt_collective_of_vector(collective);
	const double parts = vector ? (double)sched.blocks : (double)comm->size;

	work->blocks = parts;
	for (uint32_t round = 0; round < sched.nrounds && !result; round++)
		work->waits += receives(&sched, round);
	for (uint32_t i = 0; i < sched.nsteps && !result; i++) {
		const struct tt_step *step = &sched.steps[i];

		/* half at each end: ranks that stand for others differ less by that, as each of
		 * a tree's receives one message */
		if (step->kind == TT_STEP_SEND || is_receive(step)) {
			work->messages[comm->topology.host[rank] !=
				       comm->topology.host[step->peer]] += 0.5;
			work->bytes += 0.5 * step->n / parts;
		}
		if (step->kind == TT_STEP_RECV_REDUCE) {
			work->reduced += step->n / parts;
			work->in_place += step->n / parts;
		} else if (step->kind == TT_STEP_REDUCE && step->sources > 1) {
			/* what was received lies in scratch, to be read once more */
			work->reduced += step->sources * step->n / parts;
		}
	}
	tt_sched_fini(&sched);
	return result;
}

static int counted_ranks(int size)
{
	return size <= ALL_COUNTED ? size : SAMPLES;
}

/* The i-th of them. Apart by the golden section, so that no pattern of a schedule is met at one
 * place only. */
static int counted_rank(int size, int i)
{
	if (size <= ALL_COUNTED || i == 0)
		return i;
	return 1 + (int)((uint64_t)((uint32_t)i * 2654435769u) * (uint32_t)(size - 1) >> 32);
}

/* Those after the first stand for all others. */
static void stand_for_all(struct tt_work *work, const struct tt_work *first, int size)
{
	const double times = (double)(size - 1) / (counted_ranks(size) - 1);

	for (int far = 0; far < 2; far++)
		work->messages[far] =
			first->messages[far] + times * (work->messages[far] - first->messages[far]);
	work->waits = first->waits + times * (work->waits - first->waits);
	work->bytes = first->bytes + times * (work->bytes - first->bytes);
	work->reduced = first->reduced + times * (work->reduced - first->reduced);
	work->in_place = first->in_place + times * (work->in_place - first->in_place);
}

tutti_result_t tt_work_of(struct tutti_comm *comm, int number, enum tt_collective collective,
			  const struct tt_work **out)
{
	const size_t n = (size_t)tt_algorithm_number(NULL) * TT_COLLECTIVE_COUNT;
	struct tt_work counted = { .known = true }, first = { 0 };

	*out = NULL;
	struct tt_planning *planning = tt_planning_of(comm);
	if (planning && !planning->work)
		planning->work = calloc(n, sizeof(*planning->work));
	if (!planning || !planning->work)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory to compare algorithms");
	struct tt_work *work = &planning->work[number * TT_COLLECTIVE_COUNT + (int)collective];
	for (int i = 0; i < counted_ranks(comm->size) && !work->known; i++) {
		const tutti_result_t result = count_rank(comm, tt_algorithms[number], collective,
							 counted_rank(comm->size, i), &counted);

		/* a rank that did not count would choose otherwise than the others */
		if (result == TUTTI_ERR_NO_MEMORY)
			return tt_fail(result, PLAN, "no memory to compare algorithms");
		if (result) { /* on every rank */
			counted = first = (struct tt_work){ .known = true, .blocks = 1 };
			break;
		}
		if (i == 0)
			first = counted;
	}
	if (!work->known && comm->size > ALL_COUNTED)
		stand_for_all(&counted, &first, comm->size);
	if (!work->known)
		*work = counted;
	*out = work;
	return TUTTI_OK;
}
