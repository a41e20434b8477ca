/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for NCCL where TUTTI_NCCL_LIBRARY names it, as far as one rank alone goes, whose collectives
 * copy. More ranks share a GPU, for all it knows, and are refused as NCCL refuses those. With
 * STANDIN_NCCL_WAITS all but the first wait for ever, as NCCL may. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_functions.h"
#include "nccl_functions.h"

#define API __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 }; /* ncclResult_t */

struct ncclComm {
	int rank;
};

cuda_result cuMemcpyAsync(cuda_address dst, cuda_address src, size_t bytes,
			  struct CUstream_st *stream);

static const char *last = "";

API nccl_result ncclGetVersion(int *version)
{
	*version = 22803;
	return 0;
}

API nccl_result ncclGetUniqueId(ncclUniqueId *id)
{
	memset(id, 7, sizeof(*id));
	return 0;
}

API nccl_result ncclCommInitRank(nccl_comm *comm, int ranks, ncclUniqueId id, int rank)
{
	static struct ncclComm only;

	while (rank > 0 && getenv("STANDIN_NCCL_WAITS"))
		pause();
	if (ranks != 1 || id.internal[5] != 7) {
		last = "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0";
		return ranks != 1 ? INVALID_USAGE : INVALID_ARGUMENT;
	}
	only.rank = rank;
	*comm = &only;
	return 0;
}

API nccl_result ncclCommDestroy(nccl_comm comm)
{
	return comm ? 0 : INVALID_ARGUMENT;
}

API nccl_result ncclCommAbort(nccl_comm comm)
{
	return ncclCommDestroy(comm);
}

API const char *ncclGetErrorString(nccl_result result)
{
	return result == INVALID_USAGE ? "invalid usage" : "another error";
}

API const char *ncclGetLastError(nccl_comm comm)
{
	return last;
}

API nccl_result ncclGroupStart(void)
{
	return 0;
}

API nccl_result ncclGroupEnd(void)
{
	return 0;
}

/* What one rank has is the result. */
static nccl_result copy(const void *send, void *recv, size_t count, unsigned type, nccl_comm comm,
			nccl_stream stream)
{
	static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	if (!comm || type >= sizeof(sizes) / sizeof(sizes[0]))
		return INVALID_ARGUMENT;
	return send != recv && cuMemcpyAsync((cuda_address)(size_t)recv, (cuda_address)(size_t)send,
					     count * sizes[type], stream)
		       ? INTERNAL_ERROR
		       : 0;
}

#define COLLECTIVE(name, ...)                                                                      \
	API nccl_result name(const void *send, void *recv, size_t count, unsigned type,            \
			     __VA_ARGS__)                                                          \
	{                                                                                          \
		return copy(send, recv, count, type, comm, stream);                                \
	}
COLLECTIVE(ncclAllReduce, unsigned op, nccl_comm comm, nccl_stream stream)
COLLECTIVE(ncclBroadcast, int root, nccl_comm comm, nccl_stream stream)
COLLECTIVE(ncclReduce, unsigned op, int root, nccl_comm comm, nccl_stream stream)
COLLECTIVE(ncclReduceScatter, unsigned op, nccl_comm comm, nccl_stream stream)
COLLECTIVE(ncclAllGather, nccl_comm comm, nccl_stream stream)

/* To itself: the receive that follows finds it. */
static const void *sent;

API nccl_result ncclSend(const void *send, size_t count, unsigned type, int peer, nccl_comm comm,
			 nccl_stream stream)
{
	sent = send;
	return peer == 0 ? 0 : INVALID_ARGUMENT;
}

API nccl_result ncclRecv(void *recv, size_t count, unsigned type, int peer, nccl_comm comm,
			 nccl_stream stream)
{
	return copy(sent, recv, count, type, comm, stream);
}
