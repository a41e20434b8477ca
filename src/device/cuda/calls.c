/* SPDX-License-Identifier: BSD-3-Clause */
/* The public collectives, sends and receives on streams: each names its arguments, the rest is
 * common. */
#include "call.h"
#include "cuda/bound.h"
#include "group.h"
#include "next_call.h"

#define NO_OP	(-1)
#define NO_ROOT (-1)

static tutti_result_t submit(struct tutti_comm *comm, struct tt_call call,
			     struct CUstream_st *stream)
{
	struct tt_next_call *said = NULL;
	tutti_result_t result;

	call.on_gpu = true;
	call.stream = stream;
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, tt_call_name(&call));
	if (tt_group_keep(comm, &call, NULL, &result))
		return result;
	pthread_mutex_lock(&comm->lock);
	if (comm->next_calls)
		said = tt_next_call_take(comm);
	call.timeout_ns = said ? said->timeout_ns : 0;
	result = tt_cuda_start(comm, (const struct tt_call *const[]){ &call }, 1);
	tt_next_call_free(said);
	pthread_mutex_unlock(&comm->lock);
	return result;
}

/* Tables that matter at the root only are not looked at elsewhere. */
static const size_t *at_root(tutti_comm_t comm, int root, const size_t *table)
{
	return tutti_comm_rank(comm) == root ? table : NULL;
}

TUTTI_API tutti_result_t tutti_cuda_broadcast(tutti_comm_t comm, const void *send, void *recv,
					      size_t count, tutti_dtype_t dtype, int root,
					      tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_BROADCAST,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_reduce(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, tutti_op_t op,
					   int root, tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_REDUCE,
				      .dtype = dtype,
				      .op = op,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_reduce(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype, tutti_op_t op,
					       tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_ALL_REDUCE,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_reduce_scatter(tutti_comm_t comm, const void *send, void *recv,
						   size_t count, tutti_dtype_t dtype, tutti_op_t op,
						   tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_REDUCE_SCATTER,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_gather(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype,
					       tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_ALL_GATHER,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_gather(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, int root,
					   tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_GATHER,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_scatter(tutti_comm_t comm, const void *send, void *recv,
					    size_t count, tutti_dtype_t dtype, int root,
					    tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_SCATTER,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_to_all(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype,
					       tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_ALL_TO_ALL,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_reduce_scatter_v(tutti_comm_t comm, const void *send,
						     void *recv, const size_t *counts,
						     tutti_dtype_t dtype, tutti_op_t op,
						     tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_REDUCE_SCATTER_V,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .send_counts = counts };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
						 const size_t *counts, const size_t *displs,
						 tutti_dtype_t dtype, tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_ALL_GATHER_V,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .recv_counts = counts,
				      .recv_displs = displs };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_gather_v(tutti_comm_t comm, const void *send, size_t send_count,
					     void *recv, const size_t *counts, const size_t *displs,
					     tutti_dtype_t dtype, int root,
					     tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_GATHER_V,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = send_count,
				      .recv_counts = at_root(comm, root, counts),
				      .recv_displs = at_root(comm, root, displs) };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_scatter_v(tutti_comm_t comm, const void *send,
					      const size_t *counts, const size_t *displs,
					      void *recv, size_t recv_count, tutti_dtype_t dtype,
					      int root, tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_SCATTER_V,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = recv_count,
				      .send_counts = at_root(comm, root, counts),
				      .send_displs = at_root(comm, root, displs) };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_to_all_v(tutti_comm_t comm, const void *send,
						 const size_t *send_counts,
						 const size_t *send_displs, void *recv,
						 const size_t *recv_counts,
						 const size_t *recv_displs, tutti_dtype_t dtype,
						 tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_ALL_TO_ALL_V,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .send_counts = send_counts,
				      .send_displs = send_displs,
				      .recv_counts = recv_counts,
				      .recv_displs = recv_displs };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_scan(tutti_comm_t comm, const void *send, void *recv,
					 size_t count, tutti_dtype_t dtype, tutti_op_t op,
					 tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_SCAN,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_exscan(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, tutti_op_t op,
					   tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_EXSCAN,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_barrier(tutti_comm_t comm, tutti_cuda_stream_t stream)
{
	const struct tt_call call = {
		.collective = TT_BARRIER, .dtype = TUTTI_UINT8, .op = NO_OP, .root = NO_ROOT
	};

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_send(tutti_comm_t comm, const void *send, size_t count,
					 tutti_dtype_t dtype, int peer, tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_SEND_RECV,
				      .sending = true,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = peer,
				      .send = send,
				      .count = count };

	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_recv(tutti_comm_t comm, void *recv, size_t count,
					 tutti_dtype_t dtype, int peer, tutti_cuda_stream_t stream)
{
	const struct tt_call call = { .collective = TT_SEND_RECV,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = peer,
				      .recv = recv,
				      .count = count };

	return submit(comm, call, stream);
}
