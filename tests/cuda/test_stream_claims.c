/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about operations on streams: graphs, order, long ones, wrong ones, and what ends a communicator while streams wait.
 *
 *   test_stream_claims processes|threads RANKS [NAME=VALUE …]
 *
 * TEST_RELAY=1: the ranks' GPUs do not all reach each other.
 * TEST_ELEMENTS=N (1000): in most calls; with TEST_RELAY=1, so many that those of an island work together first. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/cuda.h>

#include "gpu_job.h"

#define LONG ((size_t)10 << 20) /* floats: two segments and a bit of a stage */

#define WORKS(call) CLAIM((call), "%s: %s", #call, gpu_error())

static size_t few = 1000;

struct vector {
	float *host, *gpu;
	size_t n;
};

static int take(tutti_comm_t comm, struct vector *vector, size_t n)
{
	void *gpu;

	*vector = (struct vector){ .host = malloc(n * sizeof(float)), .n = n };
	SUCCEEDS(tutti_cuda_mem_alloc(n * sizeof(float), &gpu));
	vector->gpu = gpu;
	return 0;
}

static void give(struct vector *vector)
{
	free(vector->host);
	tutti_cuda_mem_free(vector->gpu);
}

/* All elements are `value`, and a bit of their place. */
static int put(struct gpu_rank *r, struct vector *vector, float value)
{
	tutti_comm_t comm = r->comm;

	for (size_t i = 0; i < vector->n; i++)
		vector->host[i] = value + (float)(i % 16);
	WORKS(gpu_copy(vector->gpu, vector->host, vector->n * sizeof(float), r->stream) && gpu_finish(r->stream));
	return 0;
}

static int expect(struct gpu_rank *r, struct vector *vector, float value, float of_place)
{
	tutti_comm_t comm = r->comm;

	WORKS(gpu_copy(vector->host, vector->gpu, vector->n * sizeof(float), r->stream) && gpu_finish(r->stream));
	for (size_t i = 0; i < vector->n; i++)
		CLAIM(vector->host[i] == value + of_place * (float)(i % 16), "element %zu is %g, expected %g", i, vector->host[i], value + of_place * (float)(i % 16));
	return 0;
}

static float sum_of_ranks(const struct gpu_rank *r)
{
	return (float)(r->size * (r->size - 1) / 2);
}

static bool by_host(void)
{
	return getenv("TEST_RELAY") != NULL;
}

static bool by_islands(void)
{
	return by_host() && few > 1000;
}

/* ---- what works */

static int graph_is_launched_again(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector in, out;

	if (take(comm, &in, few) || take(comm, &out, few))
		return 1;
	WORKS(gpu_capture(r->stream));
	for (int i = 0; i < 3; i++) /* an odd number of operations */
		SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	for (int turn = 0; turn < 5; turn++) {
		if (put(r, &in, (float)(r->rank + turn)))
			return 1;
		WORKS(gpu_launch(graph, r->stream));
		if (expect(r, &out, sum_of_ranks(r) + (float)(turn * r->size), (float)r->size))
			return 1;
		/* and one that is in no graph */
		SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_MAX, r->stream));
		if (expect(r, &out, (float)(r->size - 1 + turn), 1))
			return 1;
	}
	WORKS(gpu_graph_free(graph));
	give(&in);
	give(&out);
	return 0;
}

