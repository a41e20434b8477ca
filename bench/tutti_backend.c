/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the communicators of a run, and how each measurement is a call of tutti. */
#include <stdio.h>
#include <stdlib.h>

#include "tutti_backend.h"

static struct bench_tutti *tutti_of(struct bench_backend *backend)
{
	return backend->context;
}

static int said(const struct bench_backend *backend, tutti_comm_t comm, tutti_result_t result)
{
	if (result == TUTTI_OK)
		return 0;
	fprintf(stderr, "rank %d: %s: %s\n", backend->rank, tutti_strerror(result),
		tutti_last_error(comm));
	return -1;
}

static bool supports(struct bench_backend *backend, const struct bench_call *call)
{
	return true;
}

static tutti_result_t run_pair(struct bench_backend *b, const struct bench_call *c)
{
	const tutti_comm_t comm = tutti_of(b)->comm;
	tutti_result_t rc;

	if (b->rank > 1)
		return TUTTI_OK;
	if (b->rank == 0) {
		rc = tutti_send(comm, c->send, c->count, c->dtype, 1, NULL);
		return rc ? rc : tutti_recv(comm, c->recv, c->count, c->dtype, 1, NULL);
	}
	rc = tutti_recv(comm, c->recv, c->count, c->dtype, 0, NULL);
	return rc ? rc : tutti_send(comm, c->send, c->count, c->dtype, 0, NULL);
}

/* A message of the window; the last one also waits for all of them, and for the receiver's answer.
 */
static tutti_result_t run_window(struct bench_backend *b, const struct bench_call *c)
{
	struct bench_tutti *t = tutti_of(b);
	tutti_request_t *request = &t->window[c->index];
	uint8_t answer = 0;
	tutti_result_t rc;

	if (b->rank > 1)
		return TUTTI_OK;
	if (b->rank == 0)
		rc = tutti_send(t->comm, c->send, c->count, c->dtype, 1, request);
	else
		rc = tutti_recv(t->comm, c->recv, c->count, c->dtype, 0, request);
	if (rc || !c->last)
		return rc;
	rc = tutti_wait_all(t->window, c->index + 1);
	if (rc)
		return rc;
	if (b->rank == 0)
		return tutti_recv(t->comm, &answer, 1, TUTTI_UINT8, 1, NULL);
	return tutti_send(t->comm, &answer, 1, TUTTI_UINT8, 0, NULL);
}

/* Of a collective; `request` as the library takes it. */
static tutti_result_t call_collective(struct bench_backend *b, const struct bench_call *c, tutti_request_t *request)
{
	const tutti_comm_t comm = tutti_of(b)->comm;
	const tutti_dtype_t type = c->dtype;
	const void *send = c->send;
	void *recv = c->recv;
	const size_t n = c->count;
	const tutti_op_t op = c->op;

	switch (c->kind) {
	case BENCH_ALL_REDUCE: return tutti_all_reduce(comm, send, recv, n, type, op, request);
	case BENCH_BROADCAST: return tutti_broadcast(comm, send, recv, n, type, c->root, request);
	case BENCH_REDUCE: return tutti_reduce(comm, send, recv, n, type, op, c->root, request);
	case BENCH_REDUCE_SCATTER: return tutti_reduce_scatter(comm, send, recv, n, type, op, request);
	case BENCH_ALL_GATHER: return tutti_all_gather(comm, send, recv, n, type, request);
	case BENCH_GATHER: return tutti_gather(comm, send, recv, n, type, c->root, request);
	case BENCH_SCATTER: return tutti_scatter(comm, send, recv, n, type, c->root, request);
	case BENCH_ALL_TO_ALL: return tutti_all_to_all(comm, send, recv, n, type, request);
	case BENCH_SCAN: return tutti_scan(comm, send, recv, n, type, op, request);
	case BENCH_EXSCAN: return tutti_exscan(comm, send, recv, n, type, op, request);
	default: return tutti_barrier(comm, request); /* BENCH_BARRIER */
	}
}

static tutti_result_t run_call(struct bench_backend *b, const struct bench_call *c)
{
	switch (c->kind) {
	case BENCH_LATENCY: return run_pair(b, c);
	case BENCH_BANDWIDTH: return run_window(b, c);
	default: return call_collective(b, c, NULL);
	}
}

static int run(struct bench_backend *backend, const struct bench_call *call)
{
	return said(backend, tutti_of(backend)->comm, run_call(backend, call));
}

int bench_tutti_start(struct bench_backend *backend, const struct bench_call *call, tutti_request_t *request)
{
	return said(backend, tutti_of(backend)->comm, call_collective(backend, call, request));
}

int bench_tutti_wait(struct bench_backend *backend, tutti_request_t *request)
{
	return said(backend, tutti_of(backend)->comm, tutti_wait(request));
}

static int barrier(struct bench_backend *backend)
{
	const tutti_comm_t comm = tutti_of(backend)->meeting;

	return said(backend, comm, tutti_barrier(comm, NULL));
}

static int combine(struct bench_backend *backend, double *values, size_t count,
		   enum bench_combine how)
{
	const tutti_comm_t comm = tutti_of(backend)->meeting;

	return said(backend, comm,
		    tutti_all_reduce(comm, values, values, count, TUTTI_FLOAT64,
				     how == BENCH_MAX ? TUTTI_MAX : TUTTI_SUM, NULL));
}

static void *allocate(struct bench_backend *backend, size_t bytes, bool mappable)
{
	void *memory;

	if (mappable)
		return said(backend, NULL, tutti_mem_alloc(bytes, &memory)) < 0 ? NULL : memory;
	return posix_memalign(&memory, 4096, bytes) == 0 ? memory : NULL;
}

static void release(struct bench_backend *backend, void *memory, bool mappable)
{
	if (mappable)
		tutti_mem_free(memory);
	else
		free(memory);
}

static void describe(struct bench_backend *backend, const char **transport, const char **algorithm)
{
	tutti_plan_info_t info = { .size = sizeof(info) };

	*transport = *algorithm = "unknown";
	if (tutti_comm_last_plan(tutti_of(backend)->comm, &info) != TUTTI_OK)
		return;
	*transport = info.transports;
	*algorithm = info.algorithm;
}

static int join(struct bench_tutti *tutti, const struct bench_options *options,
		const char *algorithm)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;

	config.transports = options->transport;
	config.algorithm = algorithm;
	*tutti = (struct bench_tutti){ .backend = {
					       .library = "tutti",
					       .context = tutti,
					       .supports = supports,
					       .run = run,
					       .barrier = barrier,
					       .combine = combine,
					       .alloc = allocate,
					       .release = release,
					       .describe = describe,
				       } };
	if (tutti_init(&config, &tutti->comm) != TUTTI_OK) {
		fprintf(stderr, "tutti-bench: cannot join the other ranks: %s\n",
			tutti_last_error(NULL));
		return -1;
	}
	tutti->backend.rank = tutti_comm_rank(tutti->comm);
	tutti->backend.size = tutti_comm_size(tutti->comm);
	tutti->meeting = tutti->comm;
	return 0;
}

int bench_tutti_init(struct bench_tutti *tutti, const struct bench_options *options)
{
	return join(tutti, options, options->algorithm);
}

int bench_tutti_join(struct bench_tutti *tutti, const struct bench_tutti *first,
		     const struct bench_options *options, const char *algorithm)
{
	if (join(tutti, options, algorithm) < 0)
		return -1;
	tutti->meeting = first->comm;
	return 0;
}

void bench_tutti_fini(struct bench_tutti *tutti)
{
	tutti_comm_destroy(tutti->comm);
}
