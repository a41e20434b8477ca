/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams on two levels, where GPUs reach each other on several cliques: on
 * each clique by its GPUs, between cliques by the host. */
#ifndef TT_CUDA_HIERARCHY_H
#define TT_CUDA_HIERARCHY_H

#include "cliques.h"

/* All ranks call, with a proxy; the same result on all. Without an error there may still be no
 * hierarchy: cliques are not alike, or have one rank each. `all`: what the ranks have told. The
 * communicator's context is current. */
tutti_result_t tt_cuda_hierarchy_begin(struct tt_cuda *cuda, const struct tt_cuda_cliques *cliques,
				       struct tt_cuda_offer *all);
/* No hierarchy is fine. `frees`: nobody is at its memory, and the context is there. */
void tt_cuda_hierarchy_end(struct tt_cuda *cuda, bool frees);

/* Whose kernels and streams wait for ranks that this one reaches, perhaps its clique's; NULL:
 * nobody's. */
struct tt_cuda *tt_cuda_who_waits(struct tt_cuda *cuda);

/* Is the call one that is worth it? The same on all ranks. */
bool tt_cuda_fits_hierarchy(const struct tt_cuda *cuda, const struct tt_call *call);
tutti_result_t tt_cuda_hierarchical(struct tt_cuda_op *op);
/* The rank that has this one's place on another clique. */
int tt_cuda_rank_across(const struct tt_cuda *cuda, int clique);

#endif
