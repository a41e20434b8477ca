/* SPDX-License-Identifier: BSD-3-Clause */
/* The public collectives, sends and receives on streams: each names its arguments, the rest is
 * common. */
#include "call.h"
#include "cuda/bound.h"
#include "group.h"
#include "next_call.h"

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
	tt_comm_lock(comm);
	if (comm->next_calls)
		said = tt_next_call_take(comm);
	call.timeout_ns = said ? said->timeout_ns : 0;
	result = tt_cuda_start(comm, (const struct tt_call *const[]){ &call }, 1);
	tt_next_call_free(said);
	pthread_mutex_unlock(&comm->lock);
	return result;
}

TUTTI_API tutti_result_t tutti_cuda_broadcast(tutti_comm_t comm, const void *send, void *recv,
					      size_t count, tutti_dtype_t dtype, int root,
					      tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_BROADCAST, send, recv, count, dtype, TT_NO_OP, root),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_reduce(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, tutti_op_t op,
					   int root, tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_REDUCE, send, recv, count, dtype, op, root), stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_reduce(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype, tutti_op_t op,
					       tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_ALL_REDUCE, send, recv, count, dtype, op, TT_NO_ROOT),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_reduce_scatter(tutti_comm_t comm, const void *send, void *recv,
						   size_t count, tutti_dtype_t dtype, tutti_op_t op,
						   tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_REDUCE_SCATTER, send, recv, count, dtype, op, TT_NO_ROOT),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_gather(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype,
					       tutti_cuda_stream_t stream)
{
	return submit(comm,
		      tt_call_of(TT_ALL_GATHER, send, recv, count, dtype, TT_NO_OP, TT_NO_ROOT),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_gather(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, int root,
					   tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_GATHER, send, recv, count, dtype, TT_NO_OP, root),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_scatter(tutti_comm_t comm, const void *send, void *recv,
					    size_t count, tutti_dtype_t dtype, int root,
					    tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_SCATTER, send, recv, count, dtype, TT_NO_OP, root),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_to_all(tutti_comm_t comm, const void *send, void *recv,
					       size_t count, tutti_dtype_t dtype,
					       tutti_cuda_stream_t stream)
{
	return submit(comm,
		      tt_call_of(TT_ALL_TO_ALL, send, recv, count, dtype, TT_NO_OP, TT_NO_ROOT),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_reduce_scatter_v(tutti_comm_t comm, const void *send,
						     void *recv, const size_t *counts,
						     tutti_dtype_t dtype, tutti_op_t op,
						     tutti_cuda_stream_t stream)
{
	struct tt_call call = tt_call_of(TT_REDUCE_SCATTER_V, send, recv, 0, dtype, op, TT_NO_ROOT);

	call.send_counts = counts;
	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
						 const size_t *counts, const size_t *displs,
						 tutti_dtype_t dtype, tutti_cuda_stream_t stream)
{
	struct tt_call call =
		tt_call_of(TT_ALL_GATHER_V, send, recv, 0, dtype, TT_NO_OP, TT_NO_ROOT);

	call.recv_counts = counts;
	call.recv_displs = displs;
	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_gather_v(tutti_comm_t comm, const void *send, size_t send_count,
					     void *recv, const size_t *counts, const size_t *displs,
					     tutti_dtype_t dtype, int root,
					     tutti_cuda_stream_t stream)
{
	struct tt_call call =
		tt_call_of(TT_GATHER_V, send, recv, send_count, dtype, TT_NO_OP, root);

	call.recv_counts = tt_call_at_root(comm, root, counts);
	call.recv_displs = tt_call_at_root(comm, root, displs);
	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_scatter_v(tutti_comm_t comm, const void *send,
					      const size_t *counts, const size_t *displs,
					      void *recv, size_t recv_count, tutti_dtype_t dtype,
					      int root, tutti_cuda_stream_t stream)
{
	struct tt_call call =
		tt_call_of(TT_SCATTER_V, send, recv, recv_count, dtype, TT_NO_OP, root);

	call.send_counts = tt_call_at_root(comm, root, counts);
	call.send_displs = tt_call_at_root(comm, root, displs);
	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_all_to_all_v(tutti_comm_t comm, const void *send,
						 const size_t *send_counts,
						 const size_t *send_displs, void *recv,
						 const size_t *recv_counts,
						 const size_t *recv_displs, tutti_dtype_t dtype,
						 tutti_cuda_stream_t stream)
{
	struct tt_call call =
		tt_call_of(TT_ALL_TO_ALL_V, send, recv, 0, dtype, TT_NO_OP, TT_NO_ROOT);

	call.send_counts = send_counts;
	call.send_displs = send_displs;
	call.recv_counts = recv_counts;
	call.recv_displs = recv_displs;
	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_scan(tutti_comm_t comm, const void *send, void *recv,
					 size_t count, tutti_dtype_t dtype, tutti_op_t op,
					 tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_SCAN, send, recv, count, dtype, op, TT_NO_ROOT), stream);
}

TUTTI_API tutti_result_t tutti_cuda_exscan(tutti_comm_t comm, const void *send, void *recv,
					   size_t count, tutti_dtype_t dtype, tutti_op_t op,
					   tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_EXSCAN, send, recv, count, dtype, op, TT_NO_ROOT),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_barrier(tutti_comm_t comm, tutti_cuda_stream_t stream)
{
	return submit(comm,
		      tt_call_of(TT_BARRIER, NULL, NULL, 0, TUTTI_UINT8, TT_NO_OP, TT_NO_ROOT),
		      stream);
}

TUTTI_API tutti_result_t tutti_cuda_send(tutti_comm_t comm, const void *send, size_t count,
					 tutti_dtype_t dtype, int peer, tutti_cuda_stream_t stream)
{
	struct tt_call call = tt_call_of(TT_SEND_RECV, send, NULL, count, dtype, TT_NO_OP, peer);

	call.sending = true;
	return submit(comm, call, stream);
}

TUTTI_API tutti_result_t tutti_cuda_recv(tutti_comm_t comm, void *recv, size_t count,
					 tutti_dtype_t dtype, int peer, tutti_cuda_stream_t stream)
{
	return submit(comm, tt_call_of(TT_SEND_RECV, NULL, recv, count, dtype, TT_NO_OP, peer),
		      stream);
}
