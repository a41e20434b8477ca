/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what follows what. */
#include "claims.h"

#include <stdlib.h>

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
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32,
					       i == 0 ? TUTTI_SUM : TUTTI_MAX, streams[i % 2]));
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

	if (take(comm, &in, few) || take(comm, &out, few) || ready(comm) ||
	    put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &other));
	SUCCEEDS(tutti_cuda_bind(other, r->device));
	for (int i = 0; i < 50; i++)
		SUCCEEDS(tutti_cuda_all_reduce(other, in.gpu, out.gpu, few, TUTTI_FLOAT32,
					       TUTTI_SUM, r->stream));
	tutti_comm_destroy(other);
	if (expect(r, &out, sum_of_ranks(r), (float)r->size))
		return 1;
	give(&in);
	give(&out);
	return 0;
}

/* Rank 0's comes later; the stream waits for the others, who make the plain call first. It is the first
 * one, and takes no pinned memory: CUDA may keep whoever does until streams have ended. */
static int a_plain_call_may_come_before_what_a_stream_waits_for(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	struct vector x, plain;

	if (connections && atoi(connections) == 1) /* a plain call's copies stand behind the wait */
		return 0;
	if (take(comm, &plain, LONG) || begin(r, &x, argument) || put(r, &plain, 1))
		return 1;
	if (r->rank == 0)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	SUCCEEDS(
		tutti_all_reduce(comm, plain.gpu, plain.gpu, LONG, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	if (r->rank != 0)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	if (expect(r, &x, (float)r->size, (float)r->size) ||
	    expect(r, &plain, (float)r->size, (float)r->size))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	give(&x);
	give(&plain);
	return 0;
}

/* As many as one kernel copies, and then a message from another rank. */
static int a_group_may_have_many_messages_to_itself(struct gpu_rank *r, void *argument)
{
	const int next = (r->rank + 1) % r->size, many = 32;
	tutti_comm_t comm = r->comm;
	struct vector x, y;

	if (r->size == 1)
		return 0;
	if (take(comm, &y, few) || begin(r, &x, argument) || put(r, &y, 7))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	SUCCEEDS(tutti_group_begin(comm));
	for (int i = 0; i < many && r->rank == 0; i++) {
		SUCCEEDS(tutti_cuda_send(comm, x.gpu + i, 1, TUTTI_FLOAT32, 0, r->stream));
		SUCCEEDS(tutti_cuda_recv(comm, y.gpu + i, 1, TUTTI_FLOAT32, 0, r->stream));
	}
	if (r->rank == 0)
		SUCCEEDS(tutti_cuda_recv(comm, y.gpu + many, few - (size_t)many, TUTTI_FLOAT32,
					 next, r->stream));
	if (r->rank == 1)
		SUCCEEDS(tutti_cuda_send(comm, x.gpu + many, few - (size_t)many, TUTTI_FLOAT32, 0,
					 r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	if (expect(r, r->rank == 0 ? &y : &x, 1, 1))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	give(&x);
	give(&y);
	return 0;
}

/* How often this process has asked CUDA for a stream. */
static unsigned queries(void)
{
	void *const found = find_in_standin("standin_queries");
	unsigned (*asked)(void);

	memcpy(&asked, &found, sizeof(asked));
	return found ? asked() : 0;
}

/* The library's thread that looks after streams has nothing to do then. */
static int a_long_call_of_the_host_has_the_core(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1) /* it is no long call */
		return 0;
	float *numbers = calloc(LONG, sizeof(float));
	CLAIM(numbers, "no memory");
	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	const unsigned before = queries();

	for (int i = 0; i < 4; i++)
		SUCCEEDS(tutti_all_reduce(comm, numbers, numbers, LONG, TUTTI_FLOAT32, TUTTI_MAX,
					  NULL));
	const unsigned looks = queries() - before;

	/* until it has met the communicator's lock free; else it would look each 5 ms */
	CLAIM(looks < 60, "it has looked %u times", looks);
	free(numbers);
	give(&x);
	return 0;
}

const struct claim order_claims[] = {
	{ "streams_follow_each_other", streams_follow_each_other },
	{ "barrier_waits_for_all", barrier_waits_for_all },
	{ "destroyed_with_work_ahead", destroyed_with_work_ahead },
	{ "a_plain_call_may_come_before_what_a_stream_waits_for",
	  a_plain_call_may_come_before_what_a_stream_waits_for, .stands_in = true },
	{ "a_group_may_have_many_messages_to_itself", a_group_may_have_many_messages_to_itself },
	{ "a_long_call_of_the_host_has_the_core", a_long_call_of_the_host_has_the_core,
	  .stands_in = true },
	{ NULL },
};
