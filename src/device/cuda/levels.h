/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams in two levels, where GPUs reach each other on several islands: on each
 * island by its GPUs, between islands by the host. */
#ifndef TT_CUDA_LEVELS_H
#define TT_CUDA_LEVELS_H

#include "islands.h"
#include "reach.h"

/* All ranks call, with a proxy; the same result on all. Without an error there may still be no
 * levels: islands are not alike, or have one rank each. `mine` and `all`: room for an exchange.
 * The communicator's context is current. */
tutti_result_t tt_cuda_levels_begin(struct tt_cuda *cuda, const struct tt_cuda_islands *islands,
				    struct tt_cuda_offer *mine, struct tt_cuda_offer *all);
/* No levels is fine. `frees`: nobody is at its memory, and the context is there. */
void tt_cuda_levels_end(struct tt_cuda *cuda, bool frees);

/* What this rank has for its island alone, where there are levels; otherwise NULL. */
struct tt_cuda *tt_cuda_island_of(const struct tt_cuda *cuda);

/* Is the call one that is worth it? The same on all ranks. */
bool tt_cuda_fits_levels(const struct tt_cuda *cuda, const struct tt_call *call);
tutti_result_t tt_cuda_by_levels(struct tt_cuda_op *op);
/* The rank that has this one's place on another island. */
int tt_cuda_rank_across(const struct tt_cuda *cuda, int island);

#endif
