/* SPDX-License-Identifier: BSD-3-Clause */
/* What planning keeps of a communicator beside its plans. */
#ifndef TT_PLANNING_H
#define TT_PLANNING_H

#include "plan.h"

/* What all ranks together do in a collective by an algorithm, for one byte of its vector (or of
 * all blocks). */
struct tt_work {
	bool known;
	double messages[2]; /* of a segment: [0] within a host, [1] between hosts */
	double waits;	    /* of a segment: rounds, of all ranks, in which one receives anything */
	double blocks;	    /* that the bytes are cut into */
	double bytes, reduced;
	double in_place; /* of the bytes, those that are combined where they arrive */
};

struct tt_planning {
	struct tt_work *work; /* [algorithm × collective], counted when first asked for */
	char carriers[1 << TT_MAX_TRANSPORTS][32]; /* by sets of endpoints; "" until asked for */
	uint32_t warned; /* TT_BIT of each collective that the algorithm asked for was said not
			  * to do */
};

/* The communicator's; NULL without memory for it. */
struct tt_planning *tt_planning_of(struct tutti_comm *comm);

/* work.c: what all ranks together do by the algorithm of that number. */
tutti_result_t tt_work_of(struct tutti_comm *comm, int number, enum tt_collective collective,
			  const struct tt_work **out);

#endif
