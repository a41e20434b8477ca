/* SPDX-License-Identifier: BSD-3-Clause */
/* The measurements of tutti-bench for an MPI library; built once for each. Started by that
 * library's own launcher; transport and algorithm are chosen by its own means, and are labels here.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend.h"
#include "lines.h"
#include "options.h"
#include "output.h"
#include "pattern.h"
#include "start.h"
#include "sweep.h"
#include "timing.h"

struct mpi {
	const struct bench_options *options;
	MPI_Request window[BENCH_WINDOW];
	MPI_Status statuses[BENCH_WINDOW]; /* unread, but MPICH's prototype asks for them */
	/* one-sided: what rank 0 accesses of rank 1, and what it has added there */
	MPI_Win in, out;
	char *in_at, *out_at;
	long long sum;
	/* memory that came with a window of its own, by MPI_Win_allocate() */
	struct {
		void *memory;
		MPI_Win window;
	} allocated[2];
};

static const MPI_Datatype no_type = MPI_DATATYPE_NULL;

static MPI_Datatype type_of(tutti_dtype_t dtype)
{
	switch (dtype) {
	case TUTTI_INT8: return MPI_INT8_T;
	case TUTTI_UINT8: return MPI_UINT8_T;
	case TUTTI_INT16: return MPI_INT16_T;
	case TUTTI_UINT16: return MPI_UINT16_T;
	case TUTTI_INT32: return MPI_INT32_T;
	case TUTTI_UINT32: return MPI_UINT32_T;
	case TUTTI_INT64: return MPI_INT64_T;
	case TUTTI_UINT64: return MPI_UINT64_T;
	case TUTTI_FLOAT32: return MPI_FLOAT;
	case TUTTI_FLOAT64: return MPI_DOUBLE;
	default: return no_type;
	}
}

static MPI_Op op_of(int op)
{
	switch (op) {
	case TUTTI_SUM: return MPI_SUM;
	case TUTTI_PROD: return MPI_PROD;
	case TUTTI_MIN: return MPI_MIN;
	case TUTTI_MAX: return MPI_MAX;
	case TUTTI_BAND: return MPI_BAND;
	case TUTTI_BOR: return MPI_BOR;
	case TUTTI_BXOR: return MPI_BXOR;
	default: return MPI_OP_NULL;
	}
}

static int said(int rc)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;

	if (rc == MPI_SUCCESS)
		return 0;
	MPI_Error_string(rc, text, &length);
	fprintf(stderr, "MPI: %.*s\n", length, text);
	return -1;
}

static bool supports(struct bench_backend *backend, const struct bench_call *call)
{
	/* MPI's result in place is at the start of all blocks, not where the rank's own block was
	 */
	if (call->kind == BENCH_REDUCE_SCATTER && call->inplace)
		return false;
	if (call->kind == BENCH_BROADCAST && !call->inplace)
		return false; /* the root has one buffer only */
	if (call->kind == BENCH_PUT_SIGNAL)
		return false; /* who is put to cannot wait for it */
	return type_of(call->dtype) != no_type && call->count <= INT32_MAX &&
	       (call->op == BENCH_NO_OP || op_of(call->op) != MPI_OP_NULL);
}

