/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about memory that all ranks have registered. */
#include "claims.h"

#include <signal.h>
#include <stdlib.h>

/* Each rank has places of its own for the blocks, in a window. */
GPU_JOB(places_of_blocks_are_a_ranks_own)
{
	size_t counts[GPU_RANKS], displs[GPU_RANKS];
	tutti_cuda_window_t window;
	struct vector in, out;

	TRY(take(comm, &in, few) || take(comm, &out, few) || ready(comm) ||
	    put(r, in, (float)(100 * (r->rank + 1))) || put(r, out, 0));
	for (size_t i = 0; i < (size_t)r->size; i++) {
		counts[i] = 4;
		displs[i] = r->rank == 0 ? i * 4 : 500 - i * 4;
	}
	SUCCEEDS(tutti_cuda_register(comm, out.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_gather_v(comm, in.gpu, out.gpu, counts, displs, TUTTI_FLOAT32,
					 r->stream));
	WORKS(gpu_copy(out.host, out.gpu, few * sizeof(float), r->stream) && gpu_finish(r->stream));
	for (int i = 0; i < r->size; i++)
		CLAIM(out.host[displs[i]] == (float)(100 * (i + 1)), "rank %d's block is %g", i,
		      out.host[displs[i]]);
	SUCCEEDS(tutti_cuda_deregister(window));
	return 0;
}

GPU_JOB(windows_of_nothing_do_not_matter)
{
	tutti_cuda_window_t window;
	struct vector x;

	TRY(take(comm, &x, few) || ready(comm));
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, r->rank ? NULL : x.gpu, r->rank ? NULL : x.gpu, 0,
				       TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	SUCCEEDS(tutti_cuda_barrier(comm, r->stream));
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(tutti_cuda_deregister(window));
	return 0;
}

GPU_JOB(window_of_one_rank_is_told, .reaches = true)
{
	tutti_cuda_window_t window;
	struct vector x, y;
	const size_t n = 600000; /* shorter vectors have no use for windows */

	TRY(take(comm, &y, n) || take(comm, &x, n) || ready(comm) || put(r, x, 1));
	meet_at(came, r->size);
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, n * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, r->rank == 1 ? y.gpu : x.gpu, x.gpu, n, TUTTI_FLOAT32,
				       TUTTI_SUM, r->stream));
	return told(r, x, TUTTI_ERR_MISMATCH, "all_reduce(float32 × ");
}

/* The last rank is killed before its stream has come to the operation, which has windows. */
GPU_JOB(killed_rank_with_windows_is_told, .reaches = true, .kills = true)
{
	const int victim = r->size - 1;
	tutti_cuda_window_t window;
	struct vector x;

	TRY(take(comm, &x, few) || ready(comm) || put(r, x, 1));
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	if (r->rank == victim) {
		WORKS(gpu_finish(r->stream));
		await_count(came, r->size - 1);
		raise(SIGKILL);
	}
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	atomic_fetch_add(came, 1);
	return told(r, x, TUTTI_ERR_PEER_LOST, "rank");
}

/* All inputs are summed up; `direct`: kernels have read and written them where they are. */
static int sum_up(struct gpu_rank *r, struct vector in, struct vector out, atomic_int *came,
		  int meetings, bool direct)
{
	const unsigned before = counted("standin_tolds", 0, 0);
	tutti_comm_t comm = r->comm;

	TRY(put(r, in, (float)r->rank));
	meet_at(came, meetings * r->size); /* with what was counted before */
	SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	TRY(expect_sum(r, out));
	meet_at(came, (meetings + 1) * r->size);
	const unsigned used = counted("standin_tolds", 0, 0) - before;
	CLAIM(!getenv("TUTTI_CUDA_LIBRARY") || (used > 0) == direct,
	      "%u addresses of other ranks were found", used);
	return 0;
}

static atomic_int warnings;

static void count_warnings(tutti_log_level_t level, const char *subsystem, const char *line,
			   void *context)
{
	atomic_fetch_add(&warnings, strstr(line, "other GPUs have no access to") != NULL);
}

/* Threads need no windows, but for memory that another one's GPU does not reach: then nobody goes
 * directly, and that is said once. Where they share a GPU, their kernels take half of its 8 multiprocessors at most. */
GPU_JOB(threads_go_directly, .reaches = true)
{
	const bool one_gpu = gpu_job_threads && !getenv("TEST_GPUS");
	const size_t n = 200000;
	struct vector in, out, segments;

	TRY(take(comm, &in, n) || take(comm, &out, n) || take_segments(comm, &segments, n) ||
	    ready(comm));
	tutti_log_set_sink(count_warnings, NULL);
	TRY(sum_up(r, in, out, came, 1, gpu_job_threads));
	for (int turn = 1; turn <= 2; turn++)
		TRY(sum_up(r, r->rank == 1 ? segments : in, out, came, 1 + 2 * turn, one_gpu));
	CLAIM(atomic_load(&warnings) == (gpu_job_threads && !one_gpu), "%d warnings",
	      atomic_load(&warnings));
	const unsigned blocks = counted("standin_blocks", 0, 0);
	CLAIM(!one_gpu || blocks * 2 * (unsigned)r->size <= 8, "a kernel has had %u blocks",
	      blocks);
	return 0;
}

