/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives, sends and receives with buffers on GPUs, in managed memory and on the host, in
 * any mixture: each gives what tests/calls expects of it, to the last byte of the buffers, gaps
 * between blocks included. And what comes of CUDA's errors.
 *
 *   test_plain processes|threads RANKS [NAME=VALUE …]
 *
 * TUTTI_CUDA_LIBRARY names the stand-in, whose errors are tried as well. Without it the GPUs of
 * this machine are used. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/cuda.h>
#include <tutti/window.h>

#include "gpu_job.h"
#include "kinds.h"
#include "plain_calls.h"
#include "thread_ranks.h"

static void fill(int32_t *to, int rank, int buffer, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (int32_t)((i * 31 + (size_t)rank * 1009 + (size_t)buffer * 77777) % 100003);
}

/* ---- several threads of a rank */

#define N	3000
#define HELPERS 3
#define SMALL	8 /* elements of a short all-reduce */

struct helper {
	pthread_t thread;
	tutti_comm_t comm;
	int distance, failed;
};

/* Each pair's messages belong to one thread of each. What lies behind a short one stays. */
static int swap(tutti_comm_t comm, int distance)
{
	const int size = tutti_comm_size(comm), me = tutti_comm_rank(comm);
	const int to = (me + distance) % size, from = (me + size - distance) % size;
	int32_t *out = kind_alloc(ON_GPU_0, N * 4), *in = kind_alloc(ON_GPU_1, N * 4), sent[N],
		expected[N], found[N];

	kind_copy(ON_GPU_1, expected, in, N * 4);
	for (int round = 0; round < 20; round++) {
		const size_t n = (size_t)(round % 2 ? N : 10);
		tutti_message_t message = { .size = sizeof(message) };
		tutti_request_t request;

		fill(sent, me, round, n);
		fill(expected, from, round, n);
		kind_copy(ON_GPU_0, out, sent, n * 4);
		SUCCEEDS(tutti_send(comm, out, n, TUTTI_INT32, to, &request));
		SUCCEEDS(tutti_recv_tagged(comm, in, N, TUTTI_INT32, from, 0, &message, NULL));
		SUCCEEDS(tutti_wait(&request));
		kind_copy(ON_GPU_1, found, in, N * 4);
		CLAIM(message.count == n && memcmp(found, expected, N * 4) == 0,
		      "distance %d, round %d: another message came", distance, round);
	}
	kind_free(ON_GPU_0, out);
	kind_free(ON_GPU_1, in);
	return 0;
}

static void *help(void *argument)
{
	struct helper *helper = argument;

	helper->failed = swap(helper->comm, helper->distance);
	return NULL;
}

static int threads_share(tutti_comm_t comm)
{
	const int size = tutti_comm_size(comm), n = size - 1 < HELPERS ? size - 1 : HELPERS;
	struct helper helpers[HELPERS];
	int32_t *sum = kind_alloc(IS_MANAGED, N * 4);
	int failed = 0;

	for (int i = 0; i < n; i++) {
		helpers[i] = (struct helper){ .comm = comm, .distance = i + 1 };
		CLAIM(pthread_create(&helpers[i].thread, NULL, help, &helpers[i]) == 0,
		      "cannot start a thread");
	}
	for (int round = 0; round < 20; round++) {
		int32_t one = 1 + round, first;

		kind_copy(IS_MANAGED, sum + round, &one, 4);
		SUCCEEDS(tutti_all_reduce(comm, sum + round, sum + round, 1, TUTTI_INT32, TUTTI_SUM,
					  NULL));
		kind_copy(IS_MANAGED, &first, sum + round, 4);
		CLAIM(first == size * (1 + round), "round %d: %d", round, first);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(helpers[i].thread, NULL);
		failed |= helpers[i].failed;
	}
	kind_free(IS_MANAGED, sum);
	return failed;
}

/* ---- what else is claimed */

struct pair {
	int32_t *gpu, host[N];
};

