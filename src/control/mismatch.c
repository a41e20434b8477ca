/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is looked up for the error message about two headers that differ: the table of counts
 * that the own one stands for. */
#include "mismatch.h"

#include "names.h"
#include "plan_cache.h"

static bool differ_in_pair(const struct tt_op_header *mine, const struct tt_op_header *theirs)
{
	struct tt_op_header same = *theirs;

	same.count = mine->count;
	return mine->collective < TT_COLLECTIVE_COUNT &&
	       tt_collective_knows_own_counts((enum tt_collective)mine->collective) &&
	       tt_op_header_equal(mine, &same);
}

struct tt_fault tt_mismatch(struct tutti_comm *comm, const struct tt_op_header *mine,
			    const struct tt_op_header *theirs)
{
	const struct tt_counts counts = tt_plans_counts(comm, mine);

	if (differ_in_pair(mine, theirs))
		return tt_op_header_mismatch_of_pair(mine, theirs);
	return tt_op_header_mismatch(mine, theirs, counts.at ? &counts : NULL);
}
