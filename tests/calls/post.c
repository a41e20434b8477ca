/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how a call is made: blocking, with a request, or on a stream of CUDA's. */
#include <string.h>

#include <tutti/cuda.h>

#include "call.h"
#include "rules.h"

#define NOWHERE ((void *)64) /* for a pointer that does not matter */

/* Tables as they are passed: they are the caller's again when the call returns. */
struct tables {
	size_t sent[CALL_RANKS], received[CALL_RANKS];
	size_t send_displs[CALL_RANKS], recv_displs[CALL_RANKS];
};

struct way {
	tutti_comm_t comm;
	tutti_request_t *request;
	void *stream; /* NULL: none, and `request` counts */
};

#define CALL(name, ...)                                                                            \
	(way->stream ? tutti_cuda_##name(way->comm, __VA_ARGS__, way->stream)                      \
		     : tutti_##name(way->comm, __VA_ARGS__, way->request))

static struct tables tables_of(const struct call *c)
{
	struct tables t;

	memset(&t, 0xff, sizeof(t));
	for (int rank = 0; rank < c->size; rank++) {
		t.sent[rank] = call_sent(c, rank);
		t.received[rank] = call_received(c, rank);
	}
	memcpy(t.send_displs, c->send_layout.at, sizeof(t.send_displs));
	memcpy(t.recv_displs, c->recv_layout.at, sizeof(t.recv_displs));
	return t;
}

static tutti_result_t post_v(const struct way *way, const struct call *c, const struct tables *t)
{
	const size_t *send_displs = c->send_layout.given ? t->send_displs : NULL;
	const size_t *recv_displs = c->recv_layout.given ? t->recv_displs : NULL;
	const bool is_root = c->rank == c->root;

	switch (c->what) {
	case REDUCE_SCATTER_V:
		return CALL(reduce_scatter_v, c->send_at, c->recv_at, t->sent, c->dtype, c->op);
	case ALL_GATHER_V:
		return CALL(all_gather_v, c->send_at, c->recv_at, t->received, recv_displs,
			    c->dtype);
	case GATHER_V:
		return CALL(gather_v, c->send_at, call_sent(c, c->rank), c->recv_at,
			    is_root ? t->received : NOWHERE, is_root ? recv_displs : NOWHERE,
			    c->dtype, c->root);
	case SCATTER_V:
		return CALL(scatter_v, c->send_at, is_root ? t->sent : NOWHERE,
			    is_root ? send_displs : NOWHERE, c->recv_at, call_received(c, c->rank),
			    c->dtype, c->root);
	default:
		return CALL(all_to_all_v, c->send_at, t->sent, send_displs, c->recv_at, t->received,
			    recv_displs, c->dtype);
	}
}

static tutti_result_t post_send(const struct way *way, const struct call *c)
{
	return call_sends(c) ? CALL(send, c->send_at, c->count, c->dtype, c->to) : TUTTI_OK;
}

static tutti_result_t post_receive(const struct way *way, const struct call *c)
{
	return call_receives(c) ? CALL(recv, c->recv_at, c->count, c->dtype, c->root) : TUTTI_OK;
}

/* To itself it is in a group, where there is no request. */
static tutti_result_t post_message(const struct way *way, const struct call *c)
{
	const tutti_result_t result = (c->turned ? post_receive : post_send)(way, c);

	return result ? result : (c->turned ? post_send : post_receive)(way, c);
}

static tutti_result_t post(const struct way *way, const struct call *c)
{
	const void *const send = c->send_at;
	void *const recv = c->recv_at;
	const size_t n = c->count;
	struct tables tables;

	switch (c->what) {
	case BROADCAST: return CALL(broadcast, send, recv, n, c->dtype, c->root);
	case REDUCE: return CALL(reduce, send, recv, n, c->dtype, c->op, c->root);
	case ALL_REDUCE: return CALL(all_reduce, send, recv, n, c->dtype, c->op);
	case REDUCE_SCATTER: return CALL(reduce_scatter, send, recv, n, c->dtype, c->op);
	case ALL_GATHER: return CALL(all_gather, send, recv, n, c->dtype);
	case GATHER: return CALL(gather, send, recv, n, c->dtype, c->root);
	case SCATTER: return CALL(scatter, send, recv, n, c->dtype, c->root);
	case ALL_TO_ALL: return CALL(all_to_all, send, recv, n, c->dtype);
	case SCAN: return CALL(scan, send, recv, n, c->dtype, c->op);
	case EXSCAN: return CALL(exscan, send, recv, n, c->dtype, c->op);
	case BARRIER:
		return way->stream ? tutti_cuda_barrier(way->comm, way->stream)
				   : tutti_barrier(way->comm, way->request);
	case MESSAGE: return post_message(way, c);
	default: break;
	}
	tables = tables_of(c);
	const tutti_result_t result = post_v(way, c, &tables);
	memset(&tables, 0xff, sizeof(tables));
	__asm__ volatile("" : : "r"(&tables) : "memory"); /* the compiler may not leave it out */
	return result;
}

tutti_result_t call_post(tutti_comm_t comm, const struct call *c, tutti_request_t *request)
{
	const struct way way = { .comm = comm, .request = request };

	return post(&way, c);
}

tutti_result_t call_post_on(tutti_comm_t comm, const struct call *c, void *stream)
{
	const struct way way = { .comm = comm, .stream = stream };

	return post(&way, c);
}

tutti_result_t call_make_op(tutti_comm_t comm, struct call *c)
{
	unsigned char element[8];
	tutti_result_t result;

	switch (c->combine) {
	case COMBINE_ADD: return tutti_op_create(comm, combine_add, 1, NULL, &c->op);
	case COMBINE_COMPOSE: return tutti_op_create(comm, combine_compose, 0, NULL, &c->op);
	case COMBINE_PREMUL:
		contents_factor(&c->contents, c->rank, element);
		result = tutti_op_create_premul_sum(comm, element, c->dtype, &c->op);
		memset(element, 0xff, sizeof(element)); /* was copied */
		__asm__ volatile("" : : "r"(element) : "memory");
		return result;
	default: c->op = c->combine; return TUTTI_OK;
	}
}
