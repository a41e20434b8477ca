/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks send each other while they split a communicator, and what is believed of it. Same
 * build on all ranks, so plain bytes. */
#ifndef TT_SPLIT_H
#define TT_SPLIT_H

#include <stdint.h>

#include "log.h"

/* The place of a choice among all says whose it is. */
struct tt_split_choice {
	int32_t color, key;
};

struct tt_split_part {
	int *members; /* [count]: ranks of the parent, in their new order */
	int count;    /* 0: this rank takes part in none */
	int place;    /* this rank's among them */
};

/* choices[size] came from the ranks, and `mine` is what this one, `rank`, has said itself.
 * `part->members` has room for all. */
tutti_result_t tt_split_select(const struct tt_split_choice *choices, int size, int rank,
			       struct tt_split_choice mine, struct tt_split_part *part);

#endif