/* In several pieces, if they go in pieces, and nothing before it has made room for them. */
static int graph_has_long_ones_and_messages(struct gpu_rank *r, void *argument)
{
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	tutti_comm_t comm = r->comm;
	struct vector in, out, got;

	if (take(comm, &in, LONG) || take(comm, &out, LONG) || take(comm, &got, few))
		return 1;
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, LONG, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, next, r->stream));
	SUCCEEDS(tutti_cuda_recv(comm, got.gpu, few, TUTTI_FLOAT32, before, r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	for (int turn = 0; turn < 3; turn++) {
		if (put(r, &in, (float)(r->rank + turn)))
			return 1;
		WORKS(gpu_launch(graph, r->stream));
		if (turn == 1) /* at once once more */
			WORKS(gpu_launch(graph, r->stream));
		if (expect(r, &out, sum_of_ranks(r) + (float)(turn * r->size), (float)r->size) || expect(r, &got, (float)(before + turn), 1))
			return 1;
	}
	WORKS(gpu_graph_free(graph));
	give(&in);
	give(&out);
	give(&got);
	return 0;
}

/* x becomes the average of all x, again and again, by turns on two streams. */
static int streams_follow_each_other(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	gpu_stream_t streams[2] = { r->stream, gpu_stream() };
	struct vector x;

	CLAIM(streams[1], "%s", gpu_error());
	if (take(comm, &x, few) || put(r, &x, (float)r->rank))
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

/* No operation before it has made room for it. */
static int a_long_all_gather_may_come_first(struct gpu_rank *r, void *argument)
{
	const size_t n = LONG / 4 + 1;
	tutti_comm_t comm = r->comm;
	struct vector in, out;

	if (take(comm, &in, n) || take(comm, &out, n * (size_t)r->size) || put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	for (int rank = 0; rank < r->size; rank++) {
		struct vector block = { out.host + (size_t)rank * n, out.gpu + (size_t)rank * n, n };

		if (expect(r, &block, (float)rank, 1))
			return 1;
	}
	give(&in);
	give(&out);
	return 0;
}

static int long_ones_go_in_pieces(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct vector in, out;

	if (take(comm, &in, LONG) || take(comm, &out, LONG) || put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, LONG, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	if (expect(r, &out, sum_of_ranks(r), (float)r->size))
		return 1;
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_cuda_recv(comm, out.gpu, LONG, TUTTI_FLOAT32, before, r->stream));
	SUCCEEDS(tutti_cuda_send(comm, in.gpu, LONG, TUTTI_FLOAT32, next, r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	if (expect(r, &out, (float)before, 1))
		return 1;
	give(&in);
	give(&out);
	return 0;
}

static int groups_have_collectives_and_messages(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct vector in, sum, got, own;
	tutti_request_t request;

	if (take(comm, &in, few) || take(comm, &sum, few) || take(comm, &got, few) || take(comm, &own, few) || put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, next, r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, sum.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	SUCCEEDS(tutti_cuda_recv(comm, got.gpu, few, TUTTI_FLOAT32, before, r->stream));
	if (r->size > 1) {
		SUCCEEDS(tutti_cuda_recv(comm, own.gpu, few, TUTTI_FLOAT32, r->rank, r->stream));
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, r->rank, r->stream));
	}
	SUCCEEDS(tutti_group_end(comm, &request));
	SUCCEEDS(tutti_wait(&request));
	if (expect(r, &sum, sum_of_ranks(r), (float)r->size) || expect(r, &got, (float)before, 1) || (r->size > 1 && expect(r, &own, (float)r->rank, 1)))
		return 1;
	give(&in);
	give(&sum);
	give(&got);
	give(&own);
	return 0;
}

static int input_is_scaled(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const float scalar = (float)(r->rank + 2);
	struct vector in, out;
	tutti_op_t op;

	if (take(comm, &in, few * (size_t)r->size) || take(comm, &out, few) || put(r, &in, 1))
		return 1;
	SUCCEEDS(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, &op));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, op, r->stream));
	const float scalars = sum_of_ranks(r) + 2 * (float)r->size;
	if (expect(r, &out, scalars, scalars))
		return 1;
	SUCCEEDS(tutti_cuda_reduce_scatter(comm, in.gpu, out.gpu, few / 16 * 16, TUTTI_FLOAT32, op, r->stream));
	out.n = few / 16 * 16;
	if (expect(r, &out, scalars, scalars))
		return 1;
	SUCCEEDS(tutti_op_destroy(comm, op));
	give(&in);
	give(&out);
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

	if (take(comm, &in, few) || take(comm, &out, few) || put(r, &in, (float)r->rank))
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

/* ---- what is wrong */

static void add(void *acc, const void *in, size_t n, tutti_dtype_t dtype, void *context)
{
}

#define REFUSED(call, wanted, words)                                                                                                  \
	do {                                                                                                                          \
		const tutti_result_t refused = (call);                                                                                \
		CLAIM(refused == (wanted), "%s: %s, expected %s", #call, tutti_strerror(refused), tutti_strerror(wanted));            \
		CLAIM(strstr(tutti_last_error(NULL), words), "%s: \"%s\", expected \"%s\" in it", #call, tutti_last_error(NULL), words); \
	} while (0)

static int wrong_calls_are_refused(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm, other;
	struct vector in, out;
	gpu_stream_t second = gpu_stream();
	tutti_cuda_window_t window;
	tutti_op_t op;

	if (take(comm, &in, few) || take(comm, &out, few) || put(r, &in, (float)r->rank))
		return 1;
	REFUSED(tutti_cuda_all_reduce(comm, in.host, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream), TUTTI_ERR_INVALID, "send");
	REFUSED(tutti_cuda_all_reduce(comm, in.gpu, out.host, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream), TUTTI_ERR_INVALID, "is memory of the host");
	REFUSED(tutti_cuda_all_reduce(comm, in.gpu, NULL, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream), TUTTI_ERR_INVALID, "recv is NULL");
	REFUSED(tutti_cuda_all_reduce(comm, (char *)in.gpu + 1, out.gpu, 1, TUTTI_FLOAT32, TUTTI_SUM, r->stream), TUTTI_ERR_INVALID, "aligned to 4 bytes");
	REFUSED(tutti_cuda_broadcast(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, r->size, r->stream), TUTTI_ERR_INVALID, "tutti_cuda_broadcast: root");
	REFUSED(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, r->rank, r->stream), TUTTI_ERR_INVALID, "this rank itself");
	REFUSED(tutti_cuda_all_reduce(NULL, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream), TUTTI_ERR_INVALID, "tutti_cuda_all_reduce: comm is NULL");
	REFUSED(tutti_cuda_bind(comm, r->device), TUTTI_ERR_INVALID, "is bound to GPU");
	REFUSED(tutti_cuda_register(comm, NULL, 8, &window), TUTTI_ERR_INVALID, "expected memory of the GPU");
	REFUSED(tutti_cuda_register(comm, in.host, 8, &window), TUTTI_ERR_INVALID, "is no memory of GPU");
	SUCCEEDS(tutti_op_create(comm, add, true, NULL, &op));
	REFUSED(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, op, r->stream), TUTTI_ERR_UNSUPPORTED, "run on the host only");
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &other));
	REFUSED(tutti_cuda_all_reduce(other, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream), TUTTI_ERR_INVALID, "tutti_cuda_bind() first");
	REFUSED(tutti_cuda_bind(other, 99), TUTTI_ERR_INVALID, "device 99, expected -1 or 0 to");
	SUCCEEDS(tutti_group_begin(other));
	REFUSED(tutti_cuda_bind(other, r->device), TUTTI_ERR_INVALID, "has a group open");
	SUCCEEDS(tutti_group_end(other, NULL));
	tutti_comm_destroy(other);
	if (r->size > 1) {
		SUCCEEDS(tutti_group_begin(comm));
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, (r->rank + 1) % r->size, r->stream));
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, (r->rank + 1) % r->size, second));
		REFUSED(tutti_group_end(comm, NULL), TUTTI_ERR_INVALID, "on two streams");
	}
	/* and the communicator is as before */
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	if (expect(r, &out, sum_of_ranks(r), (float)r->size))
		return 1;
	WORKS(gpu_stream_free(second));
	give(&in);
	give(&out);
	return 0;
}