static int run_pair(struct bench_backend *b, const struct bench_call *c)
{
	const int count = (int)c->count, peer = 1 - b->rank, tag = c->caller;
	const MPI_Datatype type = type_of(c->dtype);
	int rc = MPI_SUCCESS;

	if (b->rank > 1)
		return MPI_SUCCESS;
	if (b->rank == 0)
		rc = MPI_Send(c->send, count, type, peer, tag, MPI_COMM_WORLD);
	if (!rc)
		rc = MPI_Recv(c->recv, count, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (!rc && b->rank == 1)
		rc = MPI_Send(c->send, count, type, peer, tag, MPI_COMM_WORLD);
	return rc;
}

/* A message of the window; the last one also waits for all of them, and for the receiver's answer.
 */
static int run_window(struct bench_backend *b, const struct bench_call *c)
{
	struct mpi *mpi = b->context;
	const MPI_Datatype type = type_of(c->dtype);
	MPI_Request *request = &mpi->window[c->index];
	const int count = (int)c->count;
	char answer = 0;
	int rc;

	if (b->rank > 1)
		return MPI_SUCCESS;
	if (b->rank == 0)
		rc = MPI_Isend(c->send, count, type, 1, 0, MPI_COMM_WORLD, request);
	else
		rc = MPI_Irecv(c->recv, count, type, 0, 0, MPI_COMM_WORLD, request);
	if (rc || !c->last)
		return rc;
	rc = MPI_Waitall((int)c->index + 1, mpi->window, mpi->statuses);
	if (rc)
		return rc;
	if (b->rank == 0)
		return MPI_Recv(&answer, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return MPI_Send(&answer, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
}

/* Targets lie alike on both ranks. Epochs are those of MPI_Win_lock_all() in expose(). */
static int run_one_sided(struct bench_backend *b, const struct bench_call *c)
{
	struct mpi *mpi = b->context;
	const MPI_Datatype type = type_of(c->dtype);
	const int count = (int)c->count;
	const MPI_Aint out = (char *)c->recv - mpi->out_at, in = (char *)c->send - mpi->in_at;
	const long long one = 1;
	long long before;
	int rc;

	if (b->rank != 0)
		return MPI_SUCCESS;
	switch (c->kind) {
	case BENCH_GET: rc = MPI_Get(c->recv, count, type, 1, in, count, type, mpi->in); break;
	case BENCH_FETCH_ADD:
		rc = MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, 1, 0, MPI_SUM, mpi->out);
		break;
	default: rc = MPI_Put(c->send, count, type, 1, out, count, type, mpi->out);
	}
	if (rc || (c->kind == BENCH_PUT_BANDWIDTH && !c->last))
		return rc;
	rc = MPI_Win_flush(1, c->kind == BENCH_GET ? mpi->in : mpi->out);
	if (!rc && c->kind == BENCH_FETCH_ADD && before != mpi->sum++)
		return MPI_ERR_OTHER;
	return rc;
}

static int run_rooted(struct bench_backend *b, const struct bench_call *c)
{
	const int count = (int)c->count;
	const bool root = b->rank == c->root, in = c->inplace && root;
	const MPI_Datatype type = type_of(c->dtype);
	const MPI_Comm world = MPI_COMM_WORLD;

	switch (c->kind) {
	case BENCH_BROADCAST:
		return MPI_Bcast(root ? (void *)c->send : c->recv, count, type, c->root, world);
	case BENCH_REDUCE:
		return MPI_Reduce(in ? MPI_IN_PLACE : c->send, c->recv, count, type, op_of(c->op),
				  c->root, world);
	case BENCH_GATHER:
		return MPI_Gather(in ? MPI_IN_PLACE : c->send, count, type, c->recv, count, type,
				  c->root, world);
	default:
		return MPI_Scatter(c->send, count, type, in ? MPI_IN_PLACE : c->recv, count, type,
				   c->root, world);
	}
}

static int run_call(struct bench_backend *b, const struct bench_call *c)
{
	const int count = (int)c->count;
	const MPI_Datatype type = type_of(c->dtype);
	const void *send = c->inplace ? MPI_IN_PLACE : c->send;
	const MPI_Comm world = MPI_COMM_WORLD;
	const MPI_Op op = op_of(c->op);

	switch (c->kind) {
	case BENCH_ALL_REDUCE: return MPI_Allreduce(send, c->recv, count, type, op, world);
	case BENCH_REDUCE_SCATTER:
		return MPI_Reduce_scatter_block(c->send, c->recv, count, type, op, world);
	case BENCH_ALL_GATHER: return MPI_Allgather(send, count, type, c->recv, count, type, world);
	case BENCH_ALL_TO_ALL: return MPI_Alltoall(send, count, type, c->recv, count, type, world);
	case BENCH_SCAN: return MPI_Scan(send, c->recv, count, type, op, world);
	case BENCH_EXSCAN: return MPI_Exscan(send, c->recv, count, type, op, world);
	case BENCH_BARRIER: return MPI_Barrier(world);
	case BENCH_LATENCY: return run_pair(b, c);
	case BENCH_BANDWIDTH: return run_window(b, c);
	case BENCH_PUT:
	case BENCH_GET:
	case BENCH_PUT_BANDWIDTH:
	case BENCH_FETCH_ADD: return run_one_sided(b, c);
	default: return run_rooted(b, c);
	}
}

static int run(struct bench_backend *backend, const struct bench_call *call)
{
	return said(run_call(backend, call));
}

static int barrier(struct bench_backend *backend)
{
	return said(MPI_Barrier(MPI_COMM_WORLD));
}

static int split(struct bench_backend *backend, double *seconds)
{
	const double begun = bench_now();
	MPI_Comm whole;

	if (said(MPI_Comm_split(MPI_COMM_WORLD, 0, backend->rank, &whole)) < 0)
		return -1;
	*seconds = bench_now() - begun;
	return said(MPI_Comm_free(&whole));
}

static int combine(struct bench_backend *backend, double *values, size_t count,
		   enum bench_combine how)
{
	return said(MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE,
				  how == BENCH_MAX ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD));
}

static int window_of(const struct mpi *mpi, const void *memory)
{
	int i = 0;

	while (i < 2 && mpi->allocated[i].memory != memory)
		i++;
	return i;
}

/* By MPI_Win_allocate(), which may share it between ranks. */
static void *allocate(struct bench_backend *backend, size_t bytes)
{
	struct mpi *mpi = backend->context;
	const int i = window_of(mpi, NULL);

	if (said(MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
				  &mpi->allocated[i].memory, &mpi->allocated[i].window)) < 0)
		return NULL;
	return mpi->allocated[i].memory;
}

