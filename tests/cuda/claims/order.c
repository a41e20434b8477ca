/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what follows what. */
#include "claims.h"

/* x becomes the average of all x, again and again, by turns on two streams. */
static int streams_follow_each_other(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	gpu_stream_t streams[2] = { r->stream, gpu_stream() };
	struct vector x;

	CLAIM(streams[1], "%s", gpu_error());
	if (take(comm, &x, few) || ready(comm) || put(r, &x, (float)r->rank))
		return 1;
	for (int i = 0; i < 200; i++)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, i == 0 ? TUTTI_SUM : TUTTI_MAX, streams[i % 2]));
	WORKS(gpu_finish(streams[1]));
	if (expect(r, &x, sum_of_ranks(r), (float)r->size))
		return 1;
	WORKS(gpu_stream_free(streams[1]));
	give(&x);
	return 0;
}

static int barrier_waits_for_all(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;

	for (int i = 0; i < 10; i++)
		SUCCEEDS(tutti_cuda_barrier(comm, r->stream));
	WORKS(gpu_finish(r->stream));
	return 0;
}

/* What is on the stream when the communicator goes is done first. */
static int destroyed_with_work_ahead(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm, other;
	struct vector in, out;

	if (take(comm, &in, few) || take(comm, &out, few) || ready(comm) || put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &other));
	SUCCEEDS(tutti_cuda_bind(other, r->device));
	for (int i = 0; i < 50; i++)
		SUCCEEDS(tutti_cuda_all_reduce(other, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	tutti_comm_destroy(other);
	if (expect(r, &out, sum_of_ranks(r), (float)r->size))
		return 1;
	give(&in);
	give(&out);
	return 0;
}

const struct claim order_claims[] = {
	{ "streams_follow_each_other", streams_follow_each_other },
	{ "barrier_waits_for_all", barrier_waits_for_all },
	{ "destroyed_with_work_ahead", destroyed_with_work_ahead },
	{ NULL },
};