/* The stream ends, although others will never come; the fault is told, and by every call from now on. */
static int told(struct gpu_rank *r, struct vector *x, tutti_result_t wanted, const char *words)
{
	tutti_comm_t comm = r->comm;
	tutti_result_t found;

	WORKS(gpu_finish(r->stream));
	while ((found = tutti_comm_error(comm, NULL)) == TUTTI_OK)
		;
	CLAIM(found == wanted, "%s (%s), expected %s", tutti_strerror(found), tutti_last_error(comm), tutti_strerror(wanted));
	CLAIM(strstr(tutti_last_error(comm), words), "\"%s\", expected \"%s\" in it", tutti_last_error(comm), words);
	found = tutti_cuda_all_reduce(comm, x->gpu, x->gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream);
	CLAIM(found == wanted, "the next call gives %s, expected %s", tutti_strerror(found), tutti_strerror(wanted));
	WORKS(gpu_finish(r->stream));
	give(x);
	return 0;
}

/* All ranks are here before one of them does what ends the communicator: none is still in tutti_cuda_bind(). */
static int begin(struct gpu_rank *r, struct vector *x, atomic_int *came)
{
	if (take(r->comm, x, few) || put(r, x, 1))
		return 1;
	meet_at(came, r->size);
	return 0;
}

