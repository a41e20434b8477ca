/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives, sends and receives with buffers on GPUs, in managed memory and on the host, in
 * any mixture: each gives what tests/calls expects of it, to the last byte of the buffers, gaps
 * between blocks included. And what comes of CUDA's errors.
 *
 *   test_plain RANKS processes|threads [NAME=VALUE …]
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

#include "calls/call.h"
#include "harness.h"
#include "kinds.h"
#include "thread_ranks.h"

#define RANKS_MAX  8
#define GAP	   3 /* elements between the blocks of tables */
#define FRINGE	   7 /* elements before and behind all that a call may touch */
#define SMALL	   8 /* elements of a short all-reduce */
#define CHUNK	   5 /* of a message in a group, or one more */
#define ALL_SMALL  3
#define CALLS_MAX  (ALL_SMALL + 1 + 2 * RANKS_MAX)
#define LARGEST	   8 /* bytes of an element */
#define OF_LENGTHS 4 /* bytes of an element of which there are so many: of larger ones, fewer */

static const size_t lengths[] = { 0, 1, 37, 5000, 100000 };
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* What is tried beside the collectives. */
enum { OWN_OPERATION = MESSAGE, SCALED, RING, MIXTURE, TRIALS };

/* Calls that are made as one: a call, or several in a group. */
struct trial {
	tutti_comm_t comm;
	int rank, size;
	unsigned turn;
	bool grouped;
	struct call calls[CALLS_MAX];
	int n;
};

static struct call *add_call(struct trial *t, enum what what, tutti_dtype_t dtype, int combine,
			     size_t n)
{
	struct call *c = &t->calls[t->n++];

	call_init(c, what, t->rank, t->size, dtype, combine, n);
	c->root = (int)(t->turn % (unsigned)t->size);
	c->salt = t->turn * CALLS_MAX;
	return c;
}

/* Between two ranks, or of one with itself. */
static void add_message(struct trial *t, tutti_dtype_t dtype, size_t n, int from, int to)
{
	struct call *c = add_call(t, MESSAGE, dtype, COMBINE_NONE, n);

	c->root = from;
	c->to = to;
	c->salt += (uint64_t)(from * RANKS_MAX + to);
}

static void add_swap(struct trial *t, tutti_dtype_t dtype, size_t n, int to, int from)
{
	add_message(t, dtype, n, t->rank, to);
	if (to != t->rank || from != t->rank)
		add_message(t, dtype, n, from, t->rank);
	t->grouped = true;
}

static void add_mixture(struct trial *t, tutti_dtype_t dtype, size_t n)
{
	for (int i = 0; i < ALL_SMALL; i++)
		add_call(t, ALL_REDUCE, dtype, TUTTI_SUM, SMALL);
	add_call(t, ALL_REDUCE, dtype, TUTTI_MAX, n);
	for (int peer = 0; peer < t->size; peer++)
		add_swap(t, dtype, CHUNK, peer, peer);
}

static void describe(struct trial *t, int what, tutti_dtype_t dtype, size_t n, bool in_place)
{
	t->n = 0;
	t->grouped = false;
	switch (what) {
	case OWN_OPERATION: add_call(t, ALL_REDUCE, dtype, COMBINE_COMPOSE, n); break;
	case SCALED: add_call(t, ALL_REDUCE, dtype, COMBINE_PREMUL, n); break;
	case RING:
		add_swap(t, dtype, n, (t->rank + 1) % t->size, (t->rank + t->size - 1) % t->size);
		break;
	case MIXTURE: add_mixture(t, dtype, n); break;
	default:
		call_set_uneven(add_call(t, (enum what)what, dtype, TUTTI_SUM, n));
		call_spread(&t->calls[0], GAP, true);
	}
	for (int i = 0; i < t->n; i++)
		t->calls[i].in_place = in_place;
}

/* ---- made in all ways */

enum way { BLOCKING, WAITED, TESTED, ANY, ALL, GROUPED, GROUP_WAITED, WAYS };

static tutti_result_t post(struct trial *t, bool grouped, tutti_request_t *request)
{
	tutti_result_t result;

	if (!grouped && !t->grouped)
		return call_post(t->comm, &t->calls[0], request);
	result = tutti_group_begin(t->comm);
	for (int i = 0; i < t->n && !result; i++)
		result = call_post(t->comm, &t->calls[i], NULL);
	return result ? result : tutti_group_end(t->comm, request);
}