/* Each is its place, so many times. */
static int are_sums(tutti_comm_t comm, const int32_t *numbers, int n, int times)
{
	for (int k = 0; k < n; k++)
		CLAIM(numbers[k] == k * times, "element %d is %d", k, numbers[k]);
	return 0;
}

static int sums(tutti_comm_t comm, struct pair *pair, int times)
{
	for (int i = 0; i < times; i++) {
		for (int k = 0; k < N; k++)
			pair->host[k] = k;
		kind_copy(ON_GPU_0, pair->gpu, pair->host, sizeof(pair->host));
		SUCCEEDS(tutti_all_reduce(comm, pair->gpu, pair->gpu, N, TUTTI_INT32, TUTTI_SUM,
					  NULL));
		kind_copy(ON_GPU_0, pair->host, pair->gpu, sizeof(pair->host));
		TRY(are_sums(comm, pair->host, N, tutti_comm_size(comm)));
	}
	return 0;
}

/* Pinned memory, streams and contexts that a communicator has are used again. */
static int nothing_new_is_needed(tutti_comm_t comm, void *argument)
{
	struct pair pair = { .gpu = kind_alloc(ON_GPU_0, sizeof(pair.host)) };

	int failed = sums(comm, &pair, 1);
	setenv("STANDIN_FAILS",
	       "cuMemHostAlloc,cuStreamCreate,cuDevicePrimaryCtxRetain,cuMemFreeHost", 1);
	failed = failed || sums(comm, &pair, 20);
	setenv("STANDIN_FAILS", "", 1);
	kind_free(ON_GPU_0, pair.gpu);
	return failed;
}

/* Who destroys a communicator leaves what was to come where it is. */
static int requests_may_be_left(tutti_comm_t comm, void *argument)
{
	int32_t *gpu = kind_alloc(ON_GPU_0, 4096);
	tutti_request_t requests[2] = { NULL };

	if (tutti_comm_rank(comm) == 0) {
		SUCCEEDS(tutti_recv(comm, gpu, 10, TUTTI_INT32, 1, &requests[0]));
		SUCCEEDS(tutti_recv(comm, gpu + 100, 10, TUTTI_INT32, 1, &requests[1]));
	}
	meet_at(argument, tutti_comm_size(comm));
	return 0; /* the memory outlives the communicator */
}

static tutti_result_t start_group(tutti_comm_t comm, int32_t *gpu, tutti_request_t *request)
{
	tutti_result_t result = tutti_group_begin(comm);

	for (int i = 0; i < 2 && !result; i++) /* they travel as one */
		result = tutti_all_reduce(comm, gpu + i * SMALL, gpu + i * SMALL, SMALL,
					  TUTTI_INT32, TUTTI_SUM, NULL);
	return result ? result : tutti_group_end(comm, request);
}

/* Requests of the parent end in a child, and the child frees what it has of the communicator,
 * without CUDA and its memory. */
static int children_free_their_copies(tutti_comm_t comm, void *argument)
{
	struct pair pair = { .gpu = kind_alloc(ON_GPU_0, sizeof(pair.host)) };
	atomic_int *const children = argument;
	const int size = tutti_comm_size(comm), me = tutti_comm_rank(comm);
	tutti_request_t request;
	int status = 0;

	TRY(sums(comm, &pair, 1));
	if (me > 0)
		await_count(children, 1);
	SUCCEEDS(start_group(comm, pair.gpu, &request));
	const pid_t child = fork();
	if (child == 0) {
		const bool refused = tutti_test(&request) == TUTTI_ERR_INVALID && !request;

		tutti_comm_destroy(comm);
		_exit(!refused);
	}
	const bool ended = waitpid(child, &status, 0) == child;

	atomic_fetch_add(children, 1);
	CLAIM(ended && status == 0, "the child ended with %d", status);
	SUCCEEDS(tutti_wait(&request));
	kind_copy(ON_GPU_0, pair.host, pair.gpu, sizeof(pair.host));
	TRY(are_sums(comm, pair.host, 2 * SMALL, size * size));
	kind_free(ON_GPU_0, pair.gpu);
	return 0;
}

