/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include "call.h"

static tutti_result_t submit(struct tutti_comm *comm, enum tt_part part, struct tt_call *call)
{
	call->part = (uint8_t)part;
	call->detail |= (uint64_t)part;
	return tt_call_submit(comm, call, NULL);
}

tutti_result_t tt_part_barrier_of(struct tutti_comm *comm, enum tt_part part, uint32_t which)
{
	struct tt_call call = { .collective = TT_BARRIER,
				.dtype = TUTTI_UINT8,
				.op = -1,
				.root = -1,
				.detail = (uint64_t)which << TT_PART_BITS };

	return submit(comm, part, &call);
}

tutti_result_t tt_part_barrier(struct tutti_comm *comm, enum tt_part part)
{
	return tt_part_barrier_of(comm, part, 0);
}

tutti_result_t tt_part_broadcast(struct tutti_comm *comm, enum tt_part part, const void *send,
				 void *recv, size_t bytes, int root)
{
	struct tt_call call = { .collective = TT_BROADCAST,
				.dtype = TUTTI_UINT8,
				.op = -1,
				.root = root,
				.send = send,
				.recv = recv,
				.count = bytes };

	return submit(comm, part, &call);
}

tutti_result_t tt_part_all_gather(struct tutti_comm *comm, enum tt_part part, const void *send,
				  void *recv, size_t bytes)
{
	struct tt_call call = { .collective = TT_ALL_GATHER,
				.dtype = TUTTI_UINT8,
				.op = -1,
				.root = -1,
				.send = send,
				.recv = recv,
				.count = bytes };

	return submit(comm, part, &call);
}

tutti_result_t tt_part_all_gather_v(struct tutti_comm *comm, enum tt_part part, const void *send,
				    void *recv, const size_t *bytes)
{
	struct tt_call call = { .collective = TT_ALL_GATHER_V,
				.dtype = TUTTI_UINT8,
				.op = -1,
				.root = -1,
				.send = send,
				.recv = recv,
				.recv_counts = bytes };

	return submit(comm, part, &call);
}
