/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the table of which function a call is: those of collectives on streams have the arguments of
 * the others, but for the last. */
#include "calls.h"

struct way {
	bool on_stream;
	tutti_cuda_stream_t stream;
	tutti_request_t *request;
};

#define CALL(name, ...)                                                                            \
	(way->on_stream ? tutti_cuda_##name(__VA_ARGS__, way->stream)                              \
			: tutti_##name(__VA_ARGS__, way->request))

/* To the other one of ranks 0 and 1, or from it. */
static tutti_result_t move(const struct bench_tutti *tutti, const struct bench_call *c,
			   const struct way *way, bool sends, size_t count)
{
	const int peer = 1 - tutti->backend.rank;
	const tutti_comm_t comm = tutti->comm;

	if (way->on_stream)
		return sends ? tutti_cuda_send(comm, c->send, count, c->dtype, peer, way->stream)
			     : tutti_cuda_recv(comm, c->recv, count, c->dtype, peer, way->stream);
	return sends ? tutti_send_tagged(comm, c->send, count, c->dtype, peer, c->caller,
					 way->request)
		     : tutti_recv_tagged(comm, c->recv, count, c->dtype, peer, c->caller, NULL,
					 way->request);
}

/* From rank 0 to rank 1, and an answer of so many elements, or none. */
static tutti_result_t send_there(const struct bench_tutti *tutti, const struct bench_call *c,
				 const struct way *way, bool answered, size_t answer)
{
	const bool first = tutti->backend.rank == 0;

	if (tutti->backend.rank > 1)
		return TUTTI_OK;
	const tutti_result_t rc = move(tutti, c, way, first, c->count);
	return rc || !answered ? rc : move(tutti, c, way, !first, answer);
}

static tutti_result_t make(const struct bench_tutti *tutti, const struct bench_call *c,
			   const struct way *way)
{
	const tutti_comm_t comm = tutti->comm;
	const tutti_dtype_t type = c->dtype;
	const void *send = c->send;
	void *recv = c->recv;
	const size_t n = c->count;
	const tutti_op_t op = c->op;

	switch (c->kind) {
	case BENCH_ALL_REDUCE: return CALL(all_reduce, comm, send, recv, n, type, op);
	case BENCH_BROADCAST: return CALL(broadcast, comm, send, recv, n, type, c->root);
	case BENCH_REDUCE: return CALL(reduce, comm, send, recv, n, type, op, c->root);
	case BENCH_REDUCE_SCATTER: return CALL(reduce_scatter, comm, send, recv, n, type, op);
	case BENCH_ALL_GATHER: return CALL(all_gather, comm, send, recv, n, type);
	case BENCH_GATHER: return CALL(gather, comm, send, recv, n, type, c->root);
	case BENCH_SCATTER: return CALL(scatter, comm, send, recv, n, type, c->root);
	case BENCH_ALL_TO_ALL: return CALL(all_to_all, comm, send, recv, n, type);
	case BENCH_SCAN: return CALL(scan, comm, send, recv, n, type, op);
	case BENCH_EXSCAN: return CALL(exscan, comm, send, recv, n, type, op);
	case BENCH_LATENCY: return send_there(tutti, c, way, true, n);
	case BENCH_BANDWIDTH: return send_there(tutti, c, way, c->last, 1); /* of the window */
	default: return CALL(barrier, comm);				    /* BENCH_BARRIER */
	}
}

tutti_result_t bench_call_on_host(const struct bench_tutti *tutti, const struct bench_call *c,
				  tutti_request_t *request)
{
	return make(tutti, c, &(struct way){ .request = request });
}

tutti_result_t bench_call_on_stream(const struct bench_tutti *tutti, const struct bench_call *c,
				    tutti_cuda_stream_t stream)
{
	return make(tutti, c, &(struct way){ .on_stream = true, .stream = stream });
}