/* Some ranks' second call has so many elements fewer, and another operation. */
static int mismatch_of(struct gpu_rank *r, size_t fewer, tutti_op_t op, atomic_int *came)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, came))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few - fewer, TUTTI_FLOAT32, op, r->stream));
	/* further ones wait for what never comes; the fault may be known already */
	for (int i = 0; i < 5; i++)
		tutti_cuda_barrier(comm, r->stream);
	return told(r, &x, TUTTI_ERR_MISMATCH, "called all_reduce(float32 × ");
}

static int mismatch_is_told(struct gpu_rank *r, void *argument)
{
	return mismatch_of(r, r->rank == 1, TUTTI_SUM, argument);
}

/* Of two islands, in turn, each agrees. */
static int mismatch_of_two_parties_is_told(struct gpu_rank *r, void *argument)
{
	return mismatch_of(r, r->rank % 2 == 1, TUTTI_SUM, argument);
}

/* What they would send each other is the same. */
static int sum_and_average_of_two_parties_is_told(struct gpu_rank *r, void *argument)
{
	return mismatch_of(r, 0, r->rank % 2 == 1 ? TUTTI_AVG : TUTTI_SUM, argument);
}

/* A pre-multiplied sum is no sum. */
static int other_operation_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const float one = 1;
	struct vector x;
	tutti_op_t op;

	if (r->size == 1)
		return 0;
	SUCCEEDS(tutti_op_create_premul_sum(comm, &one, TUTTI_FLOAT32, &op));
	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, 10, TUTTI_FLOAT32, r->rank == 1 ? op : TUTTI_SUM, r->stream));
	return told(r, &x, TUTTI_ERR_MISMATCH, "called all_reduce(float32 × 10, sum)");
}

static int other_message_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	if (r->rank == 0)
		SUCCEEDS(tutti_cuda_send(comm, x.gpu, 10, TUTTI_FLOAT32, 1, r->stream));
	if (r->rank == 1)
		SUCCEEDS(tutti_cuda_recv(comm, x.gpu, 11, TUTTI_FLOAT32, 0, r->stream));
	return told(r, &x, TUTTI_ERR_MISMATCH, "float32 × 10");
}

static int window_of_one_rank_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	tutti_cuda_window_t window;
	struct vector x, y;

	if (r->size == 1)
		return 0;
	if (take(comm, &y, few) || begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, r->rank == 1 ? y.gpu : x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	give(&y);
	return told(r, &x, TUTTI_ERR_MISMATCH, "all_reduce(float32 × ");
}

static int absent_rank_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int absent = r->size - 1;
	char words[32];
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	snprintf(words, sizeof(words), by_host() && !by_islands() ? "rank %d is alive" : "for rank %d,", absent);
	if (r->rank != absent)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	return told(r, &x, TUTTI_ERR_TIMEOUT, words);
}

/* The queue is short: whoever puts an operation there comes back from CUDA only when others have come, or the stream was let go on. */
static int absent_rank_is_told_to_who_is_kept_in_cuda(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x, longer;

	if (r->size == 1)
		return 0;
	if (take(comm, &longer, LONG) || begin(r, &x, argument))
		return 1;
	WORKS(gpu_finish(r->stream));
	setenv("STANDIN_QUEUE", "4", 1);
	if (r->rank != r->size - 1)
		tutti_cuda_all_reduce(comm, longer.gpu, longer.gpu, LONG, TUTTI_FLOAT32, TUTTI_SUM, r->stream);
	const int failed = told(r, &x, TUTTI_ERR_TIMEOUT, "");
	give(&longer);
	return failed;
}

/* Longer than the deadline, which is for waiting. */
static int a_rank_alone_may_rest(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = NULL;
	struct vector x;

	SUCCEEDS(tutti_comm_split(r->comm, r->rank, 0, &comm));
	SUCCEEDS(tutti_cuda_bind(comm, r->device));
	if (take(comm, &x, few) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	WORKS(gpu_finish(r->stream));
	for (const double end = seconds_now() + 1.5; seconds_now() < end;) /* TUTTI_TIMEOUT is 1 */
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	if (expect(r, &x, 1, 1))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	tutti_comm_destroy(comm);
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
		tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream); /* the abort may have come */
	return told(r, &x, TUTTI_ERR_ABORTED, "for the test");
}

