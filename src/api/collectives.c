/* SPDX-License-Identifier: BSD-3-Clause */
/* The public collectives, sends and receives: each names its arguments, the rest is common. */
#include "call.h"

#define NO_OP	(-1)
#define NO_ROOT (-1)

TUTTI_API tutti_result_t tutti_broadcast(tutti_comm_t comm, const void *send, void *recv,
					 size_t count, tutti_dtype_t dtype, int root,
					 tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_BROADCAST,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_reduce(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, tutti_op_t op, int root,
				      tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_REDUCE,
				      .dtype = dtype,
				      .op = op,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_reduce(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype, tutti_op_t op,
					  tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_ALL_REDUCE,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_reduce_scatter(tutti_comm_t comm, const void *send, void *recv,
					      size_t count, tutti_dtype_t dtype, tutti_op_t op,
					      tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_REDUCE_SCATTER,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_gather(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype,
					  tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_ALL_GATHER,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_gather(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, int root, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_GATHER,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_scatter(tutti_comm_t comm, const void *send, void *recv,
				       size_t count, tutti_dtype_t dtype, int root,
				       tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_SCATTER,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = root,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_to_all(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype,
					  tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_ALL_TO_ALL,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_reduce_scatter_v(tutti_comm_t comm, const void *send, void *recv,
						const size_t *counts, tutti_dtype_t dtype,
						tutti_op_t op, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_REDUCE_SCATTER_V,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .send_counts = counts };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
					    const size_t *counts, const size_t *displs,
					    tutti_dtype_t dtype, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_ALL_GATHER_V,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .recv_counts = counts,
				      .recv_displs = displs };

	return tt_call_submit(comm, &call, request);
}

/* Tables that matter at the root only are not looked at elsewhere. */
static const size_t *at_root(tutti_comm_t comm, int root, const size_t *table)
{
	return tutti_comm_rank(comm) == root ? table : NULL;
}

TUTTI_API tutti_result_t tutti_gather_v(tutti_comm_t comm, const void *send, size_t send_count,
					void *recv, const size_t *counts, const size_t *displs,
					tutti_dtype_t dtype, int root, tutti_request_t *request)
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

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_scatter_v(tutti_comm_t comm, const void *send, const size_t *counts,
					 const size_t *displs, void *recv, size_t recv_count,
					 tutti_dtype_t dtype, int root, tutti_request_t *request)
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

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_all_to_all_v(tutti_comm_t comm, const void *send,
					    const size_t *send_counts, const size_t *send_displs,
					    void *recv, const size_t *recv_counts,
					    const size_t *recv_displs, tutti_dtype_t dtype,
					    tutti_request_t *request)
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

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_scan(tutti_comm_t comm, const void *send, void *recv, size_t count,
				    tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_SCAN,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_exscan(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_EXSCAN,
				      .dtype = dtype,
				      .op = op,
				      .root = NO_ROOT,
				      .send = send,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_barrier(tutti_comm_t comm, tutti_request_t *request)
{
	const struct tt_call call = {
		.collective = TT_BARRIER, .dtype = TUTTI_UINT8, .op = NO_OP, .root = NO_ROOT
	};

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_send(tutti_comm_t comm, const void *send, size_t count,
				    tutti_dtype_t dtype, int peer, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_SEND_RECV,
				      .sending = true,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = peer,
				      .send = send,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_recv(tutti_comm_t comm, void *recv, size_t count,
				    tutti_dtype_t dtype, int peer, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_SEND_RECV,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = peer,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_send_tagged(tutti_comm_t comm, const void *send, size_t count,
					   tutti_dtype_t dtype, int peer, int tag,
					   tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_SEND_RECV,
				      .sending = true,
				      .tagged = true,
				      .tag = tag,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = peer,
				      .send = send,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}

TUTTI_API tutti_result_t tutti_recv_tagged(tutti_comm_t comm, void *recv, size_t count,
					   tutti_dtype_t dtype, int peer, int tag,
					   tutti_message_t *message, tutti_request_t *request)
{
	const struct tt_call call = { .collective = TT_SEND_RECV,
				      .tagged = true,
				      .tag = tag,
				      .message = message,
				      .dtype = dtype,
				      .op = NO_OP,
				      .root = peer,
				      .recv = recv,
				      .count = count };

	return tt_call_submit(comm, &call, request);
}
