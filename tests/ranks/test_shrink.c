/* SPDX-License-Identifier: BSD-3-Clause */
/* Survivors go on: whoever is gone, and whenever it went, those who are left agree on who they are
 * and compute right results.
 *
 *   test_shrink shm|tcp|rdma|mixed [CLAIMS]      CLAIMS: a pattern of their names, such as "the_*" */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "held.h"
#include "tests.h"
#include "harness.h"

#define MOST   12
#define SOON_S bound_s(10.0) /* without anybody who is waited for until the deadline */

/* Shared by all ranks of a job. */
struct stage {
	atomic_int joined, stopped;
	atomic_int round[MOST]; /* ranks that have come so far */
	_Atomic pid_t pid[MOST];
};

#define WAVES 4

struct play {
	int ranks;
	uint32_t victims;     /* bit mask */
	uint32_t dies[WAVES]; /* of them, one after another; 0: no more */
	/* What a rank does with the communicator, and gives back another one. */
	int (*act)(tutti_comm_t *comm, int rank, const struct play *play);
	struct stage *stage;
};

static bool is_victim(const struct play *play, int rank)
{
	return play->victims >> rank & 1;
}

/* The members that `comm` was made of are those that are not in `gone`. */
static int is_of_the_rest(tutti_comm_t comm, int old_rank, int old_size, uint32_t gone)
{
	int expected[MOST], size = 0;

	for (int rank = 0; rank < old_size; rank++) {
		if (rank == old_rank)
			CLAIM(tutti_comm_rank(comm) == size, "rank %d, expected %d",
			      tutti_comm_rank(comm), size);
		if (!(gone >> rank & 1))
			expected[size++] = rank;
	}
	CLAIM(tutti_comm_size(comm) == size, "size %d, expected %d", tutti_comm_size(comm), size);
	return all_ways_compute(comm, old_rank, expected);
}

/* A rank that begins and ends with nothing open, and joins in between. */
static int play_with(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_comm_t comm = NULL;
	void *memory;

	SUCCEEDS(tutti_mem_alloc(1, &memory)); /* the heap's descriptor stays with the process */
	tutti_mem_free(memory);
	atomic_store(&play->stage->pid[rank], getpid());
	const int descriptors = open_descriptors();
	SUCCEEDS(tutti_init(NULL, &comm));
	meet_at(&play->stage->joined, play->ranks); /* nobody is in tutti_init() any more */
	const int failed = play->act(&comm, rank, play);
	tutti_comm_destroy(comm);
	if (failed)
		return failed;
	CLAIM(open_descriptors() == descriptors, "%d descriptors were open before, %d are after",
	      descriptors, open_descriptors());
	CLAIM(count_lines("/proc/self/maps", "tutti-arena") == 0, "mappings of arenas are left");
	return 0;
}

static void plays(struct play play, int signal)
{
	play.stage = shared_memory(sizeof(*play.stage));
	HOLDS(.ranks = play.ranks, .whole = play_with, .argument = &play, .limit_s = 50,
	      .expect_signal = signal, .victims = play.victims);
}

/* ---- some die, and the others notice */

static int notice_and_shrink(tutti_comm_t *comm_at, int rank, const struct play *play)
{
	uint32_t gone = 0;

	for (int i = 0; i < WAVES && play->dies[i]; i++) {
		tutti_comm_t comm = *comm_at, rest = NULL;
		tutti_result_t result = TUTTI_OK;

		if (play->dies[i] >> rank & 1)
			raise(SIGKILL);
		gone |= play->dies[i];
		while (!result)
			result = tutti_barrier(comm, NULL);
		FAILS(result, TUTTI_ERR_PEER_LOST, "");
		const double start = seconds_now();
		SUCCEEDS(tutti_comm_shrink(comm, &rest));
		CLAIM(seconds_now() - start < SOON_S, "shrinking took %g s", seconds_now() - start);
		CLAIM(tutti_barrier(comm, NULL) == result,
		      "the old communicator forgot that it has ended");
		tutti_comm_destroy(comm);
		*comm_at = rest;
		if (is_of_the_rest(rest, rank, play->ranks, gone))
			return complain(rest, __FILE__, __LINE__, "after %d shrinks", i + 1);
		/* nobody dies while others still compute */
		meet_at(&play->stage->round[i], tutti_comm_size(rest));
	}
	return 0;
}

