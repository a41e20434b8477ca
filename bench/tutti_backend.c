/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the communicators of a run, and how each measurement is a call of tutti. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "lines.h"
#include "pattern.h"
#include "tutti_backend.h"
#include "timing.h"

int bench_tutti_said(const struct bench_backend *backend, tutti_comm_t comm, tutti_result_t result)
{
	if (result == TUTTI_OK)
		return 0;
	fprintf(stderr, "rank %d: %s: %s\n", backend->rank, tutti_strerror(result),
		tutti_last_error(comm));
	return -1;
}

tutti_result_t bench_tutti_compare(tutti_comm_t comm, const char *text, bool *alike)
{
	char first[512] = "";
	uint8_t same;

	snprintf(first, sizeof(first), "%s", text);
	tutti_result_t rc =
		tutti_broadcast(comm, first, first, sizeof(first), TUTTI_UINT8, 0, NULL);
	same = strcmp(first, text) == 0;
	if (!rc)
		rc = tutti_all_reduce(comm, &same, &same, 1, TUTTI_UINT8, TUTTI_MIN, NULL);
	*alike = same;
	return rc;
}

static bool supports(struct bench_backend *backend, const struct bench_call *call)
{
	return true;
}

/* A message of the window; the last one also waits for all of them, and for the receiver's answer.
 */
