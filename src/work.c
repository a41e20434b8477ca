/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the counting of what all ranks together do. Where ranks outnumber cores, the sum of everybody's work bounds an
 * operation, not its longest path: a tree of P ranks passes 2(P-1) messages, recursive doubling P log2 P. The schedules
 * themselves say how many. */
#include <stdlib.h>

#include "log.h"
#include "names.h"
#include "plan.h"
#include "registry.h"

#define RANKS_MAX 64 /* beyond, the counting would cost more than a wrong choice */

static bool receives(const struct tt_sched *sched, uint32_t round)
{
	for (uint32_t i = sched->round[round]; i < sched->round[round + 1]; i++)
		if (sched->steps[i].kind == TT_STEP_RECV || sched->steps[i].kind == TT_STEP_RECV_REDUCE)
			return true;
	return false;
}

static tutti_result_t count_rank(const struct tutti_comm *comm, const struct tt_algorithm *algorithm,
				 enum tt_collective collective, int rank, struct tt_work *work)
{
	const struct tt_group group = { rank, comm->size, 0, comm->host, comm->hosts };
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

		if (step->kind == TT_STEP_SEND) {
			work->messages[comm->host[rank] != comm->host[step->peer]]++;
			work->bytes += step->n / parts;
		} else if (step->kind == TT_STEP_RECV_REDUCE) {
			work->reduced += step->n / parts;
		} else if (step->kind == TT_STEP_REDUCE && step->sources > 1) {
			/* what was received lies in scratch, to be read once more */
			work->reduced += step->sources * step->n / parts;
		}
	}
	tt_sched_fini(&sched);
	return result;
}

tutti_result_t tt_work_of(struct tutti_comm *comm, int number, enum tt_collective collective,
			  const struct tt_work **out)
{
	const size_t n = (size_t)tt_algorithm_number(NULL) * TT_COLLECTIVE_COUNT;
	struct tt_work counted = { .known = true };

	*out = NULL;
	if (comm->size > RANKS_MAX)
		return TUTTI_OK;
	if (!comm->work)
		comm->work = calloc(n, sizeof(*comm->work));
	if (!comm->work)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory to compare algorithms");
	struct tt_work *work = &comm->work[number * TT_COLLECTIVE_COUNT + (int)collective];
	for (int rank = 0; rank < comm->size && !work->known; rank++) {
		const tutti_result_t result =
			count_rank(comm, tt_algorithms[number], collective, rank, &counted);

		/* a rank that did not count would choose otherwise than the others */
		if (result == TUTTI_ERR_NO_MEMORY)
			return tt_fail(result, PLAN, "no memory to compare algorithms");
		if (result) { /* on every rank */
			counted = (struct tt_work){ .known = true, .blocks = 1 };
			break;
		}
	}
	if (!work->known)
		*work = counted;
	*out = work;
	return TUTTI_OK;
}
