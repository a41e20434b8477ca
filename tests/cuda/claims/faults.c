/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what else ends a communicator while streams wait, and about a CUDA that fails. */
#include "claims.h"

#include <signal.h>
#include <stdlib.h>

/* On rank 0 a kernel in the middle of an operation cannot be launched. */
static int half_an_operation_is_let_go(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	if (r->rank == 0) {
		/* where ranks meet inside kernels there is one */
		const bool one = gpu_job_threads || getenv("TEST_GPUS");

		setenv("STANDIN_FAILS", one ? "cuLaunchKernel" : "cuLaunchKernel:2", 1);
		const tutti_result_t result = tutti_cuda_all_reduce(
			comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream);
		unsetenv("STANDIN_FAILS");
		CLAIM(result == TUTTI_ERR_SYSTEM, "%s, expected %s", tutti_strerror(result),
		      tutti_strerror(TUTTI_ERR_SYSTEM));
	} else {
		tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				      r->stream); /* the fault may be known */
	}
	return told(r, &x, TUTTI_ERR_SYSTEM, "rank 0: tutti_cuda_all_reduce");
}

/* As after cudaDeviceReset(), or late in the end of a program. */
static int destroyed_without_a_context(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm, other;
	struct vector x;

	if (take(comm, &x, few) || ready(comm) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &other));
	SUCCEEDS(tutti_cuda_bind(other, r->device));
	SUCCEEDS(tutti_cuda_all_reduce(other, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	meet_at(argument, r->size);
	setenv("STANDIN_FAILS", "cuCtxPushCurrent_v2", 1);
	tutti_comm_destroy(other);
	unsetenv("STANDIN_FAILS");
	give(&x);
	return 0;
}

/* One operation more than a rank takes part in: there is nobody to store words to, or to wait
 * for. */
static int rank_that_left_is_missed(struct gpu_rank *r, void *argument)
{
	struct gpu_rank there = *r;
	tutti_comm_t comm = NULL;
	tutti_result_t found;
	struct vector x;

	if (r->size == 1)
		return 0;
	SUCCEEDS(tutti_comm_split(r->comm, 0, 0, &comm));
	SUCCEEDS(tutti_cuda_bind(comm, r->device));
	there.comm = comm;
	if (begin(&there, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(next_call_takes(comm, 0.3));
	meet_at(argument, 2 * r->size); /* who leaves is not missed by that one */
	if (r->rank == r->size - 1)
		tutti_comm_destroy(comm);
	meet_at(argument, 3 * r->size);
	if (r->rank < r->size - 1) {
		tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream);
		WORKS(gpu_finish(r->stream));
		while ((found = tutti_comm_error(comm, NULL)) == TUTTI_OK)
			;
		CLAIM(found == TUTTI_ERR_TIMEOUT || found == TUTTI_ERR_PEER_LOST, "%s",
		      tutti_last_error(comm));
		tutti_comm_destroy(comm);
	}
	give(&x);
	return 0;
}

static int abort_lets_streams_go_on(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	if (r->rank == 0)
		SUCCEEDS(tutti_comm_abort(comm, "for the test"));
	else
		tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				      r->stream); /* the abort may have come */
	return told(r, &x, TUTTI_ERR_ABORTED, "for the test");
}

/* The last rank is killed while the others' streams, and a graph's, wait for it. */
#define AHEAD 8 /* operations: so few need not wait for room on the stream */

static int killed_rank_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int victim = r->size - 1;
	atomic_int *posted = argument;
	struct vector x;

	if (take(comm, &x, few) || ready(comm) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	WORKS(gpu_capture(r->stream));
	for (int i = 0; i < AHEAD; i++)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	if (r->rank == victim) {
		WORKS(gpu_finish(r->stream));
		await_count(posted, r->size - 1);
		raise(SIGKILL);
	}
	for (int i = 0; i < AHEAD; i++)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	WORKS(gpu_launch(graph, r->stream));
	atomic_fetch_add(posted, 1);
	return told(r, &x, TUTTI_ERR_PEER_LOST, "rank");
}

const struct claim fault_claims[] = {
	{ "half_an_operation_is_let_go", half_an_operation_is_let_go, .reaches = true,
	  .stands_in = true },
	{ "destroyed_without_a_context", destroyed_without_a_context, .stands_in = true },
	{ "rank_that_left_is_missed", rank_that_left_is_missed },
	{ "abort_lets_streams_go_on", abort_lets_streams_go_on },
	{ "killed_rank_is_told", killed_rank_is_told, .kills = true },
	{ NULL },
};