static tutti_result_t run_window(struct bench_backend *b, const struct bench_call *c)
{
	struct bench_tutti *t = bench_tutti_of(b);
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

/* ---- one-sided calls */

static int expose(struct bench_backend *backend, void *in, void *out, size_t bytes)
{
	struct bench_tutti *t = bench_tutti_of(backend);
	tutti_result_t rc = tutti_window_create(t->comm, in, bytes, 0, &t->exposed.in);

	if (!rc)
		rc = tutti_window_create(t->comm, out, bytes, 1, &t->exposed.out);
	t->exposed.in_at = in;
	t->exposed.out_at = out;
	return bench_tutti_said(backend, t->comm, rc);
}

static int conceal(struct bench_backend *backend)
{
	struct bench_tutti *t = bench_tutti_of(backend);
	tutti_result_t rc = tutti_window_destroy(t->exposed.in);

	if (!rc)
		rc = tutti_window_destroy(t->exposed.out);
	return bench_tutti_said(backend, t->comm, rc);
}

/* Buffers lie alike on both ranks. */
static size_t put_at(const struct bench_tutti *t, const struct bench_call *c)
{
	return (size_t)((unsigned char *)c->recv - t->exposed.out_at);
}

/* The last one of a window waits for all of them. */
static tutti_result_t put_one_of_many(struct bench_tutti *t, const struct bench_call *c,
				      size_t bytes)
{
	tutti_result_t rc =
		tutti_put(t->exposed.out, c->send, bytes, 1, put_at(t, c), &t->window[c->index]);

	if (rc || !c->last)
		return rc;
	rc = tutti_wait_all(t->window, c->index + 1);
	return rc ? rc : tutti_flush(t->exposed.out, 1, NULL);
}

static tutti_result_t put_and_answer(struct bench_tutti *t, const struct bench_call *c,
				     size_t bytes)
{
	const int rank = t->backend.rank, peer = 1 - rank;
	tutti_result_t rc = TUTTI_OK;

	t->exposed.signals++;
	if (rank == 1)
		rc = tutti_wait_signal(t->exposed.out, 0, t->exposed.signals, NULL, NULL);
	if (!rc)
		rc = tutti_put_signal(t->exposed.out, c->send, bytes, peer, put_at(t, c), 0, 1,
				      NULL);
	if (!rc && rank == 0)
		rc = tutti_wait_signal(t->exposed.out, 0, t->exposed.signals, NULL, NULL);
	return rc;
}

static tutti_result_t add_one(struct bench_tutti *t)
{
	uint64_t before;
	const tutti_result_t rc = tutti_fetch_add(t->exposed.out, 1, 0, 1, &before, NULL);

	if (!rc && before != t->exposed.sum)
		return tutti_comm_abort(t->comm, "fetch_add found another sum than was there");
	t->exposed.sum++;
	return rc;
}

static tutti_result_t run_one_sided(struct bench_backend *b, const struct bench_call *c)
{
	struct bench_tutti *t = bench_tutti_of(b);
	const size_t bytes = c->count * bench_type_size(c->dtype);
	tutti_result_t rc;

	if (b->rank > 1 || (b->rank == 1 && c->kind != BENCH_PUT_SIGNAL))
		return TUTTI_OK;
	switch (c->kind) {
	case BENCH_PUT:
		rc = tutti_put(t->exposed.out, c->send, bytes, 1, put_at(t, c), NULL);
		return rc ? rc : tutti_flush(t->exposed.out, 1, NULL);
	case BENCH_GET:
		return tutti_get(t->exposed.in, c->recv, bytes, 1,
				 (size_t)((const unsigned char *)c->send - t->exposed.in_at), NULL);
	case BENCH_PUT_BANDWIDTH: return put_one_of_many(t, c, bytes);
	case BENCH_PUT_SIGNAL: return put_and_answer(t, c, bytes);
	default: return add_one(t);
	}
}

/* ---- the table */

static int run(struct bench_backend *backend, const struct bench_call *call)
{
	const struct bench_tutti *tutti = bench_tutti_of(backend);
	tutti_result_t rc;

	if (bench_case(call->kind)->one_sided)
		rc = run_one_sided(backend, call);
	else if (call->kind == BENCH_BANDWIDTH)
		rc = run_window(backend, call);
	else
		rc = bench_call_on_host(tutti, call, NULL);
	return bench_tutti_said(backend, tutti->comm, rc);
}

static int barrier(struct bench_backend *backend)
{
	const tutti_comm_t comm = bench_tutti_of(backend)->meeting;

	return bench_tutti_said(backend, comm, tutti_barrier(comm, NULL));
}

static int split(struct bench_backend *backend, double *seconds)
{
	const tutti_comm_t comm = bench_tutti_of(backend)->comm;
	const double begun = bench_now();
	tutti_comm_t whole;

	if (bench_tutti_said(backend, comm, tutti_comm_split(comm, 0, backend->rank, &whole)) < 0)
		return -1;
	*seconds = bench_now() - begun;
	tutti_comm_destroy(whole);
	return 0;
}

static int combine(struct bench_backend *backend, double *values, size_t count,
		   enum bench_combine how)
{
	const tutti_comm_t comm = bench_tutti_of(backend)->meeting;

	return bench_tutti_said(backend, comm,
				tutti_all_reduce(comm, values, values, count, TUTTI_FLOAT64,
						 how == BENCH_MAX ? TUTTI_MAX : TUTTI_SUM, NULL));
}

static void *allocate(struct bench_backend *backend, size_t bytes)
{
	void *memory;

	return bench_tutti_said(backend, NULL, tutti_mem_alloc(bytes, &memory)) < 0 ? NULL : memory;
}

static void release(struct bench_backend *backend, void *memory)
{
	tutti_mem_free(memory);
}

/* Messages between ranks 0 and 1, in memory of the host. */
void bench_tutti_describe_pair(struct bench_backend *backend, const char **transport,
			       const char **algorithm)
{
	*transport = backend->rank > 1 ? "none"
				       : tutti_comm_transport(bench_tutti_of(backend)->comm,
							      1 - backend->rank);
	*algorithm = "none";
}

static void describe(struct bench_backend *backend, const struct bench_call *call,
		     const char **transport, const char **algorithm)
{
	tutti_plan_info_t info = { .size = sizeof(info) };

	if (bench_case(call->kind)->pair) {
		bench_tutti_describe_pair(backend, transport, algorithm);
		return;
	}
	*transport = *algorithm = "unknown";
	backend->wire = TUTTI_WIRE_FLOAT32;
	if (tutti_comm_last_plan(bench_tutti_of(backend)->comm, &info) != TUTTI_OK)
		return;
	*transport = info.transports;
	*algorithm = info.algorithm;
	backend->wire = info.wire;
}

/* What the launcher said, or a rank among threads. */
static tutti_result_t become_rank(const struct bench_place *place, const tutti_config_t *config,
				  tutti_comm_t *comm)
{
	tutti_store_t store;

	if (!place)
		return tutti_init(config, comm);
	tutti_result_t result = tutti_store_open(place->store, 0, 0, &store);
	if (result)
		return result;
	result = tutti_comm_create(store, place->rank, place->size, config, comm);
	tutti_store_close(store);
	return result;
}

int bench_tutti_init(struct bench_tutti *tutti, const struct bench_options *options,
		     const char *algorithm)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;

	config.transports = options->transport;
	config.algorithm = algorithm;
	config.wire = options->wire;
	*tutti = (struct bench_tutti){ .backend = {
					       .library = "tutti",
					       .version = tutti_version(),
					       .context = tutti,
					       .supports = supports,
					       .run = run,
					       .barrier = barrier,
					       .combine = combine,
					       .split = split,
					       .expose = expose,
					       .conceal = conceal,
					       .alloc = allocate,
					       .release = release,
					       .describe = describe,
					       .wire = TUTTI_WIRE_FLOAT32,
				       } };
	if (become_rank(options->place, &config, &tutti->comm) != TUTTI_OK) {
		bench_complain("cannot join the other ranks: %s", tutti_last_error(NULL));
		return -1;
	}
	tutti->backend.rank = tutti_comm_rank(tutti->comm);
	tutti->backend.size = tutti_comm_size(tutti->comm);
	tutti->meeting = tutti->comm;
	return 0;
}

void bench_tutti_fini(struct bench_tutti *tutti)
{
	tutti_comm_destroy(tutti->comm);
}
