/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the program that do not do what tutti expects of them: throw, end their thread, jump out,
 * call tutti. No call waits for ever for that.
 *
 *   test_callbacks shm|tcp|mixed */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"
#include "throws.h"

#define LINE 1024 /* bytes of what a process that ends says */

/* What each function below does where it should return. */
static enum { RETURNS, THROWS, ENDS_ITS_THREAD, JUMPS, CALLS_TUTTI } way;
static jmp_buf before;
static tutti_comm_t called; /* what CALLS_TUTTI calls on */
static tutti_store_t asked;
static tutti_result_t answer; /* what that call returned … */
static char text[LINE];	      /* … and its error message */

static void misbehave(void)
{
	switch (way) {
	case RETURNS: break;
	case THROWS: throw_it(); break;
	case ENDS_ITS_THREAD: pthread_exit(NULL);
	case JUMPS: longjmp(before, 1);
	case CALLS_TUTTI:
		answer = asked ? tutti_store_set(asked, "other", "", 0)
			       : tutti_barrier(called, NULL);
		snprintf(text, sizeof(text), "%s", tutti_last_error(NULL));
	}
}

/* ---- the functions, and how each comes to be called */

static void add(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	float *sum = inout;

	for (size_t i = 0; i < count; i++)
		sum[i] += ((const float *)in)[i];
	misbehave();
}

static tutti_result_t reduce(tutti_comm_t comm, float *sum)
{
	const float mine = 1;
	tutti_op_t op;
	const tutti_result_t result = tutti_op_create(comm, add, 1, NULL, &op);

	return result ? result : tutti_all_reduce(comm, &mine, sum, 1, TUTTI_FLOAT32, op, NULL);
}

static void reduce_once(void *comm)
{
	float sum;

	reduce(comm, &sum);
}

static void sink(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	misbehave();
}

static void write_a_line(void)
{
	int no_memory_of_tutti;

	tutti_mem_free(&no_memory_of_tutti);
}

static void log_once(void *comm)
{
	tutti_log_set_sink(sink, NULL);
	write_a_line();
}

static void note(void *context)
{
	misbehave();
}

static void notify_once(void *comm)
{
	tutti_notify(NULL, note, NULL);
}

static int interrupt(void)
{
	misbehave();
	return 0;
}

static void wait_once(void *comm)
{
	float never;

	tutti_interrupt_set(interrupt);
	tutti_recv(comm, &never, 1, TUTTI_FLOAT32, 1, NULL);
}

static int set(void *context, const char *key, const void *value, size_t length)
{
	misbehave();
	return 0;
}

static int get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	misbehave();
	return ETIMEDOUT;
}

static tutti_store_t own_store(void (*destroy)(void *context))
{
	const tutti_store_ops_t ops = { sizeof(ops), set, get, destroy };
	tutti_store_t store = NULL;

	tutti_store_create(&ops, NULL, &store);
	return store;
}

static void set_once(void *comm)
{
	tutti_store_set(own_store(NULL), "key", "", 0);
}

static void get_once(void *comm)
{
	size_t length = 0;

	tutti_store_get(own_store(NULL), "key", NULL, &length, 1);
}

static void close_once(void *comm)
{
	tutti_store_close(own_store(note));
}

static void *run_in_thread(void *body)
{
	(*(void (**)(void *))body)(called);
	return NULL;
}

/* ---- they end their process */

static const struct leaving {
	void (*body)(void *comm); /* calls the function */
	const char *says;
} leavings[] = {
	{ reduce_once, "an operation of tutti_op_create() did not return" },
	{ log_once, "the sink of tutti_log_set_sink() did not return" },
	{ notify_once, "the function of tutti_notify() did not return" },
	{ wait_once, "the function of tutti_interrupt_set() did not return" },
	{ set_once, "set() of tutti_store_create() did not return" },
	{ get_once, "get() of tutti_store_create() did not return" },
	{ close_once, "destroy() of tutti_store_create() did not return" },
};

struct scene {
	const struct leaving *leaving;
	int said; /* a file in which standard error of rank 0 goes */
};

static int rank_0_leaves(tutti_comm_t comm, void *argument)
{
	const struct scene *scene = argument;
	void (*body)(void *) = scene->leaving->body;

	if (tutti_comm_rank(comm) == 1) { /* it is told of the end of the other */
		tutti_result_t result;
		float sum;

		way = RETURNS;
		do {
			result = reduce(comm, &sum);
		} while (result == TUTTI_OK);
		CLAIM(result == TUTTI_ERR_PEER_LOST, "%d: %s", result, tutti_last_error(comm));
		return 0;
	}
	called = comm;
	fflush(stderr);
	dup2(scene->said, STDERR_FILENO);
	if (way == THROWS) {
		catch_it(body, comm);
	} else {
		pthread_t thread;

		pthread_create(&thread, NULL, run_in_thread, &body);
		pthread_join(thread, NULL);
	}
	CLAIM(false, "the process goes on");
	return 0;
}

