/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator leaves behind in its thread: a rank alone shows it. */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>

#include "tutti_asserts.h"
#include "test_bytes_in_use.h"
#include "tutti/tutti.h"

static tutti_comm_t alone(void)
{
	tutti_comm_t comm;

	assert_ok(tutti_comm_create(NULL, 0, 1, NULL, &comm));
	return comm;
}

/* 7, or where the call failed or was kept for a group, 0. */
static int32_t sum_alone(tutti_comm_t comm)
{
	static const int32_t send = 7;
	int32_t recv = 0;

	tutti_all_reduce(comm, &send, &recv, 1, TUTTI_INT32, TUTTI_SUM, NULL);
	return recv;
}

TEST(an_open_group_ends_with_its_communicator)
{
	/* the next communicator usually lies where the last one did */
	for (int i = 0; i < 100; i++) {
		tutti_comm_t comm = alone();

		assert_int_equal(sum_alone(comm), 7);
		assert_ok(tutti_group_begin(comm));
		assert_int_equal(sum_alone(comm), 0);
		tutti_comm_destroy(comm);
	}
}

/* A thread that opens a group, and calls again on what lies at the same place when another has
 * destroyed its communicator. */
struct opener {
	tutti_comm_t comm;
	sem_t turn, done;
	int32_t sum;
};

static void *open_and_call_again(void *argument)
{
	struct opener *o = argument;

	for (;;) {
		sem_wait(&o->turn);
		if (!o->comm)
			return NULL;
		tutti_group_begin(o->comm);
		sum_alone(o->comm);
		sem_post(&o->done);
		sem_wait(&o->turn);
		o->sum = sum_alone(o->comm);
		sem_post(&o->done);
	}
}

TEST(a_group_that_another_thread_has_open_ends_with_its_communicator)
{
	struct opener o = { .comm = NULL };
	int at_the_same_place = 0;
	pthread_t thread;

	sem_init(&o.turn, 0, 0);
	sem_init(&o.done, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, open_and_call_again, &o), 0);
	for (int i = 0; i < 20; i++) {
		o.comm = alone();
		const tutti_comm_t before = o.comm;
		sem_post(&o.turn);
		sem_wait(&o.done);
		tutti_comm_destroy(o.comm);
		o.comm = alone();
		at_the_same_place += o.comm == before;
		sem_post(&o.turn);
		sem_wait(&o.done);
		assert_int_equal(o.sum, 7);
		tutti_comm_destroy(o.comm);
	}
	o.comm = NULL;
	sem_post(&o.turn);
	pthread_join(thread, NULL);
	sem_destroy(&o.turn);
	sem_destroy(&o.done);
	print_message("%d of 20 communicators lay where the one before had\n", at_the_same_place);
}

/* It has no end to free it by. */
static void *leave_a_group_open(void *argument)
{
	bool kept = tutti_group_begin(argument) == TUTTI_OK;

	for (int i = 0; i < 100; i++)
		kept &= sum_alone(argument) == 0;
	return kept ? argument : NULL;
}

TEST(a_thread_takes_its_open_groups_with_it)
{
	tutti_comm_t comm = alone();
	size_t before = 0;

	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *kept;

		assert_int_equal(pthread_create(&thread, NULL, leave_a_group_open, comm), 0);
		pthread_join(thread, &kept);
		assert_non_null(kept);
		if (i == 0)
			before = bytes_in_use();
	}
	assert_true(bytes_in_use() < before + 8000); /* what they take is more than 200 KB */
	assert_int_equal(sum_alone(comm), 7);
	tutti_comm_destroy(comm);
}

/* One operation, and two that travel as one, which nobody waits for. */
static void leave_requests(void)
{
	const int32_t send[2] = { 7, 8 };
	int32_t recv[3] = { 0 };
	tutti_request_t requests[2];
	tutti_comm_t comm = alone();

	assert_ok(tutti_all_reduce(comm, send, recv, 1, TUTTI_INT32, TUTTI_SUM, &requests[0]));
	assert_ok(tutti_group_begin(comm));
	for (int i = 0; i < 2; i++)
		assert_ok(tutti_all_reduce(comm, &send[i], &recv[1 + i], 1, TUTTI_INT32, TUTTI_SUM,
					   NULL));
	assert_ok(tutti_group_end(comm, &requests[1]));
	tutti_comm_destroy(comm);
}

TEST(requests_end_with_their_communicator)
{
	leave_requests();
	const size_t before = bytes_in_use();
	for (int i = 0; i < 100; i++)
		leave_requests();
	assert_true(bytes_in_use() < before + 8000); /* what they take is 30 KB */
}

/* What is kept of calls that come again is bounded where they do not. */
TEST(counts_that_never_come_again_keep_no_memory)
{
	static float values[20000];
	tutti_plan_info_t info = { .size = sizeof(info) };
	tutti_comm_t comm = alone();
	const size_t before = bytes_in_use();

	for (size_t n = 1; n <= 20000; n++) {
		assert_ok(
			tutti_all_reduce(comm, values, values, n, TUTTI_FLOAT32, TUTTI_SUM, NULL));
		assert_ok(tutti_comm_last_plan(comm, &info));
	}
	assert_true(bytes_in_use() < before + (4u << 20));
	tutti_comm_destroy(comm);
}