/* The last rank is killed while the others' streams, and a graph's, wait for it. */
static int killed_rank_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int victim = r->size - 1;
	atomic_int *posted = argument;
	struct vector x;

	if (take(comm, &x, few) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	WORKS(gpu_capture(r->stream));
	for (int i = 0; i < 20; i++)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	if (r->rank == victim) {
		WORKS(gpu_finish(r->stream));
		await_count(posted, r->size - 1);
		raise(SIGKILL);
	}
	for (int i = 0; i < 20; i++)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	WORKS(gpu_launch(graph, r->stream));
	atomic_fetch_add(posted, 1);
	return told(r, &x, TUTTI_ERR_PEER_LOST, "rank");
}

/* ---- what was found wrong once */

/* By the host rank 0's second piece, of the long message alone, ends before the first, and then there is another operation. */
static int pieces_end_in_any_order(struct gpu_rank *r, void *argument)
{
	const size_t n = (size_t)3 << 17; /* floats: one and a half pieces of a message */
	const int last = r->size - 1;
	tutti_comm_t comm = r->comm;
	struct vector in, out, sum;

	if (r->size < 3 || !by_host())
		return 0;
	if (take(comm, &in, n) || take(comm, &out, n) || take(comm, &sum, few) || put(r, &in, (float)r->rank) || put(r, &sum, 1))
		return 1;
	if (r->rank == 0) {
		SUCCEEDS(tutti_group_begin(comm));
		SUCCEEDS(tutti_cuda_recv(comm, out.gpu, few, TUTTI_FLOAT32, last, r->stream));
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, n, TUTTI_FLOAT32, 1, r->stream));
		SUCCEEDS(tutti_group_end(comm, NULL));
		out.n = few;
	} else if (r->rank == 1) {
		SUCCEEDS(tutti_cuda_recv(comm, out.gpu, n, TUTTI_FLOAT32, 0, r->stream));
		if (expect(r, &out, 0, 1))
			return 1;
		atomic_fetch_add((atomic_int *)argument, 1);
	}
	await_count(argument, 1);
	if (r->rank == 0)
		SUCCEEDS(tutti_cuda_all_reduce(comm, sum.gpu, sum.gpu, few, TUTTI_FLOAT32, TUTTI_MAX, r->stream));
	atomic_fetch_add((atomic_int *)argument, r->rank == 0);
	await_count(argument, 2);
	if (r->rank == last)
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, 0, r->stream));
	if (r->rank > 0)
		SUCCEEDS(tutti_cuda_all_reduce(comm, sum.gpu, sum.gpu, few, TUTTI_FLOAT32, TUTTI_MAX, r->stream));
	if (expect(r, &sum, 1, 1) || (r->rank == 0 && expect(r, &out, (float)last, 1)))
		return 1;
	give(&in);
	give(&out);
	give(&sum);
	return 0;
}

static int messages_between_two_ranks_do_not_wait(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int peer = r->rank ^ 1;
	struct vector in[2], out[2];

	if (peer >= r->size)
		return 0;
	for (int i = 0; i < 2; i++)
		if (take(comm, &in[i], few) || take(comm, &out[i], few) || put(r, &in[i], (float)i))
			return 1;
	SUCCEEDS(tutti_group_begin(comm));
	for (int i = 0; i < 2; i++)
		SUCCEEDS(tutti_cuda_send(comm, in[i].gpu, few, TUTTI_FLOAT32, peer, r->stream));
	for (int i = 0; i < 2; i++)
		SUCCEEDS(tutti_cuda_recv(comm, out[i].gpu, few, TUTTI_FLOAT32, peer, r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	if (expect(r, &out[0], 0, 1) || expect(r, &out[1], 1, 1))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	for (int i = 0; i < 2; i++) {
		give(&in[i]);
		give(&out[i]);
	}
	return 0;
}

/* Longer than the half of a stage that is for scaled input. */
static int long_input_is_scaled(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const size_t n = (size_t)5 << 20;
	const float scalar = 2;
	struct vector in, out;
	tutti_op_t op;

	if (take(comm, &in, n) || take(comm, &out, n))
		return 1;
	for (size_t i = 0; i < n; i++)
		in.host[i] = (float)(i % 1000003);
	WORKS(gpu_copy(in.gpu, in.host, n * sizeof(float), r->stream));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, &op));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, op, r->stream));
	WORKS(gpu_copy(out.host, out.gpu, n * sizeof(float), r->stream) && gpu_finish(r->stream));
	for (size_t i = 0; i < n; i++)
		CLAIM(out.host[i] == scalar * (float)r->size * in.host[i], "element %zu is %g, expected %g", i, out.host[i], scalar * (float)r->size * in.host[i]);
	give(&in);
	give(&out);
	return 0;
}

