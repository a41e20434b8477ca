/* SPDX-License-Identifier: BSD-3-Clause */
/* Every public function called wrongly: the call says what it found and expected, nothing is sent,
 * and the communicator works on. And calls that need no buffers, and get none.
 *
 *   test_arguments shm|tcp|mixed */
#include <dlfcn.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests.h"

#include <tutti/cuda.h>

#include "calls/call.h"
#include "harness.h"

#define F32	   TUTTI_FLOAT32
#define HUGE_COUNT (SIZE_MAX / 2)

static int no_communicator(tutti_comm_t unused, void *argument)
{
	tutti_comm_t comm = NULL, out;
	tutti_op_t op;
	float b[4] = { 0 };
	tutti_plan_info_t info = { .size = sizeof(info) };

	for (int what = 0; what < MESSAGE; what++) {
		struct call c;

		call_init(&c, (enum what)what, 0, 2, F32, TUTTI_SUM, 1);
		c.send_at = c.recv_at = b;
		REFUSES(call_post(comm, &c, NULL), call_name(c.what), "comm is NULL");
	}
	REFUSES(tutti_send(comm, b, 1, F32, 0, NULL), "tutti_send", "comm is NULL");
	REFUSES(tutti_recv(comm, b, 1, F32, 0, NULL), "tutti_recv", "comm is NULL");
	REFUSES(tutti_send_tagged(comm, b, 1, F32, 0, 1, NULL), "tutti_send_tagged",
		"comm is NULL");
	REFUSES(tutti_recv_tagged(comm, b, 1, F32, 0, 1, NULL, NULL), "tutti_recv_tagged",
		"comm is NULL");
	REFUSES(tutti_group_begin(comm), "tutti_group_begin", "comm is NULL");
	REFUSES(tutti_group_end(comm, NULL), "tutti_group_end", "NULL");
	REFUSES(tutti_comm_split(comm, 0, 0, &out), "tutti_comm_split", "comm is NULL");
	REFUSES(tutti_comm_dup(comm, &out), "tutti_comm_dup", "comm is NULL");
	REFUSES(tutti_comm_abort(comm, "why"), "tutti_comm_abort", "comm is NULL");
	REFUSES(tutti_op_create(comm, NULL, 1, NULL, &op), "tutti_op_create", "comm is NULL");
	REFUSES(tutti_op_create_premul_sum(comm, b, F32, &op), "tutti_op_create_premul_sum",
		"comm is NULL");
	REFUSES(tutti_op_destroy(comm, TUTTI_OP_COUNT), "tutti_op_destroy", "comm is NULL");
	REFUSES(tutti_comm_last_plan(comm, &info), "comm");
	CLAIM(tutti_comm_rank(NULL) == -1 && tutti_comm_size(NULL) == -1, "NULL has a rank");
	CLAIM(tutti_comm_local_rank(NULL) == -1 && tutti_comm_local_size(NULL) == -1,
	      "NULL has a local rank");
	CLAIM(!tutti_comm_transport(NULL, 0), "NULL has a transport");
	tutti_comm_destroy(NULL);
	tutti_store_close(NULL);
	tutti_mem_free(NULL);
	return sums_right(unused);
}