static tutti_result_t make(struct trial *t, enum way way)
{
	tutti_request_t requests[2] = { NULL };
	size_t index;
	tutti_result_t result;

	if (way == BLOCKING || way == GROUPED)
		return post(t, way == GROUPED, NULL);
	result = post(t, way == GROUP_WAITED, &requests[1]);
	if (result)
		return result;
	if (way == ANY)
		return tutti_wait_any(requests, 2, &index);
	if (way == ALL)
		return tutti_wait_all(requests, 2);
	if (way != TESTED)
		return tutti_wait(&requests[1]);
	do
		result = tutti_test(&requests[1]);
	while (result == TUTTI_IN_PROGRESS);
	return result;
}

/* ---- with all kinds of memory */

/* A rank's buffers: one of each kind for each side, and what goes to them and comes back. */
struct memory {
	unsigned char *at[KINDS][2], *host[2];
};

/* What is sent is in memory of one kind, what comes in that of another. */
struct area {
	enum kind kind[2];
	unsigned char *at[2], *host[2];
	size_t used[2];
};

static size_t room_of(size_t n, size_t size)
{
	const size_t all = CALLS_MAX * (2 * FRINGE + SMALL + size) + (2 * GAP + size) * size;

	return LARGEST * all + OF_LENGTHS * (n + 1) * (size + 1);
}

static void place(struct area *area, int side, struct buffer *b)
{
	b->before = b->after = FRINGE * b->element;
	buffer_lie_at(b, area->host[side] + area->used[side]);
	area->used[side] += buffer_size(b);
}

static int prepare(struct trial *t, struct area *area)
{
	const tutti_comm_t comm = t->comm;

	for (int i = 0; i < t->n; i++) {
		struct call *c = &t->calls[i];
		const size_t send = area->used[0], recv = area->used[1];

		call_lay_out(c);
		if (c->in_place || call_sends(c))
			place(area, 0, &c->send);
		if (!c->in_place && call_receives(c))
			place(area, 1, &c->recv);
		call_fill(c);
		call_move(c, area->at[0] + send, area->at[1] + recv);
		if (call_combines(c->what) && c->op < 0)
			SUCCEEDS(call_make_op(comm, c));
	}
	for (int side = 0; side < 2; side++)
		kind_put(area->kind[side], area->at[side], area->host[side], area->used[side]);
	return 0;
}

static int check(struct trial *t, struct area *area)
{
	const tutti_comm_t comm = t->comm;
	char why[CALL_TEXT];

	for (int side = 0; side < 2; side++)
		kind_get(area->kind[side], area->host[side], area->at[side], area->used[side]);
	for (int i = 0; i < t->n; i++) {
		struct call *c = &t->calls[i];

		CLAIM(call_is_right(c, why), "memory %d to %d: %s", area->kind[0], area->kind[1],
		      why);
		call_finish(c);
		if (c->combine >= TUTTI_OP_COUNT)
			SUCCEEDS(tutti_op_destroy(comm, c->op));
	}
	return 0;
}

static int agrees(struct trial *t, struct area *area)
{
	const tutti_comm_t comm = t->comm;
	const enum way way = (enum way)((t->turn + (unsigned)t->rank) % WAYS);
	const bool has_context = t->turn % 3 != 0;

	if (prepare(t, area))
		return 1;
	const gpu_context_t before =
		has_context ? kind_enter(t->turn % 3 == 2 ? ON_GPU_1 : ON_GPU_0) : NULL;
	const void *context = gpu_current();
	const tutti_result_t result = make(t, way);
	CLAIM(result == TUTTI_OK, "%s of %zu, way %d, memory %d to %d: %s",
	      call_name(t->calls[0].what), t->calls[0].count, way, area->kind[0], area->kind[1],
	      tutti_last_error(comm));
	CLAIM(gpu_current() == context, "%s: the thread has another context",
	      call_name(t->calls[0].what));
	if (has_context)
		kind_leave(before);
	return check(t, area);
}

