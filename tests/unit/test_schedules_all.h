/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm there is, for tests that make claims about each. */
#ifndef TEST_SCHEDULES_ALL_H
#define TEST_SCHEDULES_ALL_H

#include "algorithms.h"

static const struct tt_algorithm *const all[] = {
	&tt_algorithm_board,
	&tt_algorithm_bruck,
	&tt_algorithm_chain,
	&tt_algorithm_direct,
	&tt_algorithm_double_tree,
	&tt_algorithm_doubling,
	&tt_algorithm_flat,
	&tt_algorithm_halving_doubling,
	&tt_algorithm_hierarchical,
	&tt_algorithm_hierarchical_split,
	&tt_algorithm_hierarchical_shots,
	&tt_algorithm_pairwise,
	&tt_algorithm_ring,
	&tt_algorithm_star,
	&tt_algorithm_tree,
	&tt_algorithm_two_shot,
};

enum { ALGORITHMS = sizeof(all) / sizeof(all[0]) };

#endif