static int buffers_and_counts(tutti_comm_t comm, void *argument)
{
	float b[8] = { 0 };
	const size_t ones[2] = { 1, 1 }, many[2] = { HUGE_COUNT, HUGE_COUNT },
		     far[2] = { 0, HUGE_COUNT };
	const int me = tutti_comm_rank(comm), other = 1 - me;

	REFUSES(tutti_all_reduce(comm, NULL, b, 1, F32, TUTTI_SUM, NULL), "send is NULL",
		"4 bytes");
	REFUSES(tutti_all_reduce(comm, b, NULL, 2, F32, TUTTI_SUM, NULL), "recv is NULL",
		"8 bytes");
	REFUSES(tutti_broadcast(comm, b, NULL, 1, F32, me, NULL), "recv is NULL");
	REFUSES(tutti_broadcast(comm, NULL, b, 1, F32, me, NULL), "send is NULL");
	REFUSES(tutti_reduce(comm, b, NULL, 1, F32, TUTTI_SUM, me, NULL), "recv is NULL");
	REFUSES(tutti_reduce_scatter(comm, NULL, b, 1, F32, TUTTI_SUM, NULL), "send is NULL",
		"8 bytes");
	REFUSES(tutti_all_gather(comm, b, NULL, 1, F32, NULL), "recv is NULL", "8 bytes");
	REFUSES(tutti_gather(comm, b, NULL, 1, F32, me, NULL), "recv is NULL");
	REFUSES(tutti_scatter(comm, NULL, b, 1, F32, me, NULL), "send is NULL");
	REFUSES(tutti_all_to_all(comm, NULL, b, 1, F32, NULL), "send is NULL");
	REFUSES(tutti_scan(comm, NULL, b, 1, F32, TUTTI_SUM, NULL), "send is NULL");
	REFUSES(tutti_send(comm, NULL, 1, F32, other, NULL), "tutti_send", "send is NULL");
	REFUSES(tutti_recv(comm, NULL, 1, F32, other, NULL), "tutti_recv", "recv is NULL");
	REFUSES(tutti_all_reduce(comm, b, b, HUGE_COUNT, F32, TUTTI_SUM, NULL),
		"9223372036854775807", "float32");
	REFUSES(tutti_all_gather(comm, b, b, HUGE_COUNT / 4, F32, NULL), "2 ranks");
	REFUSES(tutti_send(comm, b, HUGE_COUNT, F32, other, NULL), "9223372036854775807");
	REFUSES(tutti_reduce_scatter_v(comm, b, b, NULL, F32, TUTTI_SUM, NULL), "counts is NULL",
		"2 counts");
	REFUSES(tutti_all_gather_v(comm, b, b, NULL, NULL, F32, NULL), "counts is NULL");
	REFUSES(tutti_gather_v(comm, b, 1, b, NULL, NULL, F32, me, NULL), "counts is NULL");
	REFUSES(tutti_scatter_v(comm, b, NULL, NULL, b, 1, F32, me, NULL), "counts is NULL");
	REFUSES(tutti_all_to_all_v(comm, b, NULL, NULL, b + 4, ones, NULL, F32, NULL),
		"counts is NULL");
	REFUSES(tutti_all_to_all_v(comm, b, ones, NULL, b + 4, NULL, NULL, F32, NULL),
		"counts is NULL");
	REFUSES(tutti_all_to_all_v(comm, b, ones, NULL, b, ones, NULL, F32, NULL), "same memory");
	REFUSES(tutti_gather_v(comm, b, 2, b, ones, NULL, F32, me, NULL),
		"sends itself 2 elements and receives 1");
	REFUSES(tutti_scatter_v(comm, b, ones, NULL, b, 2, F32, me, NULL),
		"sends itself 1 elements and receives 2");
	REFUSES(tutti_all_to_all_v(comm, b, ones, NULL, b + 4, many, NULL, F32, NULL),
		"sends itself 1 elements and receives");
	REFUSES(tutti_all_gather_v(comm, b, b, many, NULL, F32, NULL), "overflow");
	REFUSES(tutti_all_gather_v(comm, b, b, ones, far, F32, NULL), "overflow");
	REFUSES(tutti_reduce_scatter_v(comm, b, b, many, F32, TUTTI_SUM, NULL), "overflow");
	SUCCEEDS(tutti_all_reduce(comm, NULL, NULL, 0, F32, TUTTI_SUM, NULL));
	return sums_right(comm);
}

static int roots_types_and_operations(tutti_comm_t comm, void *argument)
{
	const int me = tutti_comm_rank(comm);
	float b[8] = { 0 };
	tutti_op_t premul, op;
	tutti_comm_t grown;
	const double half = 0.5;

	REFUSES(tutti_broadcast(comm, b, b, 1, F32, 2, NULL), "root 2", "0 to 1");
	REFUSES(tutti_broadcast(comm, b, b, 1, F32, -1, NULL), "root -1", "0 to 1");
	REFUSES(tutti_reduce(comm, b, b, 1, F32, TUTTI_SUM, 7, NULL), "root 7");
	REFUSES(tutti_gather_v(comm, b, 1, b, NULL, NULL, F32, 9, NULL), "root 9");
	REFUSES(tutti_send(comm, b, 1, F32, 2, NULL), "peer 2", "0 to 1");
	REFUSES(tutti_recv(comm, b, 1, F32, -3, NULL), "peer -3");
	REFUSES(tutti_send(comm, b, 1, F32, me, NULL), "this rank itself", "group");
	REFUSES(tutti_recv(comm, b, 1, F32, me, NULL), "this rank itself", "group");
	REFUSES(tutti_recv(comm, b, 1, F32, TUTTI_ANY_PEER, NULL), "tutti_recv: peer -1", "0 to 1");
	REFUSES(tutti_recv_tagged(comm, b, 1, F32, -2, 1, NULL, NULL), "peer -2",
		"0 to 1 or TUTTI_ANY_PEER");
	REFUSES(tutti_comm_grow(comm, NULL, INT32_MAX, &grown), "expected 1 to 2147483645");
	REFUSES(tutti_send_tagged(comm, b, 1, F32, TUTTI_ANY_PEER, 1, NULL),
		"tutti_send_tagged: peer -1");
	REFUSES(tutti_send_tagged(comm, b, 1, F32, 1 - me, -1, NULL), "tag -1", "0 or more");
	REFUSES(tutti_recv_tagged(comm, b, 1, F32, 1 - me, 1, &(tutti_message_t){ 0 }, NULL),
		"message->size is 0", "sizeof(tutti_message_t)");
	REFUSES(tutti_all_reduce(comm, b, b, 1, (tutti_dtype_t)14, TUTTI_SUM, NULL), "dtype 14",
		"0 to 13");
	REFUSES(tutti_all_gather(comm, b, b, 1, (tutti_dtype_t)-1, NULL), "dtype -1");
	REFUSES(tutti_all_reduce(comm, b, b, 1, F32, 8, NULL), "op 8", "TUTTI_SUM");
	REFUSES(tutti_all_reduce(comm, b, b, 1, F32, -1, NULL), "op -1");
	REFUSES(tutti_all_reduce(comm, b, b, 1, F32, TUTTI_BXOR, NULL), "not defined for float32");
	REFUSES(tutti_reduce(comm, b, b, 1, TUTTI_BFLOAT16, TUTTI_BAND, 0, NULL),
		"not defined for bfloat16");
	REFUSES(tutti_scan(comm, b, b, 1, F32, TUTTI_AVG, NULL), "avg");
	REFUSES(tutti_exscan(comm, b, b, 1, F32, TUTTI_AVG, NULL), "avg");
	REFUSES(tutti_op_create(comm, NULL, 1, NULL, &op), "function is NULL");
	REFUSES(tutti_op_create_premul_sum(comm, NULL, F32, &op), "scalar is NULL");
	REFUSES(tutti_op_create_premul_sum(comm, &half, F32, NULL), "op is NULL");
	REFUSES(tutti_op_create_premul_sum(comm, &half, (tutti_dtype_t)99, &op), "dtype 99");
	SUCCEEDS(tutti_op_create_premul_sum(comm, &half, TUTTI_FLOAT64, &premul));
	REFUSES(tutti_all_reduce(comm, b, b, 1, F32, premul, NULL), "float64", "float32");
	SUCCEEDS(tutti_op_destroy(comm, premul));
	REFUSES(tutti_all_reduce(comm, b, b, 1, TUTTI_FLOAT64, premul, NULL), "op 8");
	REFUSES(tutti_op_destroy(comm, premul), "op 8", "destroyed already");
	REFUSES(tutti_op_destroy(comm, TUTTI_SUM), "op 0");
	return sums_right(comm);
}

