/* SPDX-License-Identifier: BSD-3-Clause */
/* Cliques of GPUs, by what ranks tell of whom they reach and why not, whatever that is. The input:
 * ranks:1 hosts:1, then for each rank its bits and its text as far as it goes. */
#include <string.h>

#include "cuda/cliques.h"
#include "fuzz.h"
#include "printable.h"

#define RANKS 80 /* more than bits */

static void check(const struct tutti_comm *comm, const struct tt_cuda_cliques *found)
{
	int members[RANKS] = { 0 }, most = 0;

	FUZZ_PROMISE(found->count >= 1 && found->count <= comm->size);
	for (int rank = 0; rank < comm->size; rank++) {
		FUZZ_PROMISE(found->of[rank] >= 0 && found->of[rank] < found->count);
		most = ++members[found->of[rank]] > most ? members[found->of[rank]] : most;
	}
	FUZZ_PROMISE(found->most == most && most <= TT_CUDA_RANKS);
	for (int a = 0; a < comm->size; a++)
		for (int b = 0; b < a; b++)
			FUZZ_PROMISE(found->of[a] != found->of[b] ||
				     comm->topology.host[a] == comm->topology.host[b]);
	const size_t length = strnlen(found->why, sizeof(found->why));
	FUZZ_PROMISE(length < sizeof(found->why));
	char *shown = strdup(found->why);
	FUZZ_PROMISE(shown && strcmp(tt_printable(shown), found->why) == 0);
	free(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const int ranks = 1 + (size > 0 ? data[0] % RANKS : 0),
		  hosts = 1 + (size > 1 ? data[1] % 3 : 0);
	struct tt_cuda_accessible *reached = calloc((size_t)ranks, sizeof(*reached));
	struct tt_cuda_cliques found = { .of = calloc((size_t)ranks, sizeof(int)) };
	struct tt_cuda_clique *scratch = calloc((size_t)ranks, sizeof(*scratch));
	struct tutti_comm *comm = calloc(1, sizeof(*comm));
	int host[RANKS], local[RANKS], met[3] = { 0 };
	const size_t capacity = (size_t)ranks * sizeof(*reached), given = size > 2 ? size - 2 : 0;

	FUZZ_PROMISE(reached && found.of && scratch && comm);
	if (given)
		memcpy(reached, data + 2, given < capacity ? given : capacity);
	comm->size = ranks;
	comm->topology.host = host;
	for (int rank = 0; rank < ranks; rank++) {
		host[rank] = rank % hosts;
		local[rank] = met[host[rank]]++;
	}
	tt_cuda_agree_on_cliques(comm, reached, local, scratch, &found);
	check(comm, &found);
	free(comm);
	free(scratch);
	free(found.of);
	free(reached);
	return 0;
}
