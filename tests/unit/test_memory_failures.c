/* SPDX-License-Identifier: BSD-3-Clause */
/* Fails each allocation of one rank in turn, also those of memory that ranks share: the first,
 * then the second, until its story passes without reaching the one to fail. Whatever fails, the
 * rank says that memory could not be had, the others learn of it without waiting for their
 * deadline, and everything can be destroyed. Ranks are threads; the linker hands their
 * allocations to this file. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "transport.h"
#include "tutti/tutti.h"

#define RANKS 3
#define COUNT 20000 /* more than fits where short payloads go */

/* ---------------------------------------------------------------- allocations that fail when told
 * to */

static _Thread_local int left;	  /* allocations of this thread until the one that fails; 0: none
				   * does */
static _Thread_local bool failed; /* it has */

static bool fails(void)
{
	if (left == 0 || --left > 0)
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

#define FAILING(type, name, parameters, arguments, failure)                                        \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		return fails() ? failure : __real_##name arguments;                                \
	}

FAILING(void *, malloc, (size_t size), (size), NULL)
FAILING(void *, calloc, (size_t count, size_t size), (count, size), NULL)
FAILING(void *, realloc, (void *memory, size_t size), (memory, size), NULL)
FAILING(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), NULL)
FAILING(void *, mmap64, (void *at, size_t bytes, int rights, int flags, int fd, off_t offset),
	(at, bytes, rights, flags, fd, offset), MAP_FAILED)