static int groups_and_requests(tutti_comm_t comm, void *argument)
{
	const int me = tutti_comm_rank(comm), other = 1 - me;
	tutti_request_t request = NULL, requests[2] = { NULL, NULL };
	size_t index = 0;
	float b[8] = { 0 };

	REFUSES(tutti_group_end(comm, NULL), "no group open", "tutti_group_begin");
	SUCCEEDS(tutti_group_begin(comm));
	REFUSES(tutti_group_begin(comm), "group open");
	REFUSES(tutti_all_reduce(comm, b, b, 1, F32, TUTTI_SUM, &request), "request must be NULL");
	REFUSES(tutti_comm_shrink(comm, NULL), "group open"); /* says nothing of the group */
	REFUSES(tutti_group_end(comm, NULL), "request must be NULL");
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_all_reduce(comm, b, b, 1, F32, TUTTI_SUM, NULL));
	REFUSES(tutti_broadcast(comm, b, b, 1, F32, 5, NULL), "root 5");
	SUCCEEDS(tutti_send(comm, b, 1, F32, other, NULL));
	REFUSES(tutti_group_end(comm, &request), "root 5");
	CLAIM(!request, "a group that failed gave a request");
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_send(comm, b, 1, F32, me, NULL));
	REFUSES(tutti_group_end(comm, NULL), "itself");
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_recv(comm, b, 1, F32, me, NULL));
	REFUSES(tutti_group_end(comm, NULL), "itself");
	REFUSES(tutti_test(NULL), "tutti_test", "request is NULL");
	REFUSES(tutti_wait(NULL), "tutti_wait", "request is NULL");
	REFUSES(tutti_wait_all(NULL, 2), "tutti_wait_all", "requests is NULL", "2");
	REFUSES(tutti_wait_any(NULL, 2, &index), "tutti_wait_any", "requests is NULL");
	REFUSES(tutti_wait_any(requests, 2, NULL), "tutti_wait_any", "index is NULL");
	REFUSES(tutti_wait_any_for(NULL, 2, 0, &index), "tutti_wait_any_for", "requests is NULL");
	REFUSES(tutti_wait_any_for(requests, 2, -1, &index), "timeout_s is -1", "0 to 1e9");
	SUCCEEDS(tutti_wait(&request));
	SUCCEEDS(tutti_test(&request));
	SUCCEEDS(tutti_wait_all(NULL, 0));
	SUCCEEDS(tutti_wait_any(requests, 2, &index));
	CLAIM(index == 2, "index %zu of no request", index);
	REFUSES(tutti_comm_split(comm, 0, 0, NULL), "out is NULL");
	REFUSES(tutti_comm_dup(comm, NULL), "tutti_comm_dup: out is NULL");
	return sums_right(comm);
}

/* A sanitizer finds what hands them to functions of the C library. */
static int collectives_without_buffers(tutti_comm_t comm, tutti_op_t op)
{
	SUCCEEDS(tutti_broadcast(comm, NULL, NULL, 0, F32, 0, NULL));
	SUCCEEDS(tutti_reduce(comm, NULL, NULL, 0, F32, op, 0, NULL));
	SUCCEEDS(tutti_all_reduce(comm, NULL, NULL, 0, F32, op, NULL));
	SUCCEEDS(tutti_reduce_scatter(comm, NULL, NULL, 0, F32, op, NULL));
	SUCCEEDS(tutti_all_gather(comm, NULL, NULL, 0, F32, NULL));
	SUCCEEDS(tutti_gather(comm, NULL, NULL, 0, F32, 0, NULL));
	SUCCEEDS(tutti_scatter(comm, NULL, NULL, 0, F32, 0, NULL));
	SUCCEEDS(tutti_all_to_all(comm, NULL, NULL, 0, F32, NULL));
	SUCCEEDS(tutti_scan(comm, NULL, NULL, 0, F32, op, NULL));
	SUCCEEDS(tutti_exscan(comm, NULL, NULL, 0, F32, op, NULL));
	return 0;
}

