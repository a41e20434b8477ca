/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread says of its next call: whose deadline it changes, and that all ranks are told.
 *
 *   test_next_call shm|tcp|mixed */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "harness.h"

#define RANKS	   6
#define SHORT_S	   (machine_may_be_busy() ? 2 : 0.5) /* the others are heard of by then */
#define OUTLIVED_S 0.5
#define SOON_S	   bound_s(5.0) /* the communicator's own deadline is 40 s */

/* Shared by all ranks of a job. */
struct stage {
	atomic_int joined, calling, told;
	char said[RANKS][640];
};

struct play {
	struct stage *stage;
	uint32_t absent; /* mask of ranks that do not come */
	int before;	 /* calls that all make before */
	/* Called by all that come; rank 0 says something of its next call in it. */
	tutti_result_t (*call)(tutti_comm_t comm);
	const char *words;
};

static tutti_result_t shorten(tutti_comm_t comm)
{
	return tutti_comm_rank(comm) == 0 ? next_call_takes(comm, SHORT_S) : TUTTI_OK;
}

static bool is_absent(const struct play *play, tutti_comm_t comm)
{
	return play->absent >> tutti_comm_rank(comm) & 1;
}

static int present(const struct play *play)
{
	return RANKS - __builtin_popcount(play->absent);
}

/* The absent ranks call when the others have been told, and are told the same. */
static int play_rank(tutti_comm_t comm, void *argument)
{
	const struct play *play = argument;
	char *said = play->stage->said[tutti_comm_rank(comm)], missed[64];

	for (int i = 0; i < play->before; i++) { /* in which rank 0 hears of nobody */
		float value = 1;

		SUCCEEDS(tutti_broadcast(comm, &value, &value, 1, TUTTI_FLOAT32, 0, NULL));
	}
	CLAIM(tutti_comm_timeout(comm) == atof(getenv("TUTTI_TIMEOUT")) &&
		      tutti_comm_timeout(NULL) == -1,
	      "the communicator's own deadline is %g s", tutti_comm_timeout(comm));
	meet_at(&play->stage->joined, RANKS);
	if (is_absent(play, comm))
		await_count(&play->stage->told, present(play));
	else /* rank 0 comes last */
		atomic_fetch_add(&play->stage->calling, 1);
	if (tutti_comm_rank(comm) == 0)
		await_count(&play->stage->calling, present(play));
	const double start = seconds_now();
	const tutti_result_t result =
		is_absent(play, comm) ? tutti_barrier(comm, NULL) : play->call(comm);
	const double took = seconds_now() - start;

	snprintf(said, sizeof(play->stage->said[0]), "%s", tutti_last_error(comm));
	atomic_fetch_add(&play->stage->told, 1);
	CLAIM(result == TUTTI_ERR_TIMEOUT, "result %d (%s)", result, said);
	CLAIM(took < SOON_S, "told after %.3f s", took);
	CLAIM(strstr(said, play->words), "\"%s\" does not say \"%s\"", said, play->words);
	snprintf(missed, sizeof(missed), "missed its deadline of %g s: ", SHORT_S);
	CLAIM(strstr(said, missed), "\"%s\" does not say \"%s\"", said, missed);
	return 0;
}

static void all_are_told_after(int before, uint32_t absent,
			       tutti_result_t (*call)(tutti_comm_t comm), const char *words)
{
	struct play play = { shared_memory(sizeof(struct stage)), absent, before, call, words };
	HOLDS(.ranks = RANKS, .body = play_rank, .argument = &play);
	for (int rank = 1; rank < RANKS; rank++)
		assert_string_equal(play.stage->said[rank], play.stage->said[0]);
}

static void all_are_told(uint32_t absent, tutti_result_t (*call)(tutti_comm_t comm),
			 const char *words)
{
	all_are_told_after(0, absent, call, words);
}

