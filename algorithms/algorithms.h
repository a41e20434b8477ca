/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm there is, for the registry. docs/algorithms.md says what each costs. */
#ifndef TT_ALGORITHMS_H
#define TT_ALGORITHMS_H

#include "schedule.h"

extern const struct tt_algorithm tt_algorithm_board;
extern const struct tt_algorithm tt_algorithm_bruck;
extern const struct tt_algorithm tt_algorithm_chain;
extern const struct tt_algorithm tt_algorithm_direct;
extern const struct tt_algorithm tt_algorithm_double_tree;
extern const struct tt_algorithm tt_algorithm_doubling;
extern const struct tt_algorithm tt_algorithm_flat;
extern const struct tt_algorithm tt_algorithm_halving_doubling;
extern const struct tt_algorithm tt_algorithm_hierarchical;
extern const struct tt_algorithm tt_algorithm_hierarchical_split;
extern const struct tt_algorithm tt_algorithm_hierarchical_shots;
extern const struct tt_algorithm tt_algorithm_pairwise;
extern const struct tt_algorithm tt_algorithm_ring;
extern const struct tt_algorithm tt_algorithm_star;
extern const struct tt_algorithm tt_algorithm_tree;
extern const struct tt_algorithm tt_algorithm_two_level;
extern const struct tt_algorithm tt_algorithm_two_shot;

#endif
