/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns who reaches whom: each rank shows a page of its GPU's memory, tries to reach those of its host, and all tell each other with whom that succeeded. */
#include "islands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "reach.h"

#define PROBE_BYTES 4096

/* What a rank tells. Same build on all ranks, so plain bytes. */
struct reached {
	uint64_t local; /* a bit for each rank of its host, in order, that it reaches */
	char why[480];	/* it does not reach one of the first 64 */
};

static int local_rank_of(const struct tutti_comm *comm, int rank)
{
	int local = 0;

	for (int before = 0; before < rank; before++)
		local += comm->host[before] == comm->host[rank];
	return local;
}

static void try_all(const struct tt_cuda *cuda, const struct tt_cuda_offer *all, struct tt_cuda_peer *peers, struct reached *out)
{
	const struct tutti_comm *comm = cuda->comm;
	int local = 0;

	for (int rank = 0; rank < comm->size && local < 64; rank++) {
		if (comm->host[rank] != comm->host[comm->rank])
			continue;
		if (rank == comm->rank || tt_cuda_reach(cuda, rank, &all[rank], &peers[rank]) == TUTTI_OK)
			out->local |= 1ull << local;
		else if (!*out->why)
			snprintf(out->why, sizeof(out->why), "rank %d: %.460s", comm->rank, tt_thread_error());
		local++;
	}
}

static bool reaches(const struct tutti_comm *comm, const struct reached *all, int a, int b)
{
	const int local = local_rank_of(comm, b);

	return comm->host[a] == comm->host[b] && local < 64 && all[a].local >> local & 1;
}

/* May `rank` be on the island, so far of `members` lower ranks? */
static bool belongs(const struct tutti_comm *comm, const struct reached *all, const int *of, int island, int rank)
{
	int members = 0;

	for (int other = 0; other < rank; other++) {
		if (of[other] != island)
			continue;
		members++;
		if (!reaches(comm, all, rank, other) || !reaches(comm, all, other, rank))
			return false;
	}
	return members < TT_CUDA_RANKS;
}

static void settle(const struct tutti_comm *comm, const struct reached *all, struct tt_cuda_islands *out)
{
	for (int rank = 0; rank < comm->size; rank++) {
		int island = 0;

		while (island < out->count && !belongs(comm, all, out->of, island, rank))
			island++;
		out->of[rank] = island;
		out->count += island == out->count;
		if (*all[rank].why && !out->split) {
			out->split = true;
			memcpy(out->why, all[rank].why, sizeof(out->why));
		}
	}
}

/* All ranks take all exchanges, whatever fails. */
static tutti_result_t probe(struct tt_cuda *cuda, cuda_address memory, tutti_result_t result, struct tt_cuda_offer *offers, struct tt_cuda_peer *peers,
			    struct reached *reached)
{
	struct tutti_comm *comm = cuda->comm;
	struct tt_cuda_offer *mine = offers + comm->size;
	struct reached own = { 0 };

	if (!result)
		result = tt_cuda_offer(cuda, memory, PROBE_BYTES, mine);
	result = tt_cuda_exchange(comm, result, mine, offers);
	if (result)
		return result;
	try_all(cuda, offers, peers, &own);
	result = tutti_all_gather(comm, &own, reached, sizeof(own), TUTTI_UINT8, NULL);
	for (int rank = 0; rank < comm->size; rank++)
		tt_cuda_unreach(cuda, &peers[rank]);
	return result ? result : tutti_barrier(comm, NULL); /* nobody frees what another one has mapped */
}

tutti_result_t tt_cuda_find_islands(struct tt_cuda *cuda, struct tt_cuda_islands *out)
{
	const size_t size = (size_t)cuda->comm->size;
	struct tt_cuda_offer *offers = calloc(size + 1, sizeof(*offers));
	struct tt_cuda_peer *peers = calloc(size, sizeof(*peers));
	struct reached *reached = calloc(size, sizeof(*reached));
	cuda_address memory = 0;
	tutti_result_t result;

	*out = (struct tt_cuda_islands){ .of = calloc(size, sizeof(int)) };
	if (!offers || !peers || !reached || !out->of) {
		result = tt_comm_fail(cuda->comm, tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "tutti_cuda_bind: no memory for %zu ranks", size));
	} else {
		const cuda_result error = cuda->driver->mem_alloc(&memory, PROBE_BYTES);

		result = probe(cuda, memory, error ? tt_cuda_fail(cuda->driver, "take a page of memory of the GPU", error) : TUTTI_OK, offers, peers, reached);
	}
	if (!result)
		settle(cuda->comm, reached, out);
	if (memory)
		cuda->driver->mem_free(memory);
	free(reached);
	free(peers);
	free(offers);
	return result;
}

int tt_cuda_island_size(const struct tt_cuda_islands *islands, int ranks)
{
	const int each = ranks / islands->count;

	for (int island = 0; island < islands->count; island++) {
		int members = 0;

		for (int rank = 0; rank < ranks; rank++)
			members += islands->of[rank] == island;
		if (members != each)
			return 0;
	}
	return each;
}
