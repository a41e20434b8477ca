/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that does not come: the others' deadline passes, and they are told which operation waited
 * for whom.
 *
 *   test_deadline shm|tcp|mixed */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS	   3
#define DEADLINE_S (machine_may_be_busy() ? 1 : 0.5) /* from when all ranks are there */
#define LATE_S	   (DEADLINE_S + bound_s(1.5))	     /* told by then */

struct stage {
	atomic_int joined, told;
	_Atomic pid_t pid;
	char said[RANKS][640]; /* what each rank was told */
};

struct absence {
	tutti_result_t (*call)(tutti_comm_t comm, int absent, float *send, float *recv);
	const char *words;	/* of the operation */
	const char *not_called; /* how the absent rank's state is told */
	bool stopped;		/* instead of going on elsewhere */
};

struct play {
	const struct absence *absence;
	int absent;
	struct stage *stage;
};

static tutti_result_t barrier(tutti_comm_t comm, int absent, float *send, float *recv)
{
	return tutti_barrier(comm, NULL);
}

static tutti_result_t small_sum(tutti_comm_t comm, int absent, float *send, float *recv)
{
	return tutti_all_reduce(comm, send, recv, 2, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static tutti_result_t large_sum(tutti_comm_t comm, int absent, float *send, float *recv)
{
	return tutti_all_reduce(comm, send, recv, 1u << 18, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static tutti_result_t receive(tutti_comm_t comm, int absent, float *send, float *recv)
{
	return tutti_recv(comm, recv, 2, TUTTI_FLOAT32, absent, NULL);
}

static tutti_result_t pending(tutti_comm_t comm, int absent, float *send, float *recv)
{
	tutti_request_t request;
	const tutti_result_t result =
		tutti_all_gather(comm, send, recv, 8, TUTTI_FLOAT32, &request);

	return result ? result : tutti_wait(&request);
}

static int be_absent(const struct play *play, tutti_comm_t comm)
{
	if (play->absence->stopped)
		raise(SIGSTOP);
	else
		await_count(&play->stage->told, RANKS - 1);
	const tutti_result_t result = tutti_barrier(comm, NULL);
	CLAIM(result == TUTTI_ERR_TIMEOUT, "back again, the absent rank gets %d", result);
	return 0;
}

static int wait_for_absent(const struct play *play, tutti_comm_t comm)
{
	float *send = calloc(1u << 18, sizeof(float)), *recv = calloc(1u << 18, sizeof(float));

	CLAIM(!play->absence->stopped || await_stop(atomic_load(&play->stage->pid)),
	      "the absent rank has ended");
	SUCCEEDS(next_call_takes(comm, DEADLINE_S));
	const double start = seconds_now();
	const tutti_result_t result = play->absence->call(comm, play->absent, send, recv);
	const double took = seconds_now() - start;
	char absent[64], missed[64];

	snprintf(play->stage->said[tutti_comm_rank(comm)], sizeof(play->stage->said[0]), "%s",
		 tutti_last_error(comm));
	if (atomic_fetch_add(&play->stage->told, 1) == RANKS - 2 && play->absence->stopped)
		kill(atomic_load(&play->stage->pid), SIGCONT);
	snprintf(absent, sizeof(absent), "rank %d is %s", play->absent,
		 play->absence->stopped ? "stopped (state T) and has not called operation 1"
					: play->absence->not_called);
	CLAIM(result == TUTTI_ERR_TIMEOUT, "result %d (%s)", result, tutti_last_error(comm));
	CLAIM(took < LATE_S, "told after %.3f s", took);
	CLAIM(strstr(tutti_last_error(comm), play->absence->words), "\"%s\" does not name \"%s\"",
	      tutti_last_error(comm), play->absence->words);
	CLAIM(strstr(tutti_last_error(comm), absent), "\"%s\" does not say \"%s\"",
	      tutti_last_error(comm), absent);
	snprintf(missed, sizeof(missed), "missed its deadline of %g s: ", DEADLINE_S);
	CLAIM(strstr(tutti_last_error(comm), missed), "\"%s\" does not say \"%s\"",
	      tutti_last_error(comm), missed);
	int rank;
	CLAIM(tutti_comm_error(comm, &rank) == result && rank == play->absent,
	      "tutti_comm_error names rank %d", rank);
	free(send);
	free(recv);
	return 0;
}

static int play_rank(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_comm_t comm = NULL;

	if (rank == play->absent)
		atomic_store(&play->stage->pid, getpid());
	SUCCEEDS(tutti_init(NULL, &comm));
	meet_at(&play->stage->joined, RANKS);
	const int failed =
		rank == play->absent ? be_absent(play, comm) : wait_for_absent(play, comm);
	tutti_comm_destroy(comm);
	return failed;
}

static void all_say_the_same(const struct stage *stage, int absent)
{
	const int one = absent == 0 ? 1 : 0, other = absent == 2 ? 1 : 2;

	assert_string_equal(stage->said[one], stage->said[other]);
}

static void all_name_the_absent(const struct absence *absence)
{
	struct stage *stage = shared_memory(sizeof(*stage));

	for (int absent = 0; absent < RANKS; absent++) {
		struct play play = { absence, absent, stage };

		memset(stage, 0, sizeof(*stage));
		HOLDS(.ranks = RANKS, .whole = play_rank, .argument = &play, .limit_s = 10);
		all_say_the_same(stage, absent);
	}
}

#define SCENE(name, call, words, not_called, stopped)                                              \
	TEST(name)                                                                                 \
	{                                                                                          \
		static const struct absence it = { call, words, not_called, stopped };             \
		all_name_the_absent(&it);                                                          \
	}
#define NOT_CALLED "alive but has not called operation 1"
#define NOT_SENT   "alive but has not called the send"

SCENE(a_barrier_has_a_deadline, barrier, "operation 1, barrier(), missed its deadline of ",
      NOT_CALLED, false)
SCENE(a_small_sum_has_a_deadline, small_sum, "all_reduce(float32 × 2, sum)", NOT_CALLED, false)
SCENE(a_large_sum_has_a_deadline, large_sum, "all_reduce(float32 × 262144, sum)", NOT_CALLED, false)
SCENE(a_receive_has_a_deadline, receive, "(float32 × 2)", NOT_SENT, false)
SCENE(a_request_has_a_deadline, pending, "all_gather(float32 × 8)", NOT_CALLED, false)
SCENE(a_stopped_rank_is_named_and_told, small_sum, "all_reduce(float32 × 2, sum)", NOT_CALLED, true)

/* ---- of several that have not called */

struct blame {
	atomic_int joined, told;
	_Atomic pid_t stopped; /* or 0 */
	int first;	       /* calls operation 1; the other of ranks 1 and 2 calls nothing */
	int blamed;
	bool stops; /* the first one, then */
};

static tutti_result_t call_within(tutti_comm_t comm, double seconds, tutti_request_t *request)
{
	const tutti_result_t result = next_call_takes(comm, seconds);

	return result ? result : tutti_barrier(comm, request);
}

static tutti_result_t call_once(struct blame *blame, tutti_comm_t comm)
{
	tutti_request_t request = NULL;
	const tutti_result_t result = call_within(comm, 20, &request);

	if (!result && blame->stops) {
		atomic_store(&blame->stopped, getpid());
		raise(SIGSTOP);
	}
	return result ? result : tutti_wait(&request);
}

static tutti_result_t call_late(struct blame *blame, tutti_comm_t comm)
{
	await_count(&blame->told, 1);
	return tutti_barrier(comm, NULL);
}

/* The only rank whose deadline passes, in operation 2. */
static tutti_result_t miss_it(struct blame *blame, tutti_comm_t comm)
{
	tutti_request_t earlier = NULL;
	tutti_result_t result = call_within(comm, 20, &earlier);

	if (blame->stops) {
		await_count(&blame->stopped, 1);
		CLAIM(await_stop(atomic_load(&blame->stopped)), "rank %d has ended", blame->first);
	}
	if (!result)
		result = call_within(comm, 1, NULL);
	atomic_store(&blame->told, 1);
	if (blame->stops)
		kill(atomic_load(&blame->stopped), SIGCONT);
	tutti_wait(&earlier);
	return result;
}

static int play_blame(tutti_comm_t comm, void *argument)
{
	struct blame *blame = argument;
	const int rank = tutti_comm_rank(comm);
	int named = -1;

	meet_at(&blame->joined, RANKS);
	const tutti_result_t result = (rank == 0	      ? miss_it
				       : rank == blame->first ? call_once
							      : call_late)(blame, comm);
	CLAIM(result == TUTTI_ERR_TIMEOUT, "result %d (%s)", result, tutti_last_error(comm));
	CLAIM(strstr(tutti_last_error(comm), "not called operation 2"),
	      "\"%s\" is about something else", tutti_last_error(comm));
	CLAIM(tutti_comm_error(comm, &named) == result && named == blame->blamed,
	      "rank %d is blamed, not rank %d: %s", named, blame->blamed, tutti_last_error(comm));
	return 0;
}

static void is_blamed(int blamed, int first, bool stops)
{
	struct blame *blame = shared_memory(sizeof(*blame));

	blame->first = first;
	blame->blamed = blamed;
	blame->stops = stops;
	HOLDS(.ranks = RANKS, .body = play_blame, .argument = blame, .limit_s = 20);
}

/* The other may wait for it. */
TEST(of_two_the_one_that_is_further_behind_is_blamed)
{
	is_blamed(2, 1, false);
	is_blamed(1, 2, false);
}

TEST(a_stopped_one_is_blamed_before_one_that_is_further_behind)
{
	is_blamed(1, 1, true);
	is_blamed(2, 2, true);
}

/* ---- two that send to each other */

#define LONG (1u << 22) /* elements: more than any link takes without a receive */

struct senders {
	atomic_int joined, told;
	uint32_t answer;   /* elements that rank 1 sends to rank 0 before it receives; rank 0 sends
			      LONG of them */
	const char *words; /* of the error message */
};

static int play_senders(tutti_comm_t comm, void *argument)
{
	struct senders *senders = argument;
	const int rank = tutti_comm_rank(comm);
	float *elements = calloc(LONG, sizeof(*elements));
	tutti_result_t result = TUTTI_OK;

	meet_at(&senders->joined, RANKS);
	if (rank < 2)
		SUCCEEDS(next_call_takes(comm, DEADLINE_S));
	if (rank < 2)
		result = tutti_send(comm, elements, rank == 0 ? LONG : senders->answer,
				    TUTTI_FLOAT32, 1 - rank, NULL);
	if (rank == 1 && !result) /* it was short, and is on its way */
		await_count(&senders->told, 1);
	if (rank == 0 || (rank == 1 && result))
		atomic_fetch_add(&senders->told, 1);
	if (!result) /* the third one, too, is to hear of them, and misses no deadline of its own */
		result = call_within(comm, 20, NULL);
	CLAIM(result == TUTTI_ERR_TIMEOUT, "result %d (%s)", result, tutti_last_error(comm));
	CLAIM(strstr(tutti_last_error(comm), senders->words), "\"%s\" does not say \"%s\"",
	      tutti_last_error(comm), senders->words);
	free(elements);
	return 0;
}

static void senders_are_told(uint32_t answer, const char *words)
{
	struct senders *senders = shared_memory(sizeof(*senders));

	senders->answer = answer;
	senders->words = words;
	HOLDS(.ranks = RANKS, .body = play_senders, .argument = senders, .limit_s = 20);
}

TEST(two_that_send_first_are_told_that_both_wait_in_sends)
{
	senders_are_told(LONG, "sends 16777216 bytes to rank ");
	senders_are_told(LONG - 1, "both ranks wait in sends");
}

TEST(a_send_that_has_ended_does_not_wait)
{
	senders_are_told(2, "has sent 8 bytes to rank 0, which has not called the receive: has "
			    "rank 1 called its receive?");
}

/* ---- rendezvous */

/* Rank 0 has a short deadline, which begins when the others are there. */
static int join_or_not(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;
	tutti_store_t store = NULL;
	uint32_t number;
	size_t length = sizeof(number);
	char other[24], absent[64];

	if (rank == play->absent) {
		await_count(&play->stage->told, RANKS - 1);
		return 0;
	}
	snprintf(other, sizeof(other), "comm/begun/%d", RANKS - play->absent);
	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), rank == 0, 0, &store));
	if (rank == 0) {
		SUCCEEDS(tutti_store_get(store, other, &number, &length, USUAL_DEADLINE_S));
		config.timeout_s = DEADLINE_S;
	}
	const double start = seconds_now();
	const tutti_result_t result = tutti_comm_create(store, rank, RANKS, &config, &comm);
	const double took = seconds_now() - start;
	CLAIM(result == TUTTI_ERR_TIMEOUT, "tutti_comm_create: %d (%s)", result,
	      tutti_last_error(NULL));
	CLAIM(!comm, "a communicator came of it");
	CLAIM(took < 2 * LATE_S, "told after %.3f s", took);
	snprintf(absent, sizeof(absent), "rank %d has not come to the rendezvous of %d ranks",
		 play->absent, RANKS);
	CLAIM(strstr(tutti_last_error(NULL), absent), "\"%s\" does not say \"%s\"",
	      tutti_last_error(NULL), absent);
	meet_at(&play->stage->told, RANKS - 1); /* who hosts the store stays */
	tutti_store_close(store);
	return 0;
}

/* Rank 0 hosts the store: its deadline is everybody's. */
TEST(the_hosts_deadline_ends_the_rendezvous_for_all)
{
	for (int absent = 1; absent < RANKS; absent++) {
		struct play play = { NULL, absent, shared_memory(sizeof(*play.stage)) };
		HOLDS(.ranks = RANKS, .whole = join_or_not, .argument = &play, .limit_s = 20);
	}
}

/* Without rank 0 there is nobody to ask. */
static int join_without_a_host(int rank, void *argument)
{
	tutti_comm_t comm = NULL;

	if (rank == 0)
		return 0;
	const double start = seconds_now();
	const tutti_result_t result = tutti_init(NULL, &comm);
	const double took = seconds_now() - start;
	CLAIM(result == TUTTI_ERR_TIMEOUT, "tutti_init: %d (%s)", result, tutti_last_error(NULL));
	CLAIM(!comm, "a communicator came of it");
	CLAIM(took < 2 * LATE_S, "told after %.3f s", took);
	CLAIM(strstr(tutti_last_error(NULL), "nobody serves the store"), "\"%s\"",
	      tutti_last_error(NULL));
	return 0;
}

TEST(rendezvous_has_a_deadline)
{
	static const char *const environment[] = { "TUTTI_TIMEOUT=0.5", NULL };
	HOLDS(.ranks = RANKS, .env = environment, .whole = join_without_a_host, .limit_s = 20);
}

static int lose_the_host(int rank, void *argument)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store;
	uint32_t number;
	size_t length = sizeof(number);

	if (rank == 0) {
		SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), 1, 0, &store));
		SUCCEEDS(tutti_store_get(store, "comm/begun/1", &number, &length, 10));
		raise(SIGKILL);
	}
	if (rank != 1)
		return 0;
	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), 0, 0, &store));
	const tutti_result_t result = tutti_comm_create(store, rank, RANKS, NULL, &comm);
	CLAIM(result == TUTTI_ERR_PEER_LOST, "tutti_comm_create: %d (%s)", result,
	      tutti_last_error(NULL));
	CLAIM(strstr(tutti_last_error(NULL), "the host of the store"), "\"%s\" names no host",
	      tutti_last_error(NULL));
	tutti_store_close(store);
	return 0;
}

/* No deadline has passed then. */
JOB(a_host_that_is_killed_is_lost, .ranks = RANKS, .whole = lose_the_host, .limit_s = 20,
    .expect_signal = SIGKILL, .victims = 1)