/* Ranks' blocks have these counts; who has nothing has no buffer. */
static int blocks_without_buffers(tutti_comm_t comm, const size_t counts[2], tutti_op_t op)
{
	const int me = tutti_comm_rank(comm);
	const size_t to_all[2] = { counts[me], counts[me] };
	float in[16] = { 1, 2, 3 }, out[16];
	float *const all = counts[0] + counts[1] ? out : NULL;
	const float *const send = counts[me] ? in : NULL;
	float *const recv = counts[me] ? out : NULL;

	SUCCEEDS(tutti_all_gather_v(comm, send, all, counts, NULL, F32, NULL));
	SUCCEEDS(tutti_reduce_scatter_v(comm, all ? in : NULL, recv, counts, F32, op, NULL));
	SUCCEEDS(tutti_all_to_all_v(comm, send, to_all, NULL, all, counts, NULL, F32, NULL));
	for (int root = 0; root < 2; root++) {
		SUCCEEDS(tutti_gather_v(comm, send, counts[me], me == root ? all : NULL, counts,
					NULL, F32, root, NULL));
		SUCCEEDS(tutti_scatter_v(comm, me == root && all ? in : NULL, counts, NULL, recv,
					 counts[me], F32, root, NULL));
	}
	return 0;
}

static int messages_without_buffers(tutti_comm_t comm)
{
	const int other = 1 - tutti_comm_rank(comm);
	float value = 1;

	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_all_reduce(comm, NULL, NULL, 0, F32, TUTTI_SUM, NULL));
	SUCCEEDS(tutti_all_reduce(comm, &value, &value, 1, F32, TUTTI_SUM, NULL));
	SUCCEEDS(tutti_all_reduce(comm, NULL, NULL, 0, F32, TUTTI_SUM, NULL));
	SUCCEEDS(tutti_send(comm, NULL, 0, F32, other, NULL));
	SUCCEEDS(tutti_recv(comm, NULL, 0, F32, other, NULL));
	SUCCEEDS(tutti_group_end(comm, NULL));
	return 0;
}

static void add_all(void *into, const void *from, size_t count, tutti_dtype_t dtype, void *context)
{
	for (size_t i = 0; i < count; i++)
		((float *)into)[i] += ((const float *)from)[i];
}

static int nothing_from_nowhere(tutti_comm_t comm, void *argument)
{
	static const size_t counts[][2] = { { 0, 0 }, { 5, 0 }, { 0, 3 } };
	const float scalar = 2;
	tutti_op_t ops[4] = { TUTTI_SUM, TUTTI_AVG };
	int failed = messages_without_buffers(comm);

	SUCCEEDS(tutti_op_create(comm, add_all, 0, NULL, &ops[2]));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &scalar, F32, &ops[3]));
	for (int i = 0; i < 4; i++) {
		if (ops[i] != TUTTI_AVG)
			failed |= collectives_without_buffers(comm, ops[i]);
		for (int k = 0; k < 3; k++)
			failed |= blocks_without_buffers(comm, counts[k], ops[i]);
	}
	return failed ? failed : sums_right(comm);
}

/* What is made of several operations would leave the first of them in the group, with pointers
 * to what is its own. */
static int refused_inside_a_group(tutti_comm_t comm, void *argument)
{
	const tutti_call_t next = TUTTI_CALL_INIT;
	tutti_comm_t out = (tutti_comm_t)argument;
	tutti_cuda_window_t window;
	float one = 1, sum = 0;

	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_all_reduce(comm, &one, &sum, 1, F32, TUTTI_SUM, NULL));
	REFUSES(tutti_comm_split(comm, 0, 0, &out), "tutti_comm_split", "group open",
		"tutti_group_end()");
	CLAIM(!out, "a split that was refused gave a communicator");
	out = (tutti_comm_t)argument;
	REFUSES(tutti_comm_grow(comm, NULL, 1, &out), "tutti_comm_grow", "group open",
		"tutti_group_end()");
	CLAIM(!out, "growing that was refused gave a communicator");
	out = (tutti_comm_t)argument;
	REFUSES(tutti_comm_shrink(comm, &out), "tutti_comm_shrink", "group open",
		"tutti_group_end()");
	CLAIM(!out, "shrinking that was refused gave a communicator");
	REFUSES(tutti_next_call(comm, &next), "tutti_next_call", "group open",
		"tutti_group_begin()");
	REFUSES(tutti_cuda_bind(comm, 0), "tutti_cuda_bind", "group open");
	REFUSES(tutti_cuda_register(comm, &sum, sizeof(sum), &window), "tutti_cuda_register",
		"group open");
	SUCCEEDS(tutti_group_end(comm, NULL));
	CLAIM(sum == (float)tutti_comm_size(comm), "what the group kept gave %g", (double)sum);
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &out));
	const int failed = sums_right(out);
	tutti_comm_destroy(out);
	return failed || sums_right(comm);
}

