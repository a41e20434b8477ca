/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what else ends a communicator while streams wait, and about a CUDA that fails. */
#include "claims.h"

#include <signal.h>
#include <stdlib.h>

/* On rank 0 the kernel of an operation cannot be launched, for which the others wait. */
GPU_JOB(half_an_operation_is_let_go, .reaches = true, .stands_in = true)
{
	struct vector x;

	TRY(begin(r, &x, came));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	WORKS(gpu_finish(r->stream));
	if (r->rank == 0) {
		setenv("STANDIN_FAILS", "cuLaunchKernel", 1);
		const tutti_result_t result = reduce_all(r, x, x, TUTTI_SUM);
		setenv("STANDIN_FAILS", "", 1);
		CLAIM(result == TUTTI_ERR_SYSTEM, "%s, expected %s", tutti_strerror(result),
		      tutti_strerror(TUTTI_ERR_SYSTEM));
	} else {
		reduce_all(r, x, x, TUTTI_SUM); /* the fault may be known */
	}
	return told(r, x, TUTTI_ERR_SYSTEM, "rank 0: tutti_cuda_all_reduce");
}

/* As after cudaDeviceReset(), or late in the end of a program. */
GPU_JOB(destroyed_without_a_context, .stands_in = true)
{
	struct gpu_rank other;
	struct vector x;

	TRY(take(comm, &x, few) || ready(comm) || put(r, x, 1) || make_another(r, 0, &other));
	SUCCEEDS(reduce_all(&other, x, x, TUTTI_SUM));
	WORKS(gpu_finish(r->stream));
	meet_at(came, r->size);
	setenv("STANDIN_FAILS", "cuCtxPushCurrent_v2", 1);
	tutti_comm_destroy(other.comm);
	setenv("STANDIN_FAILS", "", 1);
	return 0;
}

/* One operation more than a rank takes part in: there is nobody to tell anything, or to wait
 * for. */
GPU_JOB(rank_that_left_is_missed)
{
	struct gpu_rank there;
	tutti_result_t found;
	struct vector x;

	TRY(make_another(r, 0, &there) || begin(&there, &x, came));
	SUCCEEDS(reduce_all(&there, x, x, TUTTI_SUM));
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(next_call_takes(there.comm, 0.3));
	meet_at(came, 2 * r->size); /* who leaves is not missed by that one */
	if (r->rank == r->size - 1)
		tutti_comm_destroy(there.comm);
	meet_at(came, 3 * r->size);
	if (r->rank < r->size - 1) {
		reduce_all(&there, x, x, TUTTI_SUM);
		WORKS(gpu_finish(r->stream));
		while ((found = tutti_comm_error(there.comm, NULL)) == TUTTI_OK)
			;
		CLAIM(found == TUTTI_ERR_TIMEOUT || found == TUTTI_ERR_PEER_LOST, "%s",
		      tutti_last_error(there.comm));
		tutti_comm_destroy(there.comm);
	}
	return 0;
}

GPU_JOB(abort_lets_streams_go_on)
{
	struct vector x;

	TRY(begin(r, &x, came));
	if (r->rank == 0)
		SUCCEEDS(tutti_comm_abort(comm, "for the test"));
	else
		reduce_all(r, x, x, TUTTI_SUM); /* the abort may have come */
	return told(r, x, TUTTI_ERR_ABORTED, "for the test");
}

/* The last rank is killed while the others' streams, and a graph's, wait for it. */
#define AHEAD 8 /* operations: so few need not wait for room on the stream */

GPU_JOB(killed_rank_is_told, .kills = true)
{
	const int victim = r->size - 1;
	struct vector x;

	TRY(take(comm, &x, few) || ready(comm) || put(r, x, 1));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	WORKS(gpu_capture(r->stream));
	for (int i = 0; i < AHEAD; i++)
		SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	gpu_graph_t graph = gpu_captured(r->stream);
	WORKS(graph);
	if (r->rank == victim) {
		WORKS(gpu_finish(r->stream));
		await_count(came, r->size - 1);
		raise(SIGKILL);
	}
	for (int i = 0; i < AHEAD; i++)
		SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	WORKS(gpu_launch(graph, r->stream));
	atomic_fetch_add(came, 1);
	return told(r, x, TUTTI_ERR_PEER_LOST, "rank");
}