enum { SCALED_REDUCE, SCALED_SCATTER, SCALED_SCAN, SCALED_EXSCAN, SCALED_KINDS };

static tutti_result_t scale_on_stream(struct gpu_rank *r, int kind, const struct vector *in, struct vector *out, const size_t *counts, tutti_dtype_t dtype, tutti_op_t op)
{
	switch (kind) {
	case SCALED_REDUCE: return tutti_cuda_reduce(r->comm, in->gpu, out->gpu, out->n, dtype, op, r->size - 1, r->stream);
	case SCALED_SCATTER: return tutti_cuda_reduce_scatter_v(r->comm, in->gpu, out->gpu, counts, dtype, op, r->stream);
	case SCALED_SCAN: return tutti_cuda_scan(r->comm, in->gpu, out->gpu, out->n, dtype, op, r->stream);
	default: return tutti_cuda_exscan(r->comm, in->gpu, out->gpu, out->n, dtype, op, r->stream);
	}
}

static tutti_result_t scale_on_host(struct gpu_rank *r, int kind, const struct vector *in, void *out, size_t n, const size_t *counts, tutti_dtype_t dtype, tutti_op_t op)
{
	switch (kind) {
	case SCALED_REDUCE: return tutti_reduce(r->comm, in->host, out, n, dtype, op, r->size - 1, NULL);
	case SCALED_SCATTER: return tutti_reduce_scatter_v(r->comm, in->host, out, counts, dtype, op, NULL);
	case SCALED_SCAN: return tutti_scan(r->comm, in->host, out, n, dtype, op, NULL);
	default: return tutti_exscan(r->comm, in->host, out, n, dtype, op, NULL);
	}
}

/* The plain collective's bits, of scalars of every size. */
static int scaled_sums_are_the_hosts(struct gpu_rank *r, void *argument)
{
	static const tutti_dtype_t dtypes[] = { TUTTI_UINT8, TUTTI_FLOAT32, TUTTI_INT64 };
	const uint64_t integers = 0x0000000300000007ull + (uint64_t)r->rank;
	const float real = 0.5f + (float)r->rank;
	tutti_comm_t comm = r->comm;
	struct vector in, out, want;
	size_t counts[64];
	tutti_op_t op;

	/* room for the widest */
	if (take(comm, &in, 2 * 333 * 64) || take(comm, &out, 2 * 333) || take(comm, &want, 2 * 333) || put(r, &in, (float)r->rank))
		return 1;
	out.n = 333;
	for (int i = 0; i < r->size; i++)
		counts[i] = i == 1 ? 0 : 333 - (size_t)i;
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		SUCCEEDS(tutti_op_create_premul_sum(comm, dtypes[i] == TUTTI_FLOAT32 ? (const void *)&real : &integers, dtypes[i], &op));
		for (int kind = 0; kind < SCALED_KINDS; kind++) {
			const size_t n = kind == SCALED_SCATTER ? counts[r->rank] : out.n, bytes = n * tutti_dtype_size(dtypes[i]);

			SUCCEEDS(scale_on_stream(r, kind, &in, &out, counts, dtypes[i], op));
			SUCCEEDS(scale_on_host(r, kind, &in, want.host, n, counts, dtypes[i], op));
			WORKS(gpu_copy(out.host, out.gpu, bytes, r->stream) && gpu_finish(r->stream));
			if ((kind == SCALED_REDUCE && r->rank != r->size - 1) || (kind == SCALED_EXSCAN && r->rank == 0)) /* no result */
				continue;
			CLAIM(memcmp(out.host, want.host, bytes) == 0, "%s, kind %d: not as on the host", tutti_dtype_name(dtypes[i]), kind);
		}
		SUCCEEDS(tutti_op_destroy(comm, op));
	}
	give(&in);
	give(&out);
	give(&want);
	return 0;
}