static tutti_result_t one_sum(tutti_comm_t comm)
{
	float value = 1, sum;
	const tutti_result_t result = shorten(comm);

	return result ? result
		      : tutti_all_reduce(comm, &value, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

TEST(one_ranks_shorter_deadline_ends_the_call_of_all)
{
	all_are_told(
		1u << 2, one_sum,
		"ranks 0, 1, 3-5 have called it, rank 2 is alive but has not called operation 1");
}

TEST(several_absent_ranks_are_told_together)
{
	all_are_told(
		1u << 1 | 1u << 2 | 1u << 4, one_sum,
		"ranks 0, 3, 5 have called it, ranks 1, 2, 4 are alive but have not called operation 1");
}

TEST(only_the_caller_is_said_to_have_called)
{
	all_are_told(0x3e, one_sum,
		     "rank 0 has called it, ranks 1-5 are alive but have not called operation 1");
}

/* The absent rank is in no call: the control area shows what it called last, or its monitor says
 * so. */
TEST(the_last_call_of_an_absent_rank_is_told)
{
	all_are_told_after(
		2, 1u << 4, one_sum,
		strcmp(transport_chosen, "shm") == 0
			? "rank 4 is alive but has not called operation 3 (its last was operation 2)"
			: "rank 4 is alive but has not called operation 3 (last heard of in operation 2)");
}

static tutti_result_t sums_of_a_group(tutti_comm_t comm)
{
	float values[4] = { 1, 2, 3, 4 }, sums[4];
	tutti_result_t result = shorten(comm);

	if (!result)
		result = tutti_group_begin(comm);
	if (!result)
		result = tutti_all_reduce(comm, values, sums, 2, TUTTI_FLOAT32, TUTTI_SUM, NULL);
	if (!result)
		result = tutti_broadcast(comm, values, sums + 2, 2, TUTTI_FLOAT32, 0, NULL);
	return result ? result : tutti_group_end(comm, NULL);
}

TEST(a_group_has_the_deadline_said_before_it)
{
	all_are_told(1u << 3, sums_of_a_group, "operation 1, ");
}

/* They travel as one. */
static tutti_result_t small_sums_of_a_group(tutti_comm_t comm)
{
	float values[3] = { 1, 2, 3 }, sums[3];
	tutti_result_t result = shorten(comm);

	if (!result)
		result = tutti_group_begin(comm);
	for (int i = 0; i < 3 && !result; i++)
		result = tutti_all_reduce(comm, &values[i], &sums[i], 1, TUTTI_FLOAT32, TUTTI_SUM,
					  NULL);
	return result ? result : tutti_group_end(comm, NULL);
}

TEST(small_sums_of_a_group_have_it_too)
{
	all_are_told(1u << 3, small_sums_of_a_group, "operation 1, ");
}

static tutti_result_t wait_for_a_request(tutti_comm_t comm)
{
	tutti_request_t request;
	tutti_result_t result = shorten(comm);

	if (!result)
		result = tutti_barrier(comm, &request);
	return result ? result : tutti_wait(&request);
}

TEST(a_request_keeps_the_deadline_of_its_call)
{
	all_are_told(1u << 5, wait_for_a_request, "operation 1, barrier(), missed");
}

/* ---- whose call it is */

/* A call that waits for nobody, once the links are there. */
static int send_one(tutti_comm_t comm, bool shortened)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	float value = 1;

	if (shortened)
		SUCCEEDS(next_call_takes(comm, OUTLIVED_S));
	SUCCEEDS(tutti_send(comm, &value, 1, TUTTI_FLOAT32, (rank + 1) % size, NULL));
	SUCCEEDS(tutti_recv(comm, &value, 1, TUTTI_FLOAT32, (rank + size - 1) % size, NULL));
	return 0;
}

/* Longer than its next call would have, had that call not been the one before. */
static int wait_for_late(tutti_comm_t comm, atomic_int *released)
{
	if (tutti_comm_rank(comm) == 1) {
		const double start = seconds_now();

		while (seconds_now() - start < 3 * OUTLIVED_S)
			look_again();
		atomic_store(released, 1);
	}
	SUCCEEDS(tutti_barrier(comm, NULL));
	CLAIM(atomic_load(released), "the barrier ended before rank 1 came");
	return 0;
}

static int outlive_it(tutti_comm_t comm, void *argument)
{
	return send_one(comm, false) || send_one(comm, true) || wait_for_late(comm, argument);
}

JOB(only_the_next_call_is_concerned, .ranks = 3, .body = outlive_it, .shares = sizeof(atomic_int))

static int waste_it(tutti_comm_t comm, void *argument)
{
	atomic_int *released = argument;
	float value = 1, sum;

	SUCCEEDS(next_call_takes(comm, OUTLIVED_S));
	CLAIM(tutti_all_reduce(comm, &value, &sum, 1, TUTTI_FLOAT32, -7, NULL) == TUTTI_ERR_INVALID,
	      "operation -7 is taken for one");
	return wait_for_late(comm, released);
}

JOB(an_invalid_call_takes_it, .ranks = 3, .body = waste_it, .shares = sizeof(atomic_int))

static int refuse(tutti_comm_t comm, void *argument)
{
	tutti_call_t call = TUTTI_CALL_INIT;

	CLAIM(tutti_next_call(NULL, &call) == TUTTI_ERR_INVALID, "no communicator is none");
	CLAIM(tutti_next_call(comm, NULL) == TUTTI_ERR_INVALID, "no call is none");
	call.size = 1;
	CLAIM(tutti_next_call(comm, &call) == TUTTI_ERR_INVALID,
	      "a struct of another size is taken");
	call = (tutti_call_t)TUTTI_CALL_INIT;
	for (int i = 0; i < 4; i++) {
		call.timeout_s = (const double[]){ -1, NAN, INFINITY, 2e9 }[i];
		CLAIM(tutti_next_call(comm, &call) == TUTTI_ERR_INVALID,
		      "a deadline of %g s is taken", call.timeout_s);
	}
	call.timeout_s = 1;
	SUCCEEDS(tutti_group_begin(comm));
	CLAIM(tutti_next_call(comm, &call) == TUTTI_ERR_INVALID, "it is taken inside a group");
	SUCCEEDS(tutti_group_end(comm, NULL));
	int rank = 7;
	CLAIM(tutti_comm_error(comm, &rank) == TUTTI_OK && rank == -1,
	      "a healthy communicator blames rank %d", rank);
	CLAIM(tutti_comm_error(NULL, NULL) == TUTTI_ERR_INVALID, "no communicator is healthy");
	return 0;
}

JOB(what_makes_no_sense_is_refused, .ranks = 1, .body = refuse)