static void release(struct bench_backend *backend, void *memory)
{
	struct mpi *mpi = backend->context;
	const int i = window_of(mpi, memory);

	MPI_Win_free(&mpi->allocated[i].window);
	mpi->allocated[i].memory = NULL;
}

static int open_window(struct mpi *mpi, void *memory, size_t bytes, MPI_Win *window)
{
	const int i = window_of(mpi, memory);
	int rc = MPI_SUCCESS;

	if (i < 2)
		*window = mpi->allocated[i].window;
	else
		rc = MPI_Win_create(memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
				    window);
	return rc ? rc : MPI_Win_lock_all(0, *window);
}

static int expose(struct bench_backend *backend, void *in, void *out, size_t bytes)
{
	struct mpi *mpi = backend->context;
	const int rc = open_window(mpi, in, bytes, &mpi->in);

	mpi->in_at = in;
	mpi->out_at = out;
	return said(rc ? rc : open_window(mpi, out, bytes, &mpi->out));
}

static int close_window(struct mpi *mpi, const void *memory, MPI_Win *window)
{
	const int rc = MPI_Win_unlock_all(*window);

	return rc || window_of(mpi, memory) < 2 ? rc : MPI_Win_free(window);
}

static int conceal(struct bench_backend *backend)
{
	struct mpi *mpi = backend->context;
	const int rc = close_window(mpi, mpi->in_at, &mpi->in);

	return said(rc ? rc : close_window(mpi, mpi->out_at, &mpi->out));
}

static void describe(struct bench_backend *backend, const struct bench_call *call,
		     const char **transport, const char **algorithm)
{
	const struct mpi *mpi = backend->context;

	*transport = mpi->options->transport ? mpi->options->transport : "unknown";
	*algorithm = mpi->options->algorithm ? mpi->options->algorithm : "unknown";
}

static int measure(const struct bench_options *options, const struct bench_start *start)
{
	struct mpi mpi = { .options = options };
	struct bench_backend backend = {
		.library = BENCH_LIBRARY,
		.context = &mpi,
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
	};

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &backend.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &backend.size);
	if (!bench_options_fit(options, backend.size)) {
		if (backend.rank == 0)
			bench_options_complain();
		return 2;
	}
	return options->kind == BENCH_INIT ? bench_start_end(start, &backend, options)
					   : bench_sweep(&backend, options);
}

int main(int argc, char **argv)
{
	struct bench_options options;
	int status, wanted, provided;

	output_begin(1);
	const enum bench_parsed parsed = bench_options_parse(argc, argv, &options);
	if (parsed != BENCH_PARSED)
		return bench_options_end(parsed, NULL);
	const struct bench_start start = bench_start_begin();

	wanted = options.callers > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
	MPI_Init_thread(&argc, &argv, wanted, &provided);
	if (provided < wanted)
		bench_complain("this MPI has no MPI_THREAD_MULTIPLE, which --callers needs");
	status = provided < wanted ? -1 : measure(&options, &start);
	if (status < 0)
		MPI_Abort(MPI_COMM_WORLD, 1); /* others may be waiting for this rank */
	MPI_Finalize();
	return status;
}