static void all_end_their_process(void)
{
	for (size_t i = 0; i < sizeof(leavings) / sizeof(leavings[0]); i++) {
		struct scene scene = { &leavings[i], memfd_create("said", MFD_CLOEXEC) };
		char said[8 * LINE] = "";

		HOLDS(.ranks = 2, .body = rank_0_leaves, .argument = &scene,
		      .expect_signal = SIGABRT, .victims = 1);
		assert_true(pread(scene.said, said, sizeof(said) - 1, 0) > 0);
		assert_says(said, leavings[i].says);
		close(scene.said);
	}
}

TEST(a_function_that_throws_ends_its_process)
{
	way = THROWS;
	all_end_their_process();
}

TEST(a_function_that_ends_its_thread_ends_its_process)
{
	way = ENDS_ITS_THREAD;
	all_end_their_process();
}

/* ---- what other threads wait for after a jump does not last */

static void *another_call(void *comm)
{
	tutti_barrier(comm, NULL);
	return NULL;
}

static void *another_line(void *comm)
{
	write_a_line();
	return NULL;
}

struct other {
	void (*body)(void *comm);   /* is left by a jump */
	void *(*waits)(void *comm); /* on another thread */
	int said;		    /* a file in which standard error goes */
};

static int another_thread_waits(tutti_comm_t comm, void *argument)
{
	const struct other *other = argument;
	pthread_t thread;
	float sum;

	if (tutti_comm_rank(comm) == 1) {
		way = RETURNS;
		reduce(comm, &sum);
		return 0;
	}
	fflush(stderr);
	dup2(other->said, STDERR_FILENO);
	if (setjmp(before) == 0)
		other->body(comm);
	pthread_create(&thread, NULL, other->waits, comm);
	pthread_join(thread, NULL);
	exit(0);
}

static void says(const struct other *other, int expect_signal, const char *words)
{
	char said[LINE] = "";

	HOLDS(.ranks = 2, .env = ENV("TUTTI_TIMEOUT=1"), .body = another_thread_waits,
	      .argument = (void *)other, .expect_signal = expect_signal, .victims = 1);
	assert_true(pread(other->said, said, sizeof(said) - 1, 0) > 0);
	assert_says(said, words);
	close(other->said);
}

TEST(after_a_jump_no_other_thread_waits_for_ever)
{
	const int said = memfd_create("said", MFD_CLOEXEC),
		  line = memfd_create("line", MFD_CLOEXEC);

	way = JUMPS;
	says(&(struct other){ reduce_once, another_call, said }, SIGABRT,
	     "has not returned for 1 s, the communicator's deadline, or was left by longjmp()");
	says(&(struct other){ log_once, another_line, line }, 0, "tutti_mem_free");
}

/* ---- but where functions return, others wait as long as it takes */

#define PART	1024 /* elements that an operation is given at once, as it turns out */
#define PART_US 80000

static atomic_bool adds;

static void add_slowly(void *inout, const void *in, size_t count, tutti_dtype_t dtype,
		       void *context)
{
	atomic_store(&adds, true);
	usleep(PART_US);
}

static void *make_another(void *comm)
{
	tutti_op_t op;

	while (!atomic_load(&adds))
		sched_yield();
	return (void *)(intptr_t)tutti_op_create(comm, add, 1, NULL, &op);
}

static int adds_longer_than_the_deadline(tutti_comm_t comm, void *argument)
{
	static float numbers[32 * PART];
	tutti_call_t patient = TUTTI_CALL_INIT;
	tutti_op_t op;
	pthread_t thread;
	void *result;

	patient.timeout_s = 60;
	SUCCEEDS(tutti_op_create(comm, add_slowly, 1, NULL, &op));
	pthread_create(&thread, NULL, make_another, comm);
	SUCCEEDS(tutti_next_call(comm, &patient));
	SUCCEEDS(tutti_all_reduce(comm, numbers, numbers, 32 * PART, TUTTI_FLOAT32, op, NULL));
	atomic_store(&adds, true); /* some algorithms combine on one rank */
	pthread_join(thread, &result);
	CLAIM(!result, "%d", (int)(intptr_t)result);
	return 0;
}

JOB(an_operation_that_returns_is_waited_for, .ranks = 2, .env = ENV("TUTTI_TIMEOUT=1"),
    .body = adds_longer_than_the_deadline)

/* ---- calls that would wait for what their own thread holds are refused */