static atomic_int lines;

static void count_lines(tutti_log_level_t level, const char *subsystem, const char *line,
			void *context)
{
	if (level <= TUTTI_LOG_INFO && strcmp(subsystem, "cuda") == 0)
		atomic_fetch_add(&lines, 1);
}

/* A driver that is loaded and was not started, or has no GPU, or says of pointers that it does
 * not know them, is no reason to complain. */
static int memory_of_the_host_works(tutti_comm_t comm, void *argument)
{
	int32_t in[N], out[N];

	tutti_log_set_sink(count_lines, NULL);
	for (int k = 0; k < N; k++)
		in[k] = k;
	for (int i = 0; i < 3; i++) {
		SUCCEEDS(tutti_all_reduce(comm, in, out, N, TUTTI_INT32, TUTTI_SUM, NULL));
		TRY(are_sums(comm, out, N, tutti_comm_size(comm)));
	}
	CLAIM(atomic_load(&lines) == 0, "%d lines of log", atomic_load(&lines));
	CLAIM(strcmp(tutti_last_error(NULL), "") == 0, "%s", tutti_last_error(NULL));
	tutti_log_set_sink(NULL, NULL);
	return 0;
}

static int loaded_but_not_started(int rank, void *argument)
{
	return !gpu_load() || run_launched(memory_of_the_host_works, argument);
}

static int started_without_gpus(int rank, void *argument)
{
	return !gpu_load() || gpu_open() || !strstr(gpu_error(), "(CUDA's error 100)") ||
	       run_launched(memory_of_the_host_works, argument);
}

static void ignore(const tutti_cuda_device_t *device, void *context)
{
}

static int found_late(tutti_comm_t comm, void *argument)
{
	struct pair pair;

	CLAIM(gpu_open(), "%s", gpu_error());
	SUCCEEDS(tutti_cuda_devices(ignore, NULL));
	pair.gpu = kind_alloc(ON_GPU_0, sizeof(pair.host));
	const int failed = sums(comm, &pair, 1);
	kind_free(ON_GPU_0, pair.gpu);
	return failed;
}

/* ---- errors */

struct failure {
	const char *fails, *error;
	tutti_result_t result;
	const char *says; /* on all ranks */
};