/* What concerns this rank alone acts at once, and the group goes on. */
static int at_once_inside_a_group(tutti_comm_t comm, void *argument)
{
	const float ranks = (float)tutti_comm_size(comm), two = 2;
	tutti_plan_info_t info = { .size = sizeof(info) };
	tutti_request_t before[3] = { NULL };
	float in = 1, out[5] = { 0 };
	tutti_op_t op, premul, unused;
	void *memory;
	size_t index;

	for (int i = 0; i < 3; i++)
		SUCCEEDS(tutti_all_reduce(comm, &in, &out[i], 1, F32, TUTTI_SUM, &before[i]));
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_wait(&before[0]));
	tutti_result_t result;
	while ((result = tutti_test(&before[1])) == TUTTI_IN_PROGRESS)
		;
	SUCCEEDS(result);
	SUCCEEDS(tutti_wait_any(before, 3, &index));
	CLAIM(out[0] == ranks && out[1] == ranks && out[2] == ranks, "%g, %g and %g",
	      (double)out[0], (double)out[1], (double)out[2]);
	SUCCEEDS(tutti_op_create(comm, add_all, 1, NULL, &op));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &two, F32, &premul));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &two, F32, &unused));
	SUCCEEDS(tutti_mem_alloc(sizeof(float), &memory));
	SUCCEEDS(tutti_all_reduce(comm, &in, memory, 1, F32, op, NULL));
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_all_reduce(comm, &in, &out[4], 1, F32, premul, NULL));
	REFUSES(tutti_op_destroy(comm, op), "tutti_op_destroy", "a group", "tutti_group_end()");
	REFUSES(tutti_op_destroy(comm, premul), "tutti_op_destroy", "a group");
	SUCCEEDS(tutti_op_destroy(comm, unused));
	SUCCEEDS(tutti_comm_error(comm, NULL));
	SUCCEEDS(tutti_comm_last_plan(comm, &info));
	SUCCEEDS(tutti_group_end(comm, NULL));
	CLAIM(*(float *)memory == ranks && out[4] == 2 * ranks, "the group gave %g and %g",
	      (double)*(float *)memory, (double)out[4]);
	tutti_mem_free(memory);
	SUCCEEDS(tutti_op_destroy(comm, op));
	SUCCEEDS(tutti_op_destroy(comm, premul));
	return sums_right(comm);
}

/* Rank 1 takes no part before rank 0 has tried. */
static int operation_in_use(tutti_comm_t comm, void *argument)
{
	tutti_plan_info_t info = { .size = sizeof(info) };
	tutti_request_t request;
	float in = 1, out = 0;
	const float two = 2;
	tutti_op_t op;

	SUCCEEDS(tutti_op_create(comm, add_all, 1, NULL, &op));
	if (tutti_comm_rank(comm) == 1)
		SUCCEEDS(tutti_recv(comm, &out, 1, F32, 0, NULL));
	SUCCEEDS(tutti_all_reduce(comm, &in, &out, 1, F32, op, &request));
	if (tutti_comm_rank(comm) == 0) {
		REFUSES(tutti_op_destroy(comm, op), "tutti_op_destroy", "request");
		SUCCEEDS(tutti_send(comm, &in, 1, F32, 1, NULL));
	}
	SUCCEEDS(tutti_wait(&request));
	CLAIM(out == 2, "the sum is %g", (double)out);
	SUCCEEDS(tutti_op_destroy(comm, op));
	SUCCEEDS(tutti_comm_last_plan(comm, &info));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &two, F32, &op)); /* of the same number */
	SUCCEEDS(tutti_all_reduce(comm, &in, &out, 1, F32, op, NULL));
	CLAIM(out == 4, "the other sum is %g", (double)out);
	SUCCEEDS(tutti_op_destroy(comm, op));
	return sums_right(comm);
}

/* Abort ends the communicator at once; the group then starts nothing, and is over. */
static int aborted_inside_a_group(tutti_comm_t comm, void *argument)
{
	const int me = tutti_comm_rank(comm);
	float in = 1, out = 0;
	tutti_comm_t rest;

	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_all_reduce(comm, &in, &out, 1, F32, TUTTI_SUM, NULL));
	if (me == 0)
		SUCCEEDS(tutti_comm_abort(comm, "enough"));
	FAILS(tutti_group_end(comm, NULL), TUTTI_ERR_ABORTED, "enough");
	SUCCEEDS(tutti_comm_shrink(comm, &rest)); /* no group is open any more */
	const int failed = sums_right(rest);
	tutti_comm_destroy(rest);
	return failed;
}

