/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns who reaches whom: each rank shows a page of its GPU's memory with a mark on it, tries to
 * read those of its host, and all tell each other with whom that succeeded. */
#include "cliques.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "progress.h"
#include "parts.h"

#define PROBE_BYTES CUDA_BLOCK
#define MARK_BYTES  4096 /* at the beginning; behind it, where another rank's is brought */

/* What is known of each rank, and of each clique, of which there are no more. */
struct search {
	struct tt_cuda_offer *all; /* the caller's */
	struct tt_cuda_accessible *reached;
	int *local; /* numbers of ranks on their hosts */
	struct tt_cuda_clique *cliques;
};

static void number_locals(const struct tutti_comm *comm, int *local)
{
	int *met = local + comm->size; /* [hosts] */

	for (int rank = 0; rank < comm->size; rank++)
		local[rank] = met[comm->topology.host[rank]]++;
}

/* Each page's own: what an earlier communicator has left there is another one. */
static void make_mark(const struct tt_cuda_offer *offer, int rank, uint64_t *mark)
{
	uint64_t word = offer->process ^ offer->memory ^ (uint64_t)rank;

	for (size_t i = 0; i < MARK_BYTES / sizeof(*mark); i++)
		mark[i] = word = word * 6364136223846793005u + 1442695040888963407u;
}

static tutti_result_t write_mark(const struct tt_cuda *cuda, const struct tt_cuda_offer *mine)
{
	uint64_t mark[MARK_BYTES / sizeof(uint64_t)];

	make_mark(mine, cuda->comm->rank, mark);
	const cuda_result error = tt_cuda_copy_now(cuda, mine->memory, cuda_at(mark), MARK_BYTES);
	return tt_cuda_check(error, "write to memory of the GPU");
}

/* What CUDA says of who reaches whom is not all: between two GPUs that it lets reach each other,
 * others may change where their messages go. */
static tutti_result_t read_mark(const struct tt_cuda *cuda, cuda_address own,
				const struct tt_cuda_offer *theirs, cuda_address memory, int rank)
{
	uint64_t mark[MARK_BYTES / sizeof(uint64_t)], found[MARK_BYTES / sizeof(uint64_t)];
	cuda_result error = tt_cuda_copy_now(cuda, own + MARK_BYTES, memory, MARK_BYTES);

	if (!error)
		error = tt_cuda_copy_now(cuda, cuda_at(found), own + MARK_BYTES, MARK_BYTES);
	if (error)
		return tt_cuda_check(error, "read memory of another rank's GPU");
	make_mark(theirs, rank, mark);
	if (memcmp(mark, found, MARK_BYTES) == 0)
		return TUTTI_OK;
	return tt_fail(
		TUTTI_ERR_UNSUPPORTED, CUDA,
		"GPU %d reads other bytes from the memory of rank %d's GPU than that rank has written, although CUDA says that it reaches it: an IOMMU, or PCIe's access "
		"control (ACS), may redirect what they send each other",
		cuda->number, rank);
}

static bool try_one(const struct tt_cuda *cuda, const struct search *search, int rank)
{
	const cuda_address own = search->all[cuda->comm->rank].memory;
	const struct tt_cuda_offer *theirs = &search->all[rank];
	struct tt_cuda_peer peer = { 0 };

	if (rank == cuda->comm->rank)
		return true;
	const bool reached = tt_cuda_peer_access(cuda, rank, theirs, &peer) == TUTTI_OK &&
			     read_mark(cuda, own, theirs, peer.memory, rank) == TUTTI_OK;
	tt_cuda_unreach(cuda, &peer);
	return reached;
}

static void try_all(const struct tt_cuda *cuda, struct search *search,
		    struct tt_cuda_accessible *out)
{
	const struct tutti_comm *comm = cuda->comm;

	for (int rank = 0; rank < comm->size; rank++) {
		const int local = search->local[rank];

		if (comm->topology.host[rank] != comm->topology.host[comm->rank] || local >= 64)
			continue;
		if (try_one(cuda, search, rank))
			out->local |= 1ull << local;
		else if (!*out->why)
			snprintf(out->why, sizeof(out->why), "rank %d: %.460s", comm->rank,
				 tt_thread_error());
	}
}

/* ---- what follows from what all have told */