static int every_call(struct trial *t, const struct memory *memory, size_t n)
{
	for (int what = 0; what < TRIALS; what++)
		for (int in_place = 0; in_place < 2; in_place++, t->turn++) {
			/* every kind on every rank in the course of time, and all mixtures */
			const unsigned rank = (unsigned)t->rank;
			const enum kind first = (enum kind)((t->turn + rank) % KINDS);
			const enum kind second = (enum kind)((t->turn / KINDS + 2 * rank) % KINDS);
			struct area area = { { first, second },
					     { memory->at[first][0], memory->at[second][1] },
					     { memory->host[0], memory->host[1] },
					     { 0 } };
			const tutti_dtype_t dtype = (tutti_dtype_t)(t->turn % TUTTI_DTYPE_COUNT);
			const size_t fewer = n * OF_LENGTHS / tutti_dtype_size(dtype);

			describe(t, what, dtype, fewer < n ? fewer : n, in_place);
			if (agrees(t, &area))
				return 1;
		}
	return 0;
}

static int every_length(tutti_comm_t comm)
{
	struct trial *t = calloc(1, sizeof(*t));
	struct memory memory;
	int failed = 0;

	t->comm = comm;
	t->rank = tutti_comm_rank(comm);
	t->size = tutti_comm_size(comm);
	const size_t bytes = room_of(lengths[LENGTHS - 1], (size_t)t->size);
	for (int i = 0; i < 2; i++) {
		for (int kind = 0; kind < KINDS; kind++)
			memory.at[kind][i] = kind_alloc((enum kind)kind, bytes);
		memory.host[i] = malloc(bytes);
	}
	for (size_t i = 0; i < LENGTHS && !failed; i++)
		for (int round = 0; round < (lengths[i] < 5000 ? 8 : 2) && !failed; round++)
			failed = every_call(t, &memory, lengths[i]);
	for (int i = 0; i < 2; i++) {
		for (int kind = 0; kind < KINDS; kind++)
			kind_free((enum kind)kind, memory.at[kind][i]);
		free(memory.host[i]);
	}
	free(t);
	return failed;
}

/* ---- numbers, and sums of them in memory of the caller */

static void fill(int32_t *to, int rank, int buffer, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (int32_t)((i * 31 + (size_t)rank * 1009 + (size_t)buffer * 77777) % 100003);
}

static tutti_result_t make_sum(tutti_comm_t comm, enum way way, size_t n, int32_t *send,
			       int32_t *recv)
{
	struct trial *t = calloc(1, sizeof(*t));

	t->comm = comm;
	t->size = tutti_comm_size(comm);
	add_call(t, ALL_REDUCE, TUTTI_INT32, TUTTI_SUM, n);
	t->calls[0].send_at = send;
	t->calls[0].recv_at = recv;
	const tutti_result_t result = make(t, way);
	free(t);
	return result;
}

/* ---- several threads of a rank */

#define N	3000
#define HELPERS 3

struct helper {
	pthread_t thread;
	tutti_comm_t comm;
	int distance, failed;
};