/* In a group: above. */
static int next_calls(tutti_comm_t comm, void *argument)
{
	static const double times[] = { -1, NAN, INFINITY, 2e9 };
	static const char *const elements[] = { NULL, "", "nine_char", "a b", "\xc3\xa9" };
	tutti_call_t call = { .size = 1 };
	int rank = 7;

	REFUSES(tutti_next_call(NULL, &call), "tutti_next_call");
	REFUSES(tutti_next_call(comm, NULL), "tutti_next_call");
	REFUSES(tutti_next_call(comm, &call), "size");
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		call = (tutti_call_t)TUTTI_CALL_INIT;
		call.timeout_s = times[i];
		REFUSES(tutti_next_call(comm, &call), "timeout_s");
	}
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
		REFUSES(tutti_next_element(comm, elements[i]), "tutti_next_element", "element is");
	REFUSES(tutti_next_element(NULL, "c8"), "tutti_next_element");
	CLAIM(tutti_comm_error(comm, &rank) == TUTTI_OK && rank == -1,
	      "a healthy communicator blames rank %d", rank);
	REFUSES(tutti_comm_error(NULL, NULL), "comm is NULL");
	return sums_right(comm);
}

static int plans_and_memory(tutti_comm_t comm, void *argument)
{
	tutti_plan_info_t info = { .size = sizeof(info) }, wrong = { .size = 3 };
	void *memory = &info;

	REFUSES(tutti_comm_last_plan(comm, &info), "tutti_comm_last_plan");
	if (sums_right(comm))
		return 1;
	SUCCEEDS(tutti_comm_last_plan(comm, &info));
	CLAIM(info.algorithm && *info.algorithm && info.transports && *info.transports,
	      "the plan has no names");
	REFUSES(tutti_comm_last_plan(comm, NULL), "NULL");
	REFUSES(tutti_comm_last_plan(comm, &wrong), "3");
	REFUSES(tutti_mem_alloc(16, NULL), "memory is NULL");
	CLAIM(tutti_mem_alloc(SIZE_MAX, &memory) < 0 && !memory, "SIZE_MAX bytes were had");
	CLAIM(*tutti_last_error(NULL), "nothing is said of the cause");
	tutti_mem_free(&info); /* said in the log, otherwise ignored */
	return sums_right(comm);
}

/* ---- without a communicator: settings; of stores unit/test_store_calls.c shows it, of what else
 * launchers set unit/test_launch.c */

struct setting {
	const char *name, *value;
	const char *words;
};

static int settings(int rank, void *argument)
{
	static const struct setting wrong[] = {
		{ "TUTTI_TIMEOUT", "soon", "soon" },
		{ "TUTTI_TIMEOUT", "-1", "-1" },
		{ "TUTTI_TIMEOUT", "nan", "nan" },
		{ "TUTTI_SILENCE", "0.5", "0.5" },
		{ "TUTTI_SILENCE", "5s", "5s" },
		{ "TUTTI_TRANSPORT", "pigeon", "pigeon" },
		{ "TUTTI_TRANSPORT", "shm,pigeon", "pigeon" },
		{ "TUTTI_ALGORITHM", "magic", "magic" },
		{ "TUTTI_SEGMENT", "1", "1" },
		{ "TUTTI_SEGMENT", "-64", "-64" },
		{ "TUTTI_SEGMENT", "64k", "64k" },
		{ "TUTTI_CUDA_BLOCKS", "0", "expected blocks, 1 to 1024" },
		{ "TUTTI_CUDA_MULTICAST", "2", "expected 0 for no or 1 for yes" },
		{ "TUTTI_CUDA_EXCHANGE", "1048577", "expected bytes, 0 to 1048576" },
		{ "TUTTI_CUDA_ENGINES", "off", "off" },
		{ "TUTTI_CUDA_ENGINES", "-1", "-1" },
		{ "TUTTI_REPRODUCIBLE", "yes", "yes" },
		{ "TUTTI_RANK", "x", "\"x\"" },
	};
	char long_id[200];
	tutti_comm_t comm = NULL;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char *before = getenv(wrong[i].name) ? strdup(getenv(wrong[i].name)) : NULL;

		setenv(wrong[i].name, wrong[i].value, 1);
		const tutti_result_t result = tutti_init(NULL, &comm);
		CLAIM(!comm, "%s=%s is taken", wrong[i].name, wrong[i].value);
		REFUSES(result, wrong[i].name, wrong[i].words);
		if (before)
			setenv(wrong[i].name, before, 1);
		else
			unsetenv(wrong[i].name);
		free(before);
	}
	memset(long_id, 'x', sizeof(long_id) - 1);
	long_id[sizeof(long_id) - 1] = '\0';
	setenv("TUTTI_HOST_ID", long_id, 1);
	REFUSES(tutti_init(NULL, &comm), "TUTTI_HOST_ID", "199");
	unsetenv("TUTTI_HOST_ID");
	SUCCEEDS(tutti_init(NULL, &comm));
	tutti_comm_destroy(comm);
	return 0;
}

/* A locale whose numbers have a comma, as localedef(1) of the GNU C library writes it: no locale need be
 * installed. */
