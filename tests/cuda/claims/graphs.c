/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about captured streams and their graphs. */
#include "claims.h"

static int graph_is_launched_again(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector in, out;

	if (take(comm, &in, few) || take(comm, &out, few) || ready(comm))
		return 1;
	WORKS(gpu_capture(r->stream));
	for (int i = 0; i < 3; i++) /* an odd number of operations */
		SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	if (ready(comm))
		return 1;
	for (int turn = 0; turn < 5; turn++) {
		if (put(r, &in, (float)(r->rank + turn)))
			return 1;
		WORKS(gpu_launch(graph, r->stream));
		if (expect(r, &out, sum_of_ranks(r) + (float)(turn * r->size), (float)r->size))
			return 1;
		/* and one that is in no graph */
		SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
					       r->stream));
		if (expect(r, &out, (float)(r->size - 1 + turn), 1))
			return 1;
	}
	WORKS(gpu_graph_free(graph));
	give(&in);
	give(&out);
	return 0;
}

/* In several chunks, if they go in chunks, and nothing before it has made room for them. */
static int graph_has_long_ones_and_messages(struct gpu_rank *r, void *argument)
{
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	tutti_comm_t comm = r->comm;
	struct vector in, out, got;

	if (take(comm, &in, LONG) || take(comm, &out, LONG) || take(comm, &got, few) || ready(comm))
		return 1;
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, LONG, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, next, r->stream));
	SUCCEEDS(tutti_cuda_recv(comm, got.gpu, few, TUTTI_FLOAT32, before, r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	if (ready(comm))
		return 1;
	for (int turn = 0; turn < 3; turn++) {
		if (put(r, &in, (float)(r->rank + turn)))
			return 1;
		WORKS(gpu_launch(graph, r->stream));
		if (turn == 1) /* at once once more */
			WORKS(gpu_launch(graph, r->stream));
		if (expect(r, &out, sum_of_ranks(r) + (float)(turn * r->size), (float)r->size) ||
		    expect(r, &got, (float)(before + turn), 1))
			return 1;
	}
	WORKS(gpu_graph_free(graph));
	give(&in);
	give(&out);
	give(&got);
	return 0;
}

/* Its own communicators and plain calls are none of what is captured. */
static int other_calls_are_made_while_a_stream_is_captured(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm, other = NULL;
	struct vector x, plain;

	SUCCEEDS(tutti_comm_split(comm, 0, r->rank, &other));
	SUCCEEDS(tutti_cuda_bind(other, r->device));
	if (take(comm, &x, few) || take(comm, &plain, few) || ready(comm) || put(r, &x, 1) ||
	    put(r, &plain, 2))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(other, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	SUCCEEDS(tutti_all_reduce(comm, plain.gpu, plain.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	tutti_comm_destroy(other);
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	if (ready(comm))
		return 1;
	WORKS(gpu_launch(graph, r->stream));
	if (expect(r, &x, (float)r->size, (float)r->size) ||
	    expect(r, &plain, 2 * (float)r->size, (float)r->size))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	WORKS(gpu_graph_free(graph));
	give(&x);
	give(&plain);
	return 0;
}

const struct claim graph_claims[] = {
	{ "graph_is_launched_again", graph_is_launched_again },
	{ "graph_has_long_ones_and_messages", graph_has_long_ones_and_messages },
	{ "other_calls_are_made_while_a_stream_is_captured",
	  other_calls_are_made_while_a_stream_is_captured },
	{ NULL },
};
