/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks' GPUs reach each other. */
#ifndef TT_CUDA_CLIQUES_H
#define TT_CUDA_CLIQUES_H

#include "peer_access.h"

/* Ranks of one host that all reach each other's memory make up a clique, the most that are so
 * in order of rank. Every rank is on one. */
struct tt_cuda_cliques {
	int count;     /* 0: none is of use */
	int most;      /* ranks on the largest */
	int *of;       /* [ranks]: numbered in order of their lowest ranks */
	char why[480]; /* a rank does not reach another one of its own host; "": all do */
};

/* What a rank tells of whom it reaches. Same build on all ranks, so plain bytes. */
struct tt_cuda_accessible {
	uint64_t local; /* a bit for each rank of its host, in order, that it reaches */
	char why[480];	/* it does not reach one of the first 64 */
};

/* While cliques are made up: one for each rank at most. */
struct tt_cuda_clique {
	int members;
	int refused; /* the last rank that cannot be one */
};

/* The cliques that follow from what each rank told, reached[ranks]; local[ranks] are the ranks'
 * numbers on their hosts. `scratch` has a zeroed clique for each rank, and so has out->of a
 * number. */
void tt_cuda_agree_on_cliques(const struct tutti_comm *comm,
			      const struct tt_cuda_accessible *reached, const int *local,
			      struct tt_cuda_clique *scratch, struct tt_cuda_cliques *out);
/* All ranks call and get the same; the communicator's context is current. `all`: what they have told.
 * `of` is the caller's to free. */
tutti_result_t tt_cuda_find_cliques(struct tt_cuda *cuda, struct tt_cuda_offer *all,
				    struct tt_cuda_cliques *out);
/* How many ranks each has, if all have as many; 0 otherwise. */
int tt_cuda_clique_size(const struct tt_cuda_cliques *cliques, int ranks);

#endif