/* The operation goes as soon as the call is made, and the next one gets its number. */
static int factors_are_those_of_the_call(struct gpu_rank *r, void *argument)
{
	enum { TURNS = 4 };
	tutti_comm_t comm = r->comm;
	const size_t n = (size_t)5 << 18; /* by the host in two pieces */
	const float ranks = (float)r->size;
	struct vector in, out[TURNS];
	tutti_op_t op, first = 0;

	if (take(comm, &in, n) || put(r, &in, 1))
		return 1;
	for (int i = 0; i < TURNS; i++) {
		const float factor = (float)(r->rank + i);

		if (take(comm, &out[i], n))
			return 1;
		SUCCEEDS(tutti_op_create_premul_sum(comm, &factor, TUTTI_FLOAT32, &op));
		first = i == 0 ? op : first;
		CLAIM(op == first, "the operation is %d, expected %d again", op, first);
		SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out[i].gpu, n, TUTTI_FLOAT32, op, r->stream));
		SUCCEEDS(tutti_op_destroy(comm, op));
	}
	for (int i = 0; i < TURNS; i++) {
		const float factors = sum_of_ranks(r) + (float)i * ranks;

		if (expect(r, &out[i], factors, factors))
			return 1;
		give(&out[i]);
	}
	give(&in);
	return 0;
}

/* Each rank has places of its own for the blocks, in a window. */
static int places_of_blocks_are_a_ranks_own(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	size_t counts[32], displs[32];
	tutti_cuda_window_t window;
	struct vector in, out;

	if (take(comm, &in, few) || take(comm, &out, few) || put(r, &in, (float)(100 * (r->rank + 1))) || put(r, &out, 0))
		return 1;
	for (size_t i = 0; i < (size_t)r->size; i++) {
		counts[i] = 4;
		displs[i] = r->rank == 0 ? i * 4 : 500 - i * 4;
	}
	SUCCEEDS(tutti_cuda_register(comm, out.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_gather_v(comm, in.gpu, out.gpu, counts, displs, TUTTI_FLOAT32, r->stream));
	WORKS(gpu_copy(out.host, out.gpu, few * sizeof(float), r->stream) && gpu_finish(r->stream));
	for (int i = 0; i < r->size; i++)
		CLAIM(out.host[displs[i]] == (float)(100 * (i + 1)), "rank %d's block is %g", i, out.host[displs[i]]);
	SUCCEEDS(tutti_cuda_deregister(window));
	give(&in);
	give(&out);
	return 0;
}

static int windows_of_nothing_do_not_matter(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	tutti_cuda_window_t window;
	struct vector x;

	if (take(comm, &x, few))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, r->rank ? NULL : x.gpu, r->rank ? NULL : x.gpu, 0, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	SUCCEEDS(tutti_cuda_barrier(comm, r->stream));
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(tutti_cuda_deregister(window));
	SUCCEEDS(tutti_comm_error(comm, NULL));
	give(&x);
	return 0;
}

/* On rank 0 a kernel in the middle of an operation cannot be launched. */
static int half_an_operation_is_let_go(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	WORKS(gpu_finish(r->stream));
	if (r->rank == 0) {
		setenv("STANDIN_FAILS", "cuLaunchKernel:2", 1);
		const tutti_result_t result = tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream);
		unsetenv("STANDIN_FAILS");
		CLAIM(result == TUTTI_ERR_SYSTEM, "%s, expected %s", tutti_strerror(result), tutti_strerror(TUTTI_ERR_SYSTEM));
	} else {
		tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream); /* the fault may be known */
	}
	return told(r, &x, TUTTI_ERR_SYSTEM, "rank 0: tutti_cuda_all_reduce");
}

