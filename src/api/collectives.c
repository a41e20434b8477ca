/* SPDX-License-Identifier: BSD-3-Clause */
/* The public collectives, sends and receives: each names its arguments, the rest is common. */
#include "call.h"

TUTTI_API tutti_result_t tutti_broadcast(tutti_comm_t comm, const void *send, void *recv,
					 size_t count, tutti_dtype_t dtype, int root,
					 tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_BROADCAST, send, recv, count, dtype, TT_NO_OP, root);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_reduce(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, tutti_op_t op, int root,
				      tutti_request_t *request)
{
	const struct tt_call call = tt_call_of(TT_REDUCE, send, recv, count, dtype, op, root);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_reduce(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype, tutti_op_t op,
					  tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_ALL_REDUCE, send, recv, count, dtype, op, TT_NO_ROOT);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_reduce_scatter(tutti_comm_t comm, const void *send, void *recv,
					      size_t count, tutti_dtype_t dtype, tutti_op_t op,
					      tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_REDUCE_SCATTER, send, recv, count, dtype, op, TT_NO_ROOT);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_gather(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype,
					  tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_ALL_GATHER, send, recv, count, dtype, TT_NO_OP, TT_NO_ROOT);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_gather(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, int root, tutti_request_t *request)
{
	const struct tt_call call = tt_call_of(TT_GATHER, send, recv, count, dtype, TT_NO_OP, root);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_scatter(tutti_comm_t comm, const void *send, void *recv,
				       size_t count, tutti_dtype_t dtype, int root,
				       tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_SCATTER, send, recv, count, dtype, TT_NO_OP, root);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_to_all(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype,
					  tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_ALL_TO_ALL, send, recv, count, dtype, TT_NO_OP, TT_NO_ROOT);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_reduce_scatter_v(tutti_comm_t comm, const void *send, void *recv,
						const size_t *counts, tutti_dtype_t dtype,
						tutti_op_t op, tutti_request_t *request)
{
	struct tt_call call = tt_call_of(TT_REDUCE_SCATTER_V, send, recv, 0, dtype, op, TT_NO_ROOT);

	call.send_counts = counts;
	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
					    const size_t *counts, const size_t *displs,
					    tutti_dtype_t dtype, tutti_request_t *request)
{
	struct tt_call call =
		tt_call_of(TT_ALL_GATHER_V, send, recv, 0, dtype, TT_NO_OP, TT_NO_ROOT);

	call.recv_counts = counts;
	call.recv_displs = displs;
	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_gather_v(tutti_comm_t comm, const void *send, size_t send_count,
					void *recv, const size_t *counts, const size_t *displs,
					tutti_dtype_t dtype, int root, tutti_request_t *request)
{
	struct tt_call call =
		tt_call_of(TT_GATHER_V, send, recv, send_count, dtype, TT_NO_OP, root);

	call.recv_counts = tt_call_at_root(comm, root, counts);
	call.recv_displs = tt_call_at_root(comm, root, displs);
	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_scatter_v(tutti_comm_t comm, const void *send, const size_t *counts,
					 const size_t *displs, void *recv, size_t recv_count,
					 tutti_dtype_t dtype, int root, tutti_request_t *request)
{
	struct tt_call call =
		tt_call_of(TT_SCATTER_V, send, recv, recv_count, dtype, TT_NO_OP, root);

	call.send_counts = tt_call_at_root(comm, root, counts);
	call.send_displs = tt_call_at_root(comm, root, displs);
	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_to_all_v(tutti_comm_t comm, const void *send,
					    const size_t *send_counts, const size_t *send_displs,
					    void *recv, const size_t *recv_counts,
					    const size_t *recv_displs, tutti_dtype_t dtype,
					    tutti_request_t *request)
{
	struct tt_call call =
		tt_call_of(TT_ALL_TO_ALL_V, send, recv, 0, dtype, TT_NO_OP, TT_NO_ROOT);

	call.send_counts = send_counts;
	call.send_displs = send_displs;
	call.recv_counts = recv_counts;
	call.recv_displs = recv_displs;
	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_scan(tutti_comm_t comm, const void *send, void *recv, size_t count,
				    tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request)
{
	const struct tt_call call = tt_call_of(TT_SCAN, send, recv, count, dtype, op, TT_NO_ROOT);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_exscan(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request)
{
	const struct tt_call call = tt_call_of(TT_EXSCAN, send, recv, count, dtype, op, TT_NO_ROOT);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_barrier(tutti_comm_t comm, tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_BARRIER, NULL, NULL, 0, TUTTI_UINT8, TT_NO_OP, TT_NO_ROOT);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_send(tutti_comm_t comm, const void *send, size_t count,
				    tutti_dtype_t dtype, int peer, tutti_request_t *request)
{
	struct tt_call call = tt_call_of(TT_SEND_RECV, send, NULL, count, dtype, TT_NO_OP, peer);

	call.sending = true;
	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_recv(tutti_comm_t comm, void *recv, size_t count,
				    tutti_dtype_t dtype, int peer, tutti_request_t *request)
{
	const struct tt_call call =
		tt_call_of(TT_SEND_RECV, NULL, recv, count, dtype, TT_NO_OP, peer);

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_send_tagged(tutti_comm_t comm, const void *send, size_t count,
					   tutti_dtype_t dtype, int peer, int tag,
					   tutti_request_t *request)
{
	struct tt_call call = tt_call_of(TT_SEND_RECV, send, NULL, count, dtype, TT_NO_OP, peer);

	call.sending = true;
	call.tagged = true;
	call.tag = tag;
	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_recv_tagged(tutti_comm_t comm, void *recv, size_t count,
					   tutti_dtype_t dtype, int peer, int tag,
					   tutti_message_t *message, tutti_request_t *request)
{
	struct tt_call call = tt_call_of(TT_SEND_RECV, NULL, recv, count, dtype, TT_NO_OP, peer);

	call.tagged = true;
	call.tag = tag;
	call.message = message;
	return tt_call_submit(comm, &call, request);
}