/* Once from an operation and once from the sink. */
static int nothing_waits_after_a_jump(tutti_comm_t comm, void *argument)
{
	void (*body)(void *) = argument;
	tutti_request_t request;
	float number = 0;
	size_t index;

	SUCCEEDS(tutti_recv(comm, &number, 1, TUTTI_FLOAT32, 1 - tutti_comm_rank(comm), &request));
	SUCCEEDS(tutti_barrier(comm, NULL)); /* neither ends before the other has come so far */
	if (setjmp(before) == 0)
		body(comm);
	REFUSES(tutti_barrier(comm, NULL), "left it by longjmp()");
	REFUSES(tutti_test(&request), "tutti_test");
	REFUSES(tutti_wait(&request), "tutti_wait");
	REFUSES(tutti_wait_any(&request, 1, &index), "left it by longjmp()");
	REFUSES(tutti_notify(request, note, NULL), "tutti_notify");
	REFUSES(tutti_comm_shrink(comm, &called), "tutti_comm_shrink");
	REFUSES(tutti_comm_error(comm, NULL), "tutti_comm_error");
	write_a_line();
	tutti_comm_destroy(comm);
	exit(0);
}

TEST(after_a_jump_nothing_waits)
{
	way = JUMPS;
	HOLDS(.ranks = 2, .body = nothing_waits_after_a_jump, .argument = reduce_once);
	HOLDS(.ranks = 2, .body = nothing_waits_after_a_jump, .argument = log_once);
}

static void count(void *counted)
{
	++*(atomic_int *)counted;
}

static int notices_come_after_a_jump(tutti_comm_t comm, void *argument)
{
	atomic_int counted = 0;
	tutti_request_t ended;

	SUCCEEDS(tutti_barrier(comm, &ended));
	if (setjmp(before) == 0)
		notify_once(comm);
	SUCCEEDS(tutti_notify(NULL, count, &counted));
	CLAIM(counted == 1, "%d calls for no request", counted);
	SUCCEEDS(tutti_notify(ended, count, &counted)); /* it may have ended by now, … */
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_notify(ended, count, &counted)); /* … and has here */
	while (counted < 3)
		sched_yield();
	SUCCEEDS(tutti_wait(&ended));
	return 0;
}

TEST(who_was_left_by_a_jump_is_told_of_what_ends)
{
	way = JUMPS;
	HOLDS(.ranks = 2, .body = notices_come_after_a_jump);
}

static void *get_a_key(void *none)
{
	size_t length = 0;
	const tutti_result_t result = tutti_store_get(asked, "key", NULL, &length, 0);

	snprintf(text, sizeof(text), "%s", tutti_last_error(NULL));
	return (void *)(intptr_t)result;
}

static int a_store_after_a_jump(int rank, void *argument)
{
	const tutti_comm_t comm = NULL;
	size_t length = 0;

	pthread_t thread;
	void *other;

	asked = own_store(NULL);
	if (setjmp(before) == 0)
		tutti_store_set(asked, "key", "", 0);
	REFUSES(tutti_store_set(asked, "key", "", 0), "left it by longjmp()");
	REFUSES(tutti_store_get(asked, "key", NULL, &length, 1), "left it by longjmp()");
	pthread_create(&thread, NULL, get_a_key, NULL);
	pthread_join(thread, &other);
	CLAIM((intptr_t)other == TUTTI_ERR_TIMEOUT && strstr(text, "or left it by longjmp()"),
	      "%d: %s", (int)(intptr_t)other, text);
	tutti_store_close(asked);
	return 0;
}

TEST(a_store_that_was_left_by_a_jump_does_not_wait)
{
	way = JUMPS;
	HOLDS(.ranks = 1, .whole = a_store_after_a_jump);
}

static int refused_inside(tutti_comm_t comm, void *argument)
{
	float sum = 0;

	called = comm;
	SUCCEEDS(reduce(comm, &sum));
	CLAIM(sum == 2, "the sum is %g", (double)sum);
	if (tutti_comm_rank(comm) == 0 || *text) /* some algorithms combine on one rank */
		CLAIM(answer == TUTTI_ERR_INVALID &&
			      strstr(text, "tutti_barrier: this thread is in an operation"),
		      "%d: %s", answer, text);
	tutti_log_set_sink(sink, NULL);
	write_a_line(); /* what the sink calls is refused, which is a line, too */
	tutti_log_set_sink(NULL, NULL);
	CLAIM(answer == TUTTI_ERR_INVALID && strstr(text, "the sink of"), "%d: %s", answer, text);
	SUCCEEDS(tutti_barrier(comm, NULL));
	asked = own_store(NULL);
	SUCCEEDS(tutti_store_set(asked, "key", "", 0));
	CLAIM(answer == TUTTI_ERR_INVALID &&
		      strstr(text, "this thread is in a function of that store"),
	      "%d: %s", answer, text);
	tutti_store_close(asked);
	return 0;
}

TEST(a_function_that_must_not_call_is_told_so)
{
	way = CALLS_TUTTI;
	HOLDS(.ranks = 2, .body = refused_inside);
}
