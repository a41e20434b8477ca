/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what follows what. */
#include "claims.h"

#include <stdlib.h>

/* x becomes the average of all x, again and again, by turns on two streams. What comes on one stream needs
 * not wait. */
GPU_JOB(streams_follow_each_other)
{
	gpu_stream_t streams[2] = { r->stream, gpu_stream() };
	struct vector x;

	CLAIM(streams[1], "%s", gpu_error());
	TRY(take(comm, &x, few) || ready(comm) || put(r, x, (float)r->rank));
	for (int i = 0; i < 200; i++)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32,
					       i == 0 ? TUTTI_SUM : TUTTI_MAX, streams[i % 2]));
	WORKS(gpu_finish(streams[1]));
	TRY(expect_sum(r, x));
	const unsigned before = counted("standin_waits", 0, 0);
	for (int i = 0; i < 10; i++)
		SUCCEEDS(reduce_all(r, x, x, TUTTI_MAX));
	const unsigned waits = counted("standin_waits", 0, 0) - before;
	CLAIM(gpu_job_threads || waits <= 1, "streams have waited %u times", waits);
	WORKS(gpu_finish(r->stream));
	WORKS(gpu_stream_free(streams[1]));
	return 0;
}

/* The last rank comes when the others have looked, again and again, at streams that wait for it. */
GPU_JOB(barrier_waits_for_all)
{
	const bool last = r->rank == r->size - 1;

	for (int turn = 0; turn < 10; turn++) {
		if (last)
			await_count(came, (turn + 1) * (r->size - 1));
		SUCCEEDS(tutti_cuda_barrier(comm, r->stream));
		for (int look = 0; look < 100 && !last; look++)
			CLAIM(!gpu_is_done(r->stream), "it has not waited for rank %d",
			      r->size - 1);
		atomic_fetch_add(came, !last);
		WORKS(gpu_finish(r->stream));
	}
	return 0;
}

/* What is on the stream when the communicator goes is done first. */
GPU_JOB(destroyed_with_work_ahead)
{
	struct gpu_rank other;
	struct vector in, out;

	TRY(take(comm, &in, few) || take(comm, &out, few) || ready(comm) ||
	    put(r, in, (float)r->rank) || make_another(r, 0, &other));
	for (int i = 0; i < 50; i++)
		SUCCEEDS(reduce_all(&other, in, out, TUTTI_SUM));
	tutti_comm_destroy(other.comm);
	return expect_sum(r, out);
}

/* Rank 0's comes later; the stream waits for the others, who make the plain call first. It is the first
 * one, and takes no pinned memory: CUDA may keep whoever does until streams have ended. */
GPU_JOB(a_plain_call_may_come_before_what_a_stream_waits_for, .stands_in = true)
{
	const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	struct vector x, plain;

	if (connections && atoi(connections) == 1) /* a plain call's copies stand behind the wait */
		return 0;
	TRY(take(comm, &plain, LONG) || begin(r, &x, came) || put(r, plain, 1));
	if (r->rank == 0)
		SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	SUCCEEDS(
		tutti_all_reduce(comm, plain.gpu, plain.gpu, LONG, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	if (r->rank != 0)
		SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	return expect_size(r, x) || expect_size(r, plain);
}

/* As many as one kernel copies, and then a message from another rank. */
GPU_JOB(a_group_may_have_many_messages_to_itself)
{
	const int many = 32;
	struct vector x, y;

	TRY(take(comm, &y, few) || begin(r, &x, came) || put(r, y, 7));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_MAX));
	SUCCEEDS(tutti_group_begin(comm));
	for (int i = 0; i < many && r->rank == 0; i++) {
		SUCCEEDS(send_to(r, part(x, i, 1), 0));
		SUCCEEDS(recv_from(r, part(y, i, 1), 0));
	}
	if (r->rank == 0)
		SUCCEEDS(recv_from(r, part(y, many, few - (size_t)many), next_rank(r)));
	if (r->rank == 1)
		SUCCEEDS(send_to(r, part(x, many, few - (size_t)many), 0));
	SUCCEEDS(tutti_group_end(comm, NULL));
	return expect(r, r->rank == 0 ? y : x, 1, 1);
}

/* The library's thread that looks after streams has nothing to do then. */
GPU_JOB(a_long_call_of_the_host_has_the_core, .stands_in = true)
{
	struct vector x;

	float *numbers = calloc(LONG, sizeof(float));
	CLAIM(numbers, "no memory");
	TRY(begin(r, &x, came));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_MAX));
	WORKS(gpu_finish(r->stream));
	const unsigned before = counted("standin_queries", 0, 0);
	const double begun = seconds_now();

	for (int i = 0; i < 4; i++)
		SUCCEEDS(tutti_all_reduce(comm, numbers, numbers, LONG, TUTTI_FLOAT32, TUTTI_MAX,
					  NULL));
	const unsigned looks = counted("standin_queries", 0, 0) - before;

	const double seconds = seconds_now() - begun;

	/* each 5 ms, until it has met the communicator's lock free */
	CLAIM(looks < 60 + seconds * 300, "it has looked %u times in %.1f s", looks, seconds);
	free(numbers);
	return 0;
}