/* Rank 0 overwrites what the others are to read of it: nobody reads it there. */
GPU_JOB(one_rank_may_be_in_place, .reaches = true)
{
	const size_t n = 16000, size = (size_t)r->size;
	const unsigned before = counted("standin_tolds", 0, 0);
	struct vector in, out;

	TRY(take(comm, &in, n * size) || take(comm, &out, n * size) || ready(comm));
	for (size_t to = 0; to < size; to++)
		TRY(put(r, part(in, to * n, n), (float)(100 * r->rank) + (float)to));
	if (r->rank == 0)
		out = in;
	SUCCEEDS(tutti_cuda_all_to_all(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	for (size_t from = 0; from < size; from++)
		TRY(expect(r, part(out, from * n, n), (float)(100 * from) + (float)r->rank, 1));
	const unsigned used = counted("standin_tolds", 0, 0) - before;
	CLAIM(used == 0, "%u addresses of other ranks were found", used);
	return 0;
}

/* On rank `victim` a function of CUDA's fails while ranks map each other's segments: all learn of it at
 * once, and why. */
static int fail_to_map(struct gpu_rank *r, void *memory, size_t bytes, int victim,
		       const char *function, const char *words)
{
	tutti_comm_t comm = r->comm;
	tutti_cuda_window_t window;

	if (r->rank == victim)
		setenv("STANDIN_FAILS", function, 1);
	REFUSED(tutti_cuda_register(comm, memory, bytes, &window), TUTTI_ERR_SYSTEM, words);
	setenv("STANDIN_FAILS", "", 1);
	return 0;
}

/* All must be mapped; and where one rank cannot map another one's, nothing is lost. */
GPU_JOB(segments_are_registered_whole, .reaches = true, .stands_in = true)
{
	const size_t bytes = (size_t)2 << 20;
	tutti_cuda_window_t window;
	char *x = gpu_alloc_segments(bytes);

	WORKS(x);
	REFUSED(tutti_cuda_register(comm, x, 3 * bytes, &window), TUTTI_ERR_INVALID, "are mapped");
	for (int victim = 0; victim < r->size; victim++)
		TRY(fail_to_map(r, x, bytes, victim, "cuMemMap", "map a segment of another") ||
		    fail_to_map(r, x, bytes, victim, "cuMemSetAccess", "get access to another") ||
		    fail_to_map(r, x, bytes, victim, "cuMemExportToShareableHandle",
				"make a descriptor of a segment"));
	SUCCEEDS(tutti_cuda_register(comm, x, bytes, &window));
	SUCCEEDS(tutti_cuda_deregister(window));
	WORKS(gpu_free_segments(x, bytes));
	return 0;
}

/* On rank 0 one step fails where that is wanted: all go without the switch. */
static int go_by_the_switch(struct gpu_rank *r, struct vector x, const char *failing, bool there)
{
	const size_t bytes = x.n * sizeof(float);
	const unsigned before = counted("standin_multimems", 0, 0);
	tutti_comm_t comm = r->comm;
	tutti_cuda_window_t window;

	if (failing && r->rank == 0)
		setenv("STANDIN_FAILS", failing, 1);
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, bytes, &window));
	setenv("STANDIN_FAILS", "", 1);
	TRY(put(r, x, (float)r->rank));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, x.n, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	TRY(expect_sum(r, x));
	const unsigned used = counted("standin_multimems", 0, 0) - before;
	CLAIM((used > 0) == there, "%u loads and stores by a switch, %s failing", used,
	      failing ? failing : "nothing");
	SUCCEEDS(tutti_cuda_deregister(window));
	return 0;
}

/* Where a switch joins the ranks' GPUs, it adds up what they have in segments, and hands on the sum. */
GPU_JOB(windows_go_by_the_switch, .reaches = true, .stands_in = true)
{
	static const char *const steps[] = { "cuMulticastCreate", "cuMulticastAddDevice",
					     "cuMulticastBindAddr" };
	struct vector x;

	TRY(take_segments(comm, &x, 60000) ||
	    go_by_the_switch(r, x, NULL, getenv("STANDIN_MULTICAST") && getenv("TEST_GPUS")));
	for (int i = 0; i < 3; i++)
		TRY(go_by_the_switch(r, x, steps[i], false));
	return 0;
}