static const struct failure failures[] = {
	{ "cuPointerGetAttributes", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: ask whose memory a buffer is: unknown error (CUDA_ERROR_UNKNOWN, 999)" },
	{ "cuDeviceGet", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: make a stream for copies from and to GPU 0: unknown error" },
	{ "cuDevicePrimaryCtxRetain", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: make a stream for copies from and to GPU 0: unknown error" },
	{ "cuCtxPushCurrent_v2", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: make a stream for copies from and to GPU 0: unknown error" },
	{ "cuStreamCreate", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: make a stream for copies from and to GPU 0: unknown error" },
	{ "cuCtxPushCurrent_v2:2", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: copy 12000 bytes of input from GPU 0: unknown error" },
	{ "cuMemcpyAsync", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: copy 12000 bytes of input from GPU 0: unknown error" },
	{ "cuStreamSynchronize", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: copy 12000 bytes of input from GPU 0: unknown error" },
	{ "cuMemcpyAsync:2", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: copy 12000 bytes of output to GPU 0: unknown error" },
	{ "cuStreamSynchronize:2", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: copy 12000 bytes of output to GPU 0: unknown error" },
};

struct failing {
	const struct failure *failure;
	enum way way;
	atomic_int *joined; /* ranks */
};

static int all_learn_why(tutti_comm_t comm, void *argument)
{
	const struct failing *failing = argument;
	const struct failure *failure = failing->failure;
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const bool copies_out = strchr(failure->fails, ':') != NULL;
	int32_t *send = kind_alloc(ON_GPU_0, N * 4), *recv = kind_alloc(ON_GPU_0, N * 4), host[N];

	fill(host, rank, 0, N);
	kind_copy(ON_GPU_0, send, host, sizeof(host));
	kind_copy(ON_GPU_0, recv, host, sizeof(host));
	meet_at(failing->joined, size);
	if (rank == 1) {
		setenv("STANDIN_ERROR", failure->error, 1);
		setenv("STANDIN_FAILS", failure->fails, 1);
	}
	const void *context = gpu_current();
	tutti_result_t result = make_sum(comm, failing->way, N, send, recv);
	setenv("STANDIN_FAILS", "", 1);
	while (!result && rank != 1) /* the others' part may have been done */
		result = make_sum(comm, failing->way, N, send, recv);
	CLAIM(result == failure->result && strstr(tutti_last_error(comm), failure->says),
	      "%s: %d (%s), expected %d (%s)", failure->fails, result, tutti_last_error(comm),
	      failure->result, failure->says);
	CLAIM(gpu_current() == context, "%s: the thread has another context", failure->fails);
	if (rank == 1 && strcmp(failure->fails, "cuStreamSynchronize:2") != 0) {
		int32_t found[N];

		kind_copy(ON_GPU_0, found, recv, sizeof(found));
		CLAIM(memcmp(found, host, sizeof(host)) == 0, "%s: something was copied out",
		      failure->fails);
	}
	CLAIM(copies_out || make_sum(comm, BLOCKING, N, send, recv) == failure->result,
	      "%s: the communicator goes on", failure->fails);
	kind_free(ON_GPU_0, send);
	kind_free(ON_GPU_0, recv);
	return 0;
}

/* A fault of another rank ends a call: nothing is copied out. */
static int faults_copy_nothing(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	int32_t *send = kind_alloc(ON_GPU_1, N * 4), *recv = kind_alloc(ON_GPU_1, N * 4), host[N],
		found[N];

	fill(host, rank, 0, N);
	kind_copy(ON_GPU_1, recv, host, sizeof(host));
	meet_at(argument, size);
	if (rank == size - 1) {
		SUCCEEDS(tutti_comm_abort(comm, "enough of it"));
		return 0;
	}
	CLAIM(make_sum(comm, (enum way)(rank % WAYS), N, send, recv) == TUTTI_ERR_ABORTED,
	      "not aborted");
	kind_copy(ON_GPU_1, found, recv, sizeof(found));
	CLAIM(memcmp(found, host, sizeof(host)) == 0, "something was copied out");
	return 0;
}

/* What is wrong is said as with memory of the host, and the communicator is as before. */
static int wrong_arguments_are_refused(tutti_comm_t comm, void *argument)
{
	struct pair pair = { .gpu = kind_alloc(ON_GPU_0, sizeof(pair.host)) };
	const size_t counts[RANKS_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	REFUSED(tutti_all_reduce(comm, pair.gpu, pair.gpu, N, TUTTI_INT32, 77, NULL),
		TUTTI_ERR_INVALID, "op");
	REFUSED(tutti_all_reduce(comm, pair.gpu, NULL, N, TUTTI_INT32, TUTTI_SUM, NULL),
		TUTTI_ERR_INVALID, "recv");
	REFUSED(tutti_all_to_all_v(comm, pair.gpu, counts, NULL, pair.gpu, counts, NULL,
				   TUTTI_INT32, NULL),
		TUTTI_ERR_INVALID, "it cannot work in place");
	REFUSED(tutti_send(comm, pair.gpu, 1, TUTTI_INT32, tutti_comm_rank(comm), NULL),
		TUTTI_ERR_INVALID, "");
	const int failed = sums(comm, &pair, 1);
	kind_free(ON_GPU_0, pair.gpu);
	return failed;
}

/* ---- one-sided calls */

/* What is put, and where a get writes, may be on a GPU; a window may not. */
static int one_sided(tutti_comm_t comm)
{
	const int size = tutti_comm_size(comm), me = tutti_comm_rank(comm);
	const int to = (me + 1) % size, from = (me + size - 1) % size;
	int32_t *gpu = kind_alloc(ON_GPU_0, N * 4), sent[N], expected[N], found[N];
	void *memory = NULL;
	tutti_window_t window;

	fill(sent, me, 1, N);
	fill(expected, from, 1, N);
	kind_copy(ON_GPU_0, gpu, sent, N * 4);
	CLAIM(tutti_window_create(comm, gpu, N * 4, 1, &window) == TUTTI_ERR_UNSUPPORTED,
	      "a window on a GPU");
	SUCCEEDS(tutti_mem_alloc(N * 4, &memory));
	SUCCEEDS(tutti_window_create(comm, memory, N * 4, 1, &window));
	SUCCEEDS(tutti_put_signal(window, gpu, N * 4, to, 0, 0, 1, NULL));
	SUCCEEDS(tutti_wait_signal(window, 0, 1, NULL, NULL));
	CLAIM(memcmp(memory, expected, N * 4) == 0, "what rank %d put is not there", from);
	SUCCEEDS(tutti_get(window, gpu, N * 4, me, 0, NULL));
	kind_copy(ON_GPU_0, found, gpu, N * 4);
	CLAIM(memcmp(found, expected, N * 4) == 0, "what was got is not what is there");
	SUCCEEDS(tutti_get(window, gpu, N * 4, to, 0, NULL));
	kind_copy(ON_GPU_0, found, gpu, N * 4);
	CLAIM(memcmp(found, sent, N * 4) == 0, "what was put to rank %d does not come back", to);
	SUCCEEDS(tutti_window_destroy(window));
	tutti_mem_free(memory);
	kind_free(ON_GPU_0, gpu);
	return 0;
}

/* ---- driving */

static int everything(tutti_comm_t comm, void *argument)
{
	return every_length(comm) || threads_share(comm) || one_sided(comm) ||
	       wrong_arguments_are_refused(comm, argument);
}

/* A rank that has CUDA before it has a communicator. */
static rank_body *body_to_run;

static int with_gpus(int rank, void *argument)
{
	if (!gpu_open()) {
		fprintf(stderr, "rank %d: %s\n", rank, gpu_error());
		return 1;
	}
	return run_launched(body_to_run, argument);
}

static int run_body(rank_body *body, void *argument)
{
	const struct job job = {
		.ranks = gpu_job_ranks, .whole = with_gpus, .argument = argument, .limit_s = 120
	};

	body_to_run = body;
	return run_job(&job);
}

static int run_whole(rank_whole *whole)
{
	const struct job job = { .ranks = gpu_job_ranks, .whole = whole };

	return run_job(&job);
}

static int run_failures(void)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		struct failing failing = { &failures[i], (enum way)(i % WAYS),
					   shared_memory(sizeof(atomic_int)) };

		failed += run_body(all_learn_why, &failing);
	}
	return failed;
}

static int as_processes(void)
{
	static rank_body *const bodies[] = { everything, nothing_new_is_needed,
					     requests_may_be_left, children_free_their_copies,
					     faults_copy_nothing };
	const struct job late = { .ranks = gpu_job_ranks, .body = found_late };
	int failed = run_job(&late) + run_whole(loaded_but_not_started);

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		failed += run_body(bodies[i], shared_memory(sizeof(atomic_int)));
	if (!getenv("TUTTI_CUDA_LIBRARY"))
		return failed;
	failed += run_failures();
	setenv("STANDIN_DEVICES", "0", 1);
	return failed + run_whole(started_without_gpus);
}

int main(int argc, char **argv)
{
	const int chosen = gpu_job_choose(argc, argv, 2, RANKS_MAX);

	if (chosen)
		return chosen;
	const int failed = gpu_job_threads ? !gpu_open() || run_thread_ranks(gpu_job_ranks, 1,
									     everything, NULL)
					   : as_processes();
	printf("%d ranks as %s: %s\n", gpu_job_ranks, argv[1],
	       failed ? "FAILED" : "buffers on GPUs give what buffers of the host give");
	return failed != 0;
}