static bool reaches(const struct tutti_comm *comm, const struct tt_cuda_accessible *reached,
		    const int *local, int a, int b)
{
	return comm->topology.host[a] == comm->topology.host[b] && local[b] < 64 &&
	       reached[a].local >> local[b] & 1;
}

/* The first clique that has room and on which all reach the rank, and are reached by it; or one
 * that is not there yet. */
static int find_clique(const struct tutti_comm *comm, const struct tt_cuda_accessible *reached,
		       const int *local, struct tt_cuda_clique *cliques,
		       const struct tt_cuda_cliques *found, int rank)
{
	int clique = 0;

	for (int other = 0; other < rank; other++)
		if (!reaches(comm, reached, local, rank, other) ||
		    !reaches(comm, reached, local, other, rank))
			cliques[found->of[other]].refused = rank;
	while (clique < found->count &&
	       (cliques[clique].refused == rank || cliques[clique].members == TT_CUDA_RANKS))
		clique++;
	return clique;
}

void tt_cuda_agree_on_cliques(const struct tutti_comm *comm,
			      const struct tt_cuda_accessible *reached, const int *local,
			      struct tt_cuda_clique *scratch, struct tt_cuda_cliques *out)
{
	for (int rank = 0; rank < comm->size; rank++) {
		const int clique = find_clique(comm, reached, local, scratch, out, rank),
			  members = ++scratch[clique].members;

		out->of[rank] = clique;
		out->count += clique == out->count;
		out->most = members > out->most ? members : out->most;
		if (*reached[rank].why && !*out->why)
			tt_failure_text(out->why, sizeof(out->why), reached[rank].why,
					sizeof(reached[rank].why));
	}
}

/* ---- together */

/* All ranks take all exchanges, whatever fails. */
static tutti_result_t probe(struct tt_cuda *cuda, cuda_address memory, tutti_result_t result,
			    struct search *search)
{
	struct tutti_comm *comm = cuda->comm;
	struct tt_cuda_offer *const mine = &search->all[comm->rank];
	struct tt_cuda_accessible *const own = &search->reached[comm->rank];

	if (!result)
		result = tt_cuda_offer(cuda, memory, PROBE_BYTES, mine);
	if (!result)
		result = write_mark(cuda, mine);
	result = tt_cuda_exchange(comm, TT_PART_CUDA_BIND, result, search->all);
	if (result)
		return result;
	try_all(cuda, search, own);
	result = tt_part_all_gather(comm, TT_PART_CUDA_BIND, own, search->reached, sizeof(*own));
	return result ? result
		      : tt_part_barrier(
				/* nobody frees what another one has mapped */
				comm, TT_PART_CUDA_BIND);
}

static tutti_result_t find(struct tt_cuda *cuda, struct search *search, struct tt_cuda_cliques *out)
{
	cuda_address memory = 0;
	const cuda_result error = tt_cu.mem_alloc(&memory, PROBE_BYTES);

	number_locals(cuda->comm, search->local);
	const tutti_result_t result = probe(
		cuda, memory, tt_cuda_check(error, "take a page of memory of the GPU"), search);
	if (!result)
		tt_cuda_agree_on_cliques(cuda->comm, search->reached, search->local,
					 search->cliques, out);
	if (memory)
		tt_cu.mem_free(memory);
	return result;
}

tutti_result_t tt_cuda_find_cliques(struct tt_cuda *cuda, struct tt_cuda_offer *all,
				    struct tt_cuda_cliques *out)
{
	const size_t size = (size_t)cuda->comm->size, hosts = (size_t)cuda->comm->topology.hosts;
	struct search search = { all, calloc(size, sizeof(*search.reached)),
				 calloc(size + hosts, sizeof(int)),
				 calloc(size, sizeof(*search.cliques)) };
	tutti_result_t result;

	*out = (struct tt_cuda_cliques){ .of = calloc(size, sizeof(int)) };
	if (search.reached && search.local && search.cliques && out->of)
		result = find(cuda, &search, out);
	else
		result = tt_comm_fail(cuda->comm,
				      tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
					      "tutti_cuda_bind: no memory for %zu ranks", size));
	free(search.reached);
	free(search.local);
	free(search.cliques);
	return result;
}

int tt_cuda_clique_size(const struct tt_cuda_cliques *cliques, int ranks)
{
	return cliques->count * cliques->most == ranks ? cliques->most : 0;
}