static bool set_locale_with_commas(void)
{
	static const struct {
		uint32_t magic, elements, at[6];
		char point[2], thousands[2], grouping[4];
		uint32_t wide_point, wide_thousands;
		char codeset[6];
	} numeric = {
		0x20031114, 6, { 32, 34, 36, 40, 44, 48 }, ",", ".", "\3\3", ',', '.', "UTF-8"
	};
	char directory[64], path[96];

	make_directory(directory);
	snprintf(path, sizeof(path), "%s/commas", directory);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/commas/LC_NUMERIC", directory);
	FILE *file = fopen(path, "w");
	if (file) {
		fwrite(&numeric, sizeof(numeric), 1, file);
		fclose(file);
	}
	setenv("LOCPATH", directory, 1);
	setlocale(LC_NUMERIC, "commas");
	remove_directory(directory);
	return strtod("0,5", NULL) == 0.5;
}

static int locales_made;

/* The C library's, which the library calls. */
locale_t newlocale(int categories, const char *name, locale_t base)
{
	void *const theirs = dlsym(RTLD_NEXT, "newlocale");
	locale_t (*make)(int, const char *, locale_t);

	memcpy(&make, &theirs, sizeof(make));
	locales_made++;
	return make(categories, name, base);
}

/* Numbers of the environment and of messages, which other ranks may get, have a point in every locale, for
 * which one locale is made. */
static int in_another_locale(int rank, void *argument)
{
	tutti_config_t late = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;
	float number = 0;

	CLAIM(set_locale_with_commas(), "no locale has a comma");
	setenv("TUTTI_TIMEOUT", "60,5", 1);
	REFUSES(tutti_config_check(NULL), "TUTTI_TIMEOUT is \"60,5\"");
	unsetenv("TUTTI_TIMEOUT");
	setenv("TUTTI_SILENCE", "2,5", 1);
	REFUSES(tutti_config_check(NULL), "TUTTI_SILENCE is \"2,5\"");
	late.timeout_s = -0.5;
	setenv("TUTTI_SILENCE", "2.5", 1);
	REFUSES(tutti_config_check(&late), "timeout_s of the config is -0.5");
	setenv("TUTTI_TIMEOUT", "60.5", 1);
	SUCCEEDS(tutti_init(NULL, &comm));
	CLAIM(tutti_comm_timeout(comm) == 60.5, "%g", tutti_comm_timeout(comm));
	SUCCEEDS(next_call_takes(comm, 0.25));
	FAILS(tutti_recv(comm, &number, 1, F32, 1 - rank, NULL), TUTTI_ERR_TIMEOUT,
	      "its deadline of 0.25 s");
	CLAIM(locales_made == 1, "%d locales were made", locales_made);
	tutti_comm_destroy(comm);
	return 0;
}

/* Outside the ranges of the header: seconds, and yes, no or default. */
static int values_out_of_range(int rank, void *argument)
{
	static const double times[] = { -1, NAN, INFINITY, -INFINITY, 2e9 };
	static const int choices[] = { 2, -2, 7, INT_MAX, INT_MIN };
	static const tutti_op_t none[] = { -1, INT_MIN, TUTTI_OP_COUNT + 256, INT_MAX };
	tutti_comm_t comm = NULL;
	tutti_store_t store = NULL, kept;
	char value[4];

	SUCCEEDS(tutti_store_open("unix:test-arguments-ranges", 1, 0, &kept));
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		tutti_config_t config = TUTTI_CONFIG_INIT;
		tutti_store_config_t how = TUTTI_STORE_CONFIG_INIT;
		size_t length = sizeof(value);

		config.timeout_s = how.timeout_s = times[i];
		REFUSES(tutti_init(&config, &comm), "timeout_s", "at most 1e9");
		REFUSES(tutti_config_check(&config), "timeout_s", "at most 1e9");
		REFUSES(tutti_store_open_with("unix:x", &how, &store), "timeout", "at most 1e9");
		REFUSES(tutti_store_open("unix:x", 0, times[i], &store), "timeout", "at most 1e9");
		REFUSES(tutti_store_get(kept, "key", value, &length, times[i]), "timeout",
			"0 to 1e9");
	}
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		tutti_config_t reproducible = TUTTI_CONFIG_INIT, encrypt = TUTTI_CONFIG_INIT;
		tutti_store_config_t how = TUTTI_STORE_CONFIG_INIT;

		reproducible.reproducible = encrypt.encrypt = how.encrypt = choices[i];
		REFUSES(tutti_init(&reproducible, &comm), "reproducible of the config is",
			"expected 1 for yes, -1 for no, or 0");
		REFUSES(tutti_comm_create(NULL, 0, 1, &encrypt, &comm), "encrypt of the config is",
			"expected 1 for yes, -1 for no, or 0");
		REFUSES(tutti_store_open_with("unix:x", &how, &store), "encrypt of the config is");
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		CLAIM(!tutti_op_name(none[i]), "operation %d has the name %s", none[i],
		      tutti_op_name(none[i]));
	CLAIM(strcmp(tutti_op_name(TUTTI_OP_COUNT + 255), "user") == 0,
	      "the last operation that users make has no name");
	CLAIM(!comm && !store, "something came of it");
	SUCCEEDS(tutti_config_check(NULL));
	tutti_store_close(kept);
	return 0;
}