/* As after cudaDeviceReset(), or late in the end of a program. */
static int destroyed_without_a_context(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm, other;
	struct vector x;

	if (take(comm, &x, few) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &other));
	SUCCEEDS(tutti_cuda_bind(other, r->device));
	SUCCEEDS(tutti_cuda_all_reduce(other, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	WORKS(gpu_finish(r->stream));
	meet_at(argument, r->size);
	setenv("STANDIN_FAILS", "cuCtxPushCurrent_v2", 1);
	tutti_comm_destroy(other);
	unsetenv("STANDIN_FAILS");
	give(&x);
	return 0;
}

/* The last rank is killed before its stream has come to the operation, which has windows. */
static int killed_rank_with_windows_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int victim = r->size - 1;
	atomic_int *posted = argument;
	tutti_cuda_window_t window;
	struct vector x;

	if (take(comm, &x, few) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	if (r->rank == victim) {
		WORKS(gpu_finish(r->stream));
		await_count(posted, r->size - 1);
		raise(SIGKILL);
	}
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	atomic_fetch_add(posted, 1);
	return told(r, &x, TUTTI_ERR_PEER_LOST, "rank");
}

static const struct {
	const char *name;
	gpu_body *body;
	bool reaches; /* what only ranks can do that reach each other's memory */
	bool kills;
	bool stands_in; /* a stand-in makes CUDA fail, of one process alone */
	const char *variable; /* of its environment */
} claims[] = {
	{ "graph_is_launched_again", graph_is_launched_again },
	{ "graph_has_long_ones_and_messages", graph_has_long_ones_and_messages },
	{ "streams_follow_each_other", streams_follow_each_other },
	{ "a_long_all_gather_may_come_first", a_long_all_gather_may_come_first },
	{ "long_ones_go_in_pieces", long_ones_go_in_pieces },
	{ "groups_have_collectives_and_messages", groups_have_collectives_and_messages },
	{ "input_is_scaled", input_is_scaled },
	{ "barrier_waits_for_all", barrier_waits_for_all },
	{ "destroyed_with_work_ahead", destroyed_with_work_ahead },
	{ "wrong_calls_are_refused", wrong_calls_are_refused },
	{ "pieces_end_in_any_order", pieces_end_in_any_order },
	{ "messages_between_two_ranks_do_not_wait", messages_between_two_ranks_do_not_wait },
	{ "long_input_is_scaled", long_input_is_scaled },
	{ "scaled_sums_are_the_hosts", scaled_sums_are_the_hosts },
	{ "factors_are_those_of_the_call", factors_are_those_of_the_call },
	{ "places_of_blocks_are_a_ranks_own", places_of_blocks_are_a_ranks_own },
	{ "windows_of_nothing_do_not_matter", windows_of_nothing_do_not_matter },
	{ "half_an_operation_is_let_go", half_an_operation_is_let_go, .reaches = true, .stands_in = true },
	{ "destroyed_without_a_context", destroyed_without_a_context, .stands_in = true },
	{ "mismatch_is_told", mismatch_is_told },
	{ "other_operation_is_told", other_operation_is_told },
	{ "mismatch_of_two_parties_is_told", mismatch_of_two_parties_is_told },
	{ "sum_and_average_of_two_parties_is_told", sum_and_average_of_two_parties_is_told },
	{ "other_message_is_told", other_message_is_told },
	{ "window_of_one_rank_is_told", window_of_one_rank_is_told, .reaches = true },
	{ "absent_rank_is_told", absent_rank_is_told, .variable = "TUTTI_TIMEOUT" },
	{ "absent_rank_is_told_to_who_is_kept_in_cuda", absent_rank_is_told_to_who_is_kept_in_cuda, .variable = "TUTTI_TIMEOUT", .stands_in = true },
	{ "a_rank_alone_may_rest", a_rank_alone_may_rest, .variable = "TUTTI_TIMEOUT" },
	{ "abort_lets_streams_go_on", abort_lets_streams_go_on },
	{ "killed_rank_is_told", killed_rank_is_told, .kills = true },
	{ "killed_rank_with_windows_is_told", killed_rank_with_windows_is_told, .reaches = true, .kills = true },
};

int main(int argc, char **argv)
{
	const char *only = getenv("TEST_ONLY");
	const int chosen = gpu_job_choose(argc, argv);
	int failed = 0;

	if (chosen)
		return chosen;
	if (getenv("TEST_ELEMENTS"))
		few = (size_t)atoi(getenv("TEST_ELEMENTS"));
	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		struct job job = { .limit_s = 60 };

		if ((only && strcmp(only, claims[i].name) != 0) || (claims[i].kills && (gpu_job_threads || gpu_job_ranks == 1)) ||
		    (claims[i].reaches && by_host()) || (claims[i].stands_in && (gpu_job_threads || !getenv("TUTTI_CUDA_LIBRARY"))))
			continue;
		if (claims[i].kills) {
			job.expect_signal = SIGKILL;
			job.victims = 1u << (gpu_job_ranks - 1);
		}
		if (claims[i].variable)
			setenv(claims[i].variable, "1", 1);
		const int result = gpu_job_run(claims[i].body, shared_memory(sizeof(atomic_int)), &job);
		if (claims[i].variable)
			unsetenv(claims[i].variable);
		printf("%s %s\n", result ? "FAILED" : "ok", claims[i].name);
		fflush(stdout);
		failed |= result;
	}
	return failed;
}