FAILING(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
FAILING(int, ftruncate64, (int fd, off_t bytes), (fd, bytes), -1)
FAILING(int, posix_fallocate64, (int fd, off_t offset, off_t bytes), (fd, offset, bytes), ENOMEM)

/* ---------------------------------------------------------------- the story of a rank */

struct scene {
	tutti_store_t store;
	const char *transport, *algorithm;
	int victim;
	int nth;			      /* allocation of the victim that fails */
	enum { CREATE, OPERATE, SPLIT } part; /* in which it happens */
	pthread_barrier_t made;		      /* by all, or failed */
};

struct rank {
	struct scene *scene;
	pthread_t thread;
	int number;
	bool reached; /* its failure */
	tutti_result_t result;
	char error[512];
	float send[COUNT * RANKS], recv[COUNT * RANKS];
};

static tutti_result_t group(struct rank *rank, tutti_comm_t comm)
{
	const int to = (rank->number + 1) % RANKS, from = (rank->number + RANKS - 1) % RANKS;
	const size_t counts[RANKS] = { 10, 20, 30 };
	tutti_request_t request = NULL;
	tutti_result_t result = tutti_group_begin(comm);

	if (result)
		return result;
	/* the group's end tells of a call that could not be kept */
	tutti_all_reduce(comm, rank->send, rank->recv, 10, TUTTI_FLOAT32, TUTTI_SUM, NULL);
	tutti_all_reduce(comm, rank->send, rank->recv + 10, 20, TUTTI_FLOAT32, TUTTI_SUM, NULL);
	tutti_all_gather_v(comm, rank->send, rank->recv + 30, counts, NULL, TUTTI_FLOAT32, NULL);
	tutti_send(comm, rank->send, 100, TUTTI_FLOAT32, to, NULL);
	tutti_recv(comm, rank->recv + 100, 100, TUTTI_FLOAT32, from, NULL);
	result = tutti_group_end(comm, &request);
	return result ? result : tutti_wait(&request);
}

static tutti_result_t split(struct rank *rank, tutti_comm_t comm)
{
	tutti_comm_t part;
	tutti_result_t result = tutti_comm_split(comm, 0, -rank->number, &part);

	if (result)
		return result;
	result = tutti_barrier(part, NULL);
	/* the part knows who had no memory and left; its error message goes with it */
	if (result)
		snprintf(rank->error, sizeof(rank->error), "%s", tutti_last_error(part));
	tutti_comm_destroy(part);
	return result;
}

static tutti_result_t operate(struct rank *rank, tutti_comm_t comm)
{
	const double two = 2;
	tutti_request_t request = NULL;
	tutti_op_t op;
	tutti_result_t result = tutti_all_reduce(comm, rank->send, rank->recv, COUNT, TUTTI_FLOAT32,
						 TUTTI_SUM, NULL);

	if (!result)
		result = tutti_all_to_all(comm, rank->recv, rank->recv, 100, TUTTI_FLOAT32,
					  &request);
	if (!result)
		result = tutti_wait(&request);
	if (!result)
		result = tutti_scan(comm, rank->send, rank->recv, 100, TUTTI_FLOAT32, TUTTI_SUM,
				    NULL);
	if (!result)
		result = group(rank, comm);
	if (!result)
		result = tutti_op_create_premul_sum(comm, &two, TUTTI_FLOAT64, &op);
	if (result == TUTTI_ERR_NO_MEMORY && rank->reached)
		tutti_comm_abort(comm, "no operation");
	if (!result)
		result = tutti_all_reduce(comm, rank->send, rank->recv, 100, TUTTI_FLOAT64, op,
					  NULL);
	return result;
}

static void arm(struct rank *rank)
{
	if (rank->number == rank->scene->victim)
		left = rank->scene->nth;
}

static void *live(void *argument)
{
	struct rank *rank = argument;
	struct scene *scene = rank->scene;
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm;

	config.transports = scene->transport;
	config.algorithm = scene->algorithm;
	config.timeout_s = 60;
	failed = false;
	rank->error[0] = '\0';
	if (scene->part == CREATE)
		arm(rank);
	rank->result = tutti_comm_create(scene->store, rank->number, RANKS, &config, &comm);
	if (scene->part != CREATE) {
		pthread_barrier_wait(&scene->made);
		arm(rank);
		if (!rank->result)
			rank->result =
				scene->part == OPERATE ? operate(rank, comm) : split(rank, comm);
	}
	left = 0;
	rank->reached = failed;
	if (!rank->error[0])
		snprintf(rank->error, sizeof(rank->error), "%s", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	return NULL;
}

/* Did the victim's nth allocation exist? */
static bool play(struct scene *scene)
{
	static struct rank ranks[RANKS];
	const uint64_t begun = tt_now();

	pthread_barrier_init(&scene->made, NULL, RANKS);
	for (int i = 0; i < RANKS; i++) {
		ranks[i].scene = scene;
		ranks[i].number = i;
		assert_int_equal(pthread_create(&ranks[i].thread, NULL, live, &ranks[i]), 0);
	}
	for (int i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	pthread_barrier_destroy(&scene->made);
	const bool reached = ranks[scene->victim].reached;
	const tutti_result_t own = ranks[scene->victim].result;
	for (int i = 0; i < RANKS; i++) {
		if (ranks[i].result && (!reached || !ranks[i].error[0]))
			fail_msg("%s: allocation %d of rank %d: rank %d: %s: \"%s\"",
				 scene->transport, scene->nth, scene->victim, i,
				 tutti_strerror(ranks[i].result), ranks[i].error);
	}
	if (own && own != TUTTI_ERR_NO_MEMORY)
		fail_msg("allocation %d of rank %d failed, but it says: %s", scene->nth,
			 scene->victim, ranks[scene->victim].error);
	if (tt_now() - begun > 10000000000u)
		fail_msg("allocation %d of rank %d: the others were not told", scene->nth,
			 scene->victim);
	return reached;
}

static tutti_store_t open_store(void)
{
	static int number;
	char address[64];
	tutti_store_t store;

	snprintf(address, sizeof(address), "unix:tutti-test-memory-%ld-%d", (long)getpid(),
		 number++);
	assert_ok(tutti_store_open(address, 1, 30, &store));
	return store;
}

static void fail_each(const char *transport, const char *algorithm, int part)
{
	struct scene scene = { .transport = transport, .algorithm = algorithm, .part = part };
	bool reached;

	for (scene.victim = 0; scene.victim < 2; scene.victim++) {
		scene.nth = 0;
		do {
			scene.nth++;
			scene.store = open_store(); /* half a rendezvous is not the next one's */
			reached = play(&scene);
			tutti_store_close(scene.store);
		} while (reached);
		assert_true(scene.nth > 8);
	}
}

TEST(no_memory_in_create_is_an_error)
{
	fail_each("shm", NULL, CREATE);
	fail_each("tcp", NULL, CREATE);
}

TEST(no_memory_in_operations_is_an_error)
{
	fail_each("shm", "board", OPERATE);
	fail_each("shm", "ring", OPERATE);
	fail_each("tcp", NULL, OPERATE);
	fail_each("loop", NULL, OPERATE);
}

TEST_OF(no_memory_in_split_is_an_error, fail_each("shm", NULL, SPLIT))