static int configs(int rank, void *argument)
{
	tutti_config_t unsized = { 0 }, late = TUTTI_CONFIG_INIT, by = TUTTI_CONFIG_INIT;
	tutti_config_t algorithm = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL, out = (tutti_comm_t)&late;

	late.timeout_s = -2;
	by.transports = "smoke";
	algorithm.algorithm = "rnig";
	REFUSES(tutti_init(&unsized, &out), "size is 0", "sizeof(tutti_config_t)");
	CLAIM(!out, "the communicator is not NULL after an error");
	REFUSES(tutti_init(&late, &out), "timeout_s");
	REFUSES(tutti_init(&by, &out), "smoke", "shm");
	REFUSES(tutti_init(&algorithm, &out), "\"rnig\" (did you mean ring?)", "halving_doubling");
	by.transports = "shm,tpc";
	REFUSES(tutti_init(&by, &out), "\"tpc\" (did you mean tcp?)");
	REFUSES(tutti_init(NULL, NULL), "comm is NULL");
	REFUSES(tutti_comm_create(NULL, 0, 2, NULL, &out), "store is NULL");
	REFUSES(tutti_comm_create(NULL, 1, 1, NULL, &out), "rank 1 of 1");
	REFUSES(tutti_comm_create(NULL, 0, 0, NULL, &out), "rank 0 of 0");
	REFUSES(tutti_comm_create(NULL, -1, 2, NULL, &out), "rank -1");
	REFUSES(tutti_comm_create(NULL, 0, 1, NULL, NULL), "comm is NULL");
	CLAIM(!tutti_dtype_name((tutti_dtype_t)14) && tutti_dtype_size((tutti_dtype_t)14) == 0,
	      "type 14");
	CLAIM(*tutti_strerror((tutti_result_t)-99), "no sentence for -99");
	return 0;
}

static int every_name_is_taken(int rank, void *argument)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;
	int number = 0;

	while ((config.algorithm = tutti_algorithm_name(number++))) {
		SUCCEEDS(tutti_comm_create(NULL, 0, 1, &config, &comm));
		tutti_comm_destroy(comm);
		comm = NULL;
	}
	CLAIM(number > 10, "there are only %d algorithms", number - 1);
	CLAIM(!tutti_algorithm_name(-1) && !tutti_algorithm_name(number) &&
		      !tutti_algorithm_name(INT_MAX),
	      "a number without an algorithm has a name");
	return 0;
}

/* On another host each: RDMA without a device reaches none, whether the machine has one or not. */
static int nobody_is_reached(int rank, void *argument)
{
	tutti_comm_t comm = NULL;

	set_number("TUTTI_HOST_ID", rank);
	setenv("TUTTI_TRANSPORT", "shm,rdma", 1);
	setenv("TUTTI_RDMA_DEVICE", "none", 1);
	const tutti_result_t result = tutti_init(NULL, &comm);
	CLAIM(!comm, "it is in a communicator");
	if (result == TUTTI_ERR_INVALID) /* a build without RDMA does not know it */
		REFUSES(result, "TUTTI_TRANSPORT");
	else
		FAILS(result, TUTTI_ERR_UNSUPPORTED, "no transport of \"shm,rdma\" reaches rank");
	return 0;
}

JOB(calls_without_a_communicator_are_refused, .ranks = 2, .body = no_communicator)
JOB(wrong_buffers_and_counts_are_refused, .ranks = 2, .body = buffers_and_counts)
JOB(wrong_roots_types_and_operations_are_refused, .ranks = 2, .body = roots_types_and_operations)
JOB(misused_groups_and_requests_are_refused, .ranks = 2, .body = groups_and_requests)
JOB(of_nothing_no_buffer_is_needed, .ranks = 2, .body = nothing_from_nowhere)
JOB(what_is_no_single_operation_is_refused_inside_a_group, .ranks = 2,
    .body = refused_inside_a_group, .argument = (void *)1)
JOB(what_concerns_one_rank_acts_at_once_inside_a_group, .ranks = 2, .body = at_once_inside_a_group)
JOB(an_operation_in_use_is_not_destroyed, .ranks = 2, .body = operation_in_use)
JOB(a_group_may_be_aborted, .ranks = 2, .body = aborted_inside_a_group)
JOB(wrong_deadlines_of_next_calls_are_refused, .ranks = 2, .body = next_calls)
JOB(wrong_plan_queries_and_sizes_of_memory_are_refused, .ranks = 2, .body = plans_and_memory)
JOB(wrong_settings_are_named, .ranks = 1, .whole = settings)
JOB(numbers_have_a_point_in_every_locale, .ranks = 2, .whole = in_another_locale)
JOB(values_out_of_range_are_refused, .ranks = 1, .whole = values_out_of_range)
JOB(wrong_configs_are_refused, .ranks = 1, .whole = configs)
JOB(ranks_that_no_transport_reaches_are_named, .ranks = 2, .whole = nobody_is_reached)

JOB(every_name_of_an_algorithm_is_taken, .ranks = 1, .whole = every_name_is_taken)
