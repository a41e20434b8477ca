/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the counting of what all ranks together do. Where ranks outnumber cores, the sum of everybody's work bounds an
 * operation, not its longest path: a tree of P ranks passes 2(P-1) messages, recursive doubling P log2 P. The schedules
 * themselves say how many. */
#include <stdlib.h>

#include "names.h"
#include "plan.h"
#include "registry.h"

#define RANKS_MAX 64 /* beyond, the counting would cost more than a wrong choice */

static bool count_rank(const struct tutti_comm *comm, const struct tt_algorithm *algorithm,
		       enum tt_collective collective, int rank, struct tt_work *work)
{
	const struct tt_group group = { rank, comm->size, 0, comm->host, comm->hosts };
	struct tt_sched sched;

	tt_sched_init(&sched, rank, comm->size);
	algorithm->build(&sched, &group, collective);
	const bool good = tt_sched_finish(&sched) == TUTTI_OK;
	/* a vector's blocks are parts of it; the others' blocks are one rank's share of `bytes` */
	const bool vector = tt_collective_of_vector(collective);
	const double parts = vector ? (double)sched.blocks : (double)comm->size;
	for (uint32_t i = 0; i < sched.nsteps && good; i++) {
		const struct tt_step *step = &sched.steps[i];

		if (step->kind == TT_STEP_SEND) {
			work->messages[comm->host[rank] != comm->host[step->peer]]++;
			work->bytes += step->n / parts;
		} else if (step->kind == TT_STEP_RECV_REDUCE || (step->kind == TT_STEP_REDUCE && step->sources > 1)) {
			work->reduced += step->n / parts;
		}
	}
	tt_sched_fini(&sched);
	return good;
}

const struct tt_work *tt_work_of(struct tutti_comm *comm, int number, enum tt_collective collective)
{
	if (comm->size > RANKS_MAX)
		return NULL;
	if (!comm->work)
		comm->work = calloc((size_t)tt_algorithm_number(NULL) * TT_COLLECTIVE_COUNT, sizeof(*comm->work));
	if (!comm->work)
		return NULL;
	struct tt_work *work = &comm->work[number * TT_COLLECTIVE_COUNT + (int)collective];
	if (!work->known) {
		work->known = true;
		for (int rank = 0; rank < comm->size; rank++)
			if (!count_rank(comm, tt_algorithms[number], collective, rank, work))
				return NULL;
	}
	return work;
}