/* Each pair's messages belong to one thread of each. */
static int swap(tutti_comm_t comm, int distance)
{
	const int size = tutti_comm_size(comm), me = tutti_comm_rank(comm);
	const int to = (me + distance) % size, from = (me + size - distance) % size;
	int32_t *out = kind_alloc(ON_GPU_0, N * 4), *in = kind_alloc(ON_GPU_1, N * 4), sent[N],
		expected[N], found[N];

	for (int round = 0; round < 20; round++) {
		const size_t n = (size_t)(round % 2 ? N : 10);
		tutti_request_t request;

		fill(sent, me, round, n);
		fill(expected, from, round, n);
		kind_put(ON_GPU_0, out, sent, n * 4);
		SUCCEEDS(tutti_send(comm, out, n, TUTTI_INT32, to, &request));
		SUCCEEDS(tutti_recv(comm, in, n, TUTTI_INT32, from, NULL));
		SUCCEEDS(tutti_wait(&request));
		kind_get(ON_GPU_1, found, in, n * 4);
		CLAIM(memcmp(found, expected, n * 4) == 0,
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

		kind_put(IS_MANAGED, sum + round, &one, 4);
		SUCCEEDS(tutti_all_reduce(comm, sum + round, sum + round, 1, TUTTI_INT32, TUTTI_SUM,
					  NULL));
		kind_get(IS_MANAGED, &first, sum + round, 4);
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

static int sums(tutti_comm_t comm, struct pair *pair, int times)
{
	for (int i = 0; i < times; i++) {
		for (int k = 0; k < N; k++)
			pair->host[k] = k;
		kind_put(ON_GPU_0, pair->gpu, pair->host, sizeof(pair->host));
		SUCCEEDS(tutti_all_reduce(comm, pair->gpu, pair->gpu, N, TUTTI_INT32, TUTTI_SUM,
					  NULL));
		kind_get(ON_GPU_0, pair->host, pair->gpu, sizeof(pair->host));
		for (int k = 0; k < N; k++)
			CLAIM(pair->host[k] == k * tutti_comm_size(comm), "element %d is %d", k,
			      pair->host[k]);
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
	unsetenv("STANDIN_FAILS");
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

	if (sums(comm, &pair, 1))
		return 1;
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
	kind_get(ON_GPU_0, pair.host, pair.gpu, sizeof(pair.host));
	for (int k = 0; k < 2 * SMALL; k++)
		CLAIM(pair.host[k] == k * size * size, "element %d is %d", k, pair.host[k]);
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
		for (int k = 0; k < N; k++)
			CLAIM(out[k] == k * tutti_comm_size(comm), "element %d is %d", k, out[k]);
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
	{ "cuMemHostAlloc", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: take 2097152 bytes of pinned memory of the host for copies from and to GPU 0: unknown error" },
	{ "cuMemHostAlloc", "2", TUTTI_ERR_NO_MEMORY,
	  "rank 1: no pinned memory of the host, 2097152 bytes, for copies from and to GPU 0" },
	{ "cuEventCreate", "999", TUTTI_ERR_SYSTEM,
	  "rank 1: make a stream for copies from and to GPU 0: unknown error" },
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
	kind_put(ON_GPU_0, send, host, sizeof(host));
	kind_put(ON_GPU_0, recv, host, sizeof(host));
	meet_at(failing->joined, size);
	if (rank == 1) {
		setenv("STANDIN_ERROR", failure->error, 1);
		setenv("STANDIN_FAILS", failure->fails, 1);
	}
	const void *context = gpu_current();
	tutti_result_t result = make_sum(comm, failing->way, N, send, recv);
	unsetenv("STANDIN_FAILS");
	while (!result && rank != 1) /* the others' part may have been done */
		result = make_sum(comm, failing->way, N, send, recv);
	CLAIM(result == failure->result && strstr(tutti_last_error(comm), failure->says),
	      "%s: %d (%s), expected %d (%s)", failure->fails, result, tutti_last_error(comm),
	      failure->result, failure->says);
	CLAIM(gpu_current() == context, "%s: the thread has another context", failure->fails);
	if (rank == 1 && strcmp(failure->fails, "cuStreamSynchronize:2") != 0) {
		int32_t found[N];

		kind_get(ON_GPU_0, found, recv, sizeof(found));
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
	kind_put(ON_GPU_1, recv, host, sizeof(host));
	meet_at(argument, size);
	if (rank == size - 1) {
		SUCCEEDS(tutti_comm_abort(comm, "enough of it"));
		return 0;
	}
	CLAIM(make_sum(comm, (enum way)(rank % WAYS), N, send, recv) == TUTTI_ERR_ABORTED,
	      "not aborted");
	kind_get(ON_GPU_1, found, recv, sizeof(found));
	CLAIM(memcmp(found, host, sizeof(host)) == 0, "something was copied out");
	return 0;
}

/* What is wrong is said as with memory of the host, and the communicator is as before. */
static int wrong_arguments_are_refused(tutti_comm_t comm, void *argument)
{
	struct pair pair = { .gpu = kind_alloc(ON_GPU_0, sizeof(pair.host)) };
	const size_t counts[RANKS_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	CLAIM(tutti_all_reduce(comm, pair.gpu, pair.gpu, N, TUTTI_INT32, 77, NULL) ==
		      TUTTI_ERR_INVALID,
	      "op 77");
	CLAIM(tutti_all_reduce(comm, pair.gpu, NULL, N, TUTTI_INT32, TUTTI_SUM, NULL) ==
		      TUTTI_ERR_INVALID,
	      "recv NULL");
	CLAIM(tutti_all_to_all_v(comm, pair.gpu, counts, NULL, pair.gpu, counts, NULL, TUTTI_INT32,
				 NULL) == TUTTI_ERR_INVALID,
	      "in place");
	CLAIM(strstr(tutti_last_error(NULL), "it cannot work in place"), "%s",
	      tutti_last_error(NULL));
	CLAIM(tutti_send(comm, pair.gpu, 1, TUTTI_INT32, tutti_comm_rank(comm), NULL) ==
		      TUTTI_ERR_INVALID,
	      "to oneself");
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
	kind_put(ON_GPU_0, gpu, sent, N * 4);
	CLAIM(tutti_window_create(comm, gpu, N * 4, 1, &window) == TUTTI_ERR_UNSUPPORTED,
	      "a window on a GPU");
	SUCCEEDS(tutti_mem_alloc(N * 4, &memory));
	SUCCEEDS(tutti_window_create(comm, memory, N * 4, 1, &window));
	SUCCEEDS(tutti_put_signal(window, gpu, N * 4, to, 0, 0, 1, NULL));
	SUCCEEDS(tutti_wait_signal(window, 0, 1, NULL, NULL));
	CLAIM(memcmp(memory, expected, N * 4) == 0, "what rank %d put is not there", from);
	SUCCEEDS(tutti_get(window, gpu, N * 4, me, 0, NULL));
	kind_get(ON_GPU_0, found, gpu, N * 4);
	CLAIM(memcmp(found, expected, N * 4) == 0, "what was got is not what is there");
	SUCCEEDS(tutti_get(window, gpu, N * 4, to, 0, NULL));
	kind_get(ON_GPU_0, found, gpu, N * 4);
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

/* Asked in a child, as CUDA that was started does not outlive a fork. */
static bool have_gpus(void)
{
	const pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(!gpu_open());
	return waitpid(child, &status, 0) == child && status == 0;
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

static int run_body(int ranks, rank_body *body, void *argument)
{
	const struct job job = {
		.ranks = ranks, .whole = with_gpus, .argument = argument, .limit_s = 120
	};

	body_to_run = body;
	return run_job(&job);
}

static int run_whole(int ranks, rank_whole *whole)
{
	const struct job job = { .ranks = ranks, .whole = whole };

	return run_job(&job);
}

static int run_failures(int ranks)
{
	atomic_int *const joined = shared_memory(sizeof(*joined));
	int failed = 0;

	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		struct failing failing = { &failures[i], (enum way)(i % WAYS), joined };

		atomic_store(joined, 0);
		failed += run_body(ranks, all_learn_why, &failing);
	}
	return failed;
}

static int as_processes(int ranks)
{
	const struct job late = { .ranks = ranks, .body = found_late };
	int failed =
		run_body(ranks, everything, NULL) + run_body(ranks, nothing_new_is_needed, NULL) +
		run_body(ranks, requests_may_be_left, shared_memory(sizeof(atomic_int))) +
		run_body(ranks, children_free_their_copies, shared_memory(sizeof(atomic_int))) +
		run_body(ranks, faults_copy_nothing, shared_memory(sizeof(atomic_int))) +
		run_job(&late) + run_whole(ranks, loaded_but_not_started);

	if (!getenv("TUTTI_CUDA_LIBRARY"))
		return failed;
	failed += run_failures(ranks);
	setenv("STANDIN_DEVICES", "0", 1);
	failed += run_whole(ranks, started_without_gpus);
	unsetenv("STANDIN_DEVICES");
	return failed;
}

int main(int argc, char **argv)
{
	const int ranks = argc > 2 ? atoi(argv[1]) : 0;
	const bool threads = argc > 2 && strcmp(argv[2], "threads") == 0;

	if (ranks < 2 || ranks > RANKS_MAX || (!threads && strcmp(argv[2], "processes") != 0)) {
		fprintf(stderr, "usage: %s RANKS(2…%d) processes|threads [NAME=VALUE …]\n", argv[0],
			RANKS_MAX);
		return 2;
	}
	for (int i = 3; i < argc; i++)
		putenv(argv[i]);
	if (!have_gpus()) {
		puts("CUDA's driver has no GPU for this process, and TUTTI_CUDA_LIBRARY names no stand-in");
		return 77;
	}
	const int failed = threads ? !gpu_open() || run_thread_ranks(ranks, 1, everything, NULL)
				   : as_processes(ranks);
	printf("%d ranks as %s: %s\n", ranks, argv[2],
	       failed ? "FAILED" : "buffers on GPUs give what buffers of the host give");
	return failed != 0;
}
