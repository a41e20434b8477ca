/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that came to the rendezvous, told all where it can be reached, and then fails or dies
 * before it has joined: the others are told in time.
 *
 *   test_rendezvous shm|tcp|mixed */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

#define RANKS  4
#define SOON_S bound_s(8.0)

struct play {
	int victim;
	void (*end)(void); /* the victim's, between exchange and join */
};

/* A store in which the victim notices that the exchange is over. */
struct noticing {
	tutti_store_t store;
	bool victim;
	void (*end)(void);
};

static int noticing_set(void *context, const char *key, const void *value, size_t length)
{
	struct noticing *n = context;
	const tutti_result_t result = tutti_store_set(n->store, key, value, length);

	if (result == TUTTI_OK && n->victim && strstr(key, "/met"))
		n->end();
	return store_error(result);
}

static int noticing_get(void *context, const char *key, void *value, size_t *length,
			double timeout_s)
{
	struct noticing *n = context;

	return store_error(tutti_store_get(n->store, key, value, length, timeout_s));
}

static void no_more_descriptors(void)
{
	const int next = dup(0);
	struct rlimit limit;

	close(next);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)next;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void die(void)
{
	raise(SIGKILL);
}

/* One process more hosts the store, until all that are left are done: nobody's end takes it away.
 */
static int host_store(const struct play *play)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store;
	char key[32];

	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), 1, 0, &store));
	for (int rank = 0; rank < RANKS; rank++) {
		size_t length = 0;

		if (rank == play->victim)
			continue;
		snprintf(key, sizeof(key), "done/%d", rank);
		SUCCEEDS(tutti_store_get(store, key, NULL, &length, 60));
	}
	tutti_store_close(store);
	return 0;
}

static int check(const struct play *play, int rank, tutti_comm_t comm, tutti_result_t result,
		 double took)
{
	const char *error = tutti_last_error(comm);
	char words[32];

	CLAIM(took < SOON_S, "told after %.3f s (%s)", took, error);
	if (rank == play->victim) {
		CLAIM(result < 0 && strstr(error, "Too many open files"), "the victim: %d (%s)",
		      result, error);
		return 0;
	}
	snprintf(words, sizeof(words), "rank %d", play->victim);
	CLAIM(result == TUTTI_ERR_PEER_LOST, "result %d (%s)", result, error);
	CLAIM(strstr(error, words), "\"%s\" does not name %s", error, words);
	return 0;
}

static int meet(int rank, void *argument)
{
	const tutti_store_ops_t ops = { sizeof(ops), noticing_set, noticing_get, NULL };
	const struct play *play = argument;
	struct noticing noticing = { .victim = rank == play->victim, .end = play->end };
	tutti_store_t store;
	tutti_comm_t comm = NULL;
	char key[32];

	if (rank == RANKS)
		return host_store(play);
	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), 0, 0, &noticing.store));
	SUCCEEDS(tutti_store_create(&ops, &noticing, &store));
	const double start = seconds_now();
	tutti_result_t result = tutti_comm_create(store, rank, RANKS, NULL, &comm);
	if (!result)
		result = tutti_barrier(comm, NULL);
	const int failed = check(play, rank, comm, result, seconds_now() - start);
	snprintf(key, sizeof(key), "done/%d", rank);
	SUCCEEDS(tutti_store_set(noticing.store, key, NULL, 0));
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	tutti_store_close(noticing.store);
	return failed;
}

static void ends(void (*end)(void))
{
	for (int victim = 0; victim < RANKS; victim++) {
		struct play play = { victim, end };
		const struct job job = { .ranks = RANKS + 1,
					 .whole = meet,
					 .argument = &play,
					 .expect_signal = end == die ? SIGKILL : 0,
					 .victims = end == die ? 1u << victim : 0 };

		assert_int_equal(run_job(&job), 0);
	}
}

static void a_rank_that_dies_before_it_joins_is_not_waited_for(void **state)
{
	ends(die);
}

static void a_rank_without_descriptors_is_not_waited_for(void **state)
{
	ends(no_more_descriptors);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_that_dies_before_it_joins_is_not_waited_for),
		cmocka_unit_test(a_rank_without_descriptors_is_not_waited_for),
	};

	if (choose_transport(argc, argv))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