TEST(survivors_go_on)
{
	static const struct play cases[] = {
		{ 4, 0x3, { 0x3 }, notice_and_shrink },
		{ 5, 0x6, { 0x6 }, notice_and_shrink },
		{ 4, 0x7, { 0x7 }, notice_and_shrink },
		{ 2, 1, { 1 }, notice_and_shrink },
		{ 2, 2, { 2 }, notice_and_shrink },
		{ 7, 0x15, { 0x15 }, notice_and_shrink },
		/* rank 3 did not watch rank 0, and all who did are dead */
		{ 6, 0x37, { 0x37 }, notice_and_shrink },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		plays(cases[i], SIGKILL);
}

TEST(a_shrunk_one_shrinks_again)
{
	/* in an order in which the first, the last and those between go */
	plays((struct play){ 5, 0x17, { 1 << 2, 1 << 0, 1 << 4, 1 << 1 }, notice_and_shrink },
	      SIGKILL);
}

/* ---- nobody is gone */

/* Twice, and its twin then; in the end one that was aborted. */
static int shrink_in_health(tutti_comm_t *comm, int rank, const struct play *play)
{
	for (int i = 0; i < 20; i++) {
		tutti_comm_t same = NULL, another = NULL;

		if (tutti_comm_shrink(*comm, &same) || tutti_comm_shrink(*comm, &another))
			return complain(*comm, __FILE__, __LINE__, "%s", tutti_last_error(NULL));
		/* the old one works as before, in every second turn */
		const int failed = is_of_the_rest(another, rank, play->ranks, 0) ||
				   (i % 2 == 0 && is_of_the_rest(*comm, rank, play->ranks, 0));
		tutti_comm_destroy(another);
		tutti_comm_destroy(*comm);
		*comm = same;
		if (failed || is_of_the_rest(same, rank, play->ranks, 0))
			return 1;
	}
	meet_at(&play->stage->round[0], play->ranks); /* nobody computes any more */
	tutti_comm_abort(*comm, "to be shrunk");
	tutti_comm_t rest = NULL;
	if (tutti_comm_shrink(*comm, &rest))
		return complain(*comm, __FILE__, __LINE__, "%s", tutti_last_error(NULL));
	const int failed = is_of_the_rest(rest, rank, play->ranks, 0);
	tutti_comm_destroy(rest);
	return failed;
}

TEST_OF(a_healthy_one_has_twins, plays((struct play){ .ranks = 4, .act = shrink_in_health }, 0))

/* ---- one leaves */

static int leave_or_shrink(tutti_comm_t *comm_at, int rank, const struct play *play)
{
	tutti_comm_t comm = *comm_at, rest = NULL;

	if (is_victim(play, rank)) {
		tutti_comm_destroy(comm);
		*comm_at = NULL;
		return 0;
	}
	const double start = seconds_now();
	SUCCEEDS(tutti_comm_shrink(comm, &rest));
	CLAIM(seconds_now() - start < SOON_S, "shrinking took %g s", seconds_now() - start);
	tutti_comm_destroy(comm);
	*comm_at = rest;
	return is_of_the_rest(rest, rank, play->ranks, play->victims);
}

TEST(those_who_left_are_not_waited_for)
{
	for (int victim = 0; victim < 4; victim++)
		plays((struct play){ .ranks = 4, .victims = 1u << victim, .act = leave_or_shrink },
		      0);
}

/* ---- who ends waits for nobody: not for a rank that is stopped, nor for one that is busy, nor
 * for room */

#define MUCH (8u << 20)

static int end_at_once(tutti_comm_t *comm_at, int rank, const struct play *play)
{
	tutti_comm_t comm = *comm_at, rest = NULL;
	tutti_request_t request = NULL;

	if (rank == 2) {
		atomic_fetch_add(&play->stage->stopped, 1);
		raise(SIGSTOP);
		return 0;
	}
	await_count(&play->stage->stopped, 1);
	if (rank == 1) { /* waits for the stopped one, which ends once rank 0 has ended */
		atomic_fetch_add(&play->stage->round[0], 1);
		SUCCEEDS(tutti_comm_shrink(comm, &rest));
		CLAIM(tutti_comm_size(rest) == 1, "size %d", tutti_comm_size(rest));
		tutti_comm_destroy(comm);
		*comm_at = rest;
		return 0;
	}
	void *bytes = calloc(1, MUCH);
	SUCCEEDS(tutti_send(comm, bytes, MUCH, TUTTI_UINT8, 2, &request));
	while (atomic_load(&play->stage->round[0]) == 0)
		tutti_test(&request); /* there is no more room for it */
	const double start = seconds_now();
	tutti_comm_abort(comm, "to see how long it takes");
	CLAIM(tutti_wait(&request) == TUTTI_ERR_ABORTED, "%s", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	*comm_at = NULL;
	CLAIM(seconds_now() - start < bound_s(2), "it took %g s", seconds_now() - start);
	kill(atomic_load(&play->stage->pid[2]), SIGCONT);
	free(bytes);
	return 0;
}

TEST_OF(who_ends_waits_for_nobody, plays((struct play){ .ranks = 3, .act = end_at_once }, 0))
