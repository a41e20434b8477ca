/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about captured streams and their graphs. */
#include "claims.h"

GPU_JOB(graph_is_launched_again)
{
	struct vector in, out;

	TRY(take(comm, &in, few) || take(comm, &out, few) || ready(comm));
	WORKS(gpu_capture(r->stream));
	for (int i = 0; i < 3; i++) /* an odd number of operations */
		SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	gpu_graph_t graph = gpu_captured(r->stream);
	WORKS(graph);
	TRY(ready(comm));
	for (int turn = 0; turn < 5; turn++) {
		TRY(put(r, in, (float)(r->rank + turn)));
		WORKS(gpu_launch(graph, r->stream));
		TRY(expect(r, out, sum_of_ranks(r) + (float)(turn * r->size), (float)r->size));
		/* and one that is in no graph */
		SUCCEEDS(reduce_all(r, in, out, TUTTI_MAX));
		TRY(expect(r, out, (float)(r->size - 1 + turn), 1));
	}
	WORKS(gpu_graph_free(graph));
	return 0;
}

/* In several chunks, if they go in chunks, and nothing before it has made room for them. */
GPU_JOB(graph_has_long_ones_and_messages)
{
	struct vector in, out, got;

	TRY(take(comm, &in, LONG) || take(comm, &out, LONG) || take(comm, &got, few) ||
	    ready(comm));
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	SUCCEEDS(swap(r, part(in, 0, few), got));
	gpu_graph_t graph = gpu_captured(r->stream);
	WORKS(graph);
	TRY(ready(comm));
	for (int turn = 0; turn < 3; turn++) {
		TRY(put(r, in, (float)(r->rank + turn)));
		WORKS(gpu_launch(graph, r->stream));
		if (turn == 1) /* at once once more */
			WORKS(gpu_launch(graph, r->stream));
		TRY(expect(r, out, sum_of_ranks(r) + (float)(turn * r->size), (float)r->size) ||
		    expect(r, got, (float)(rank_before(r) + turn), 1));
	}
	WORKS(gpu_graph_free(graph));
	return 0;
}

/* Its own communicators and plain calls are none of what is captured. */
GPU_JOB(other_calls_are_made_while_a_stream_is_captured)
{
	struct gpu_rank other;
	struct vector x, plain;

	TRY(make_another(r, 0, &other) || take(comm, &x, few) || take(comm, &plain, few) ||
	    ready(comm) || put(r, x, 1) || put(r, plain, 2));
	SUCCEEDS(reduce_all(&other, x, x, TUTTI_MAX));
	WORKS(gpu_finish(r->stream));
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	SUCCEEDS(tutti_all_reduce(comm, plain.gpu, plain.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	tutti_comm_destroy(other.comm);
	gpu_graph_t graph = gpu_captured(r->stream);
	WORKS(graph);
	TRY(ready(comm));
	WORKS(gpu_launch(graph, r->stream));
	TRY(expect_size(r, x) || expect(r, plain, 2 * (float)r->size, (float)r->size));
	WORKS(gpu_graph_free(graph));
	return 0;
}
