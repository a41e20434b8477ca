/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that share a processor part: the higher one goes where there is room, and may run where
 * it might before. */
#include <sched.h>
#include <string.h>

#include "tests.h"
#include "progress_state.h"
#include "spread.h"

#define RANKS 3

/* Where the others are: on this thread's processor, or on another one. */
static bool here[RANKS];
static int elsewhere; /* a processor */
static unsigned asked;

static void locate(struct tt_endpoint *endpoint, int cpu, int *of)
{
	asked++;
	for (int rank = 0; rank < RANKS; rank++)
		of[rank] = here[rank] ? cpu : elsewhere;
}

static const struct tt_transport ops = { .name = "test", .locate = locate };
static struct tt_endpoint endpoint = { .ops = &ops };
static struct {
	struct tt_progress progress;
	int cpus[RANKS];
} waits;
static cpu_set_t allowed;

static struct tutti_comm comm_of(int rank, double oversubscription)
{
	return (struct tutti_comm){ .rank = rank,
				    .size = RANKS,
				    .topology.oversubscription = oversubscription,
				    .progress = &waits.progress,
				    .endpoints = { &endpoint },
				    .nendpoints = 1 };
}

/* Does the thread go? The kernel may move it at any time for reasons of its own, but not every
 * time. */
static bool goes(struct tutti_comm comm)
{
	int moves = 0;

	for (int i = 0; i < 20; i++) {
		const int before = sched_getcpu();
		cpu_set_t after;

		comm.progress->spread_at = 0;
		tt_spread(&comm, 1);
		moves += sched_getcpu() != before;
		assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
		assert_true(CPU_EQUAL(&after, &allowed));
	}
	return moves > 10;
}

static int setup(void **state)
{
	memset(here, 0, sizeof(here));
	elsewhere = -1;
	return sched_getaffinity(0, sizeof(allowed), &allowed);
}

/* With more ranks than processors each has its share, and only who is beyond it goes. */
TEST_WITH(the_higher_rank_goes, setup, NULL)
{
	static const struct {
		bool here[RANKS]; /* of the others: on this processor */
		int rank;
		double oversubscription;
		bool goes;
	} cases[] = {
		{ { false, false, false }, 1, 1, false },  { { true, false, false }, 1, 1, true },
		{ { true, false, false }, 0, 1, false },   { { false, false, true }, 1, 1, false },
		{ { true, false, false }, 2, 1.5, false }, { { true, true, false }, 2, 1.5, true },
	};

	if (CPU_COUNT(&allowed) < 2)
		leave_out("this thread may use one processor only");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(here, cases[i].here, sizeof(here));
		if (goes(comm_of(cases[i].rank, cases[i].oversubscription)) != cases[i].goes)
			fail_msg("case %zu: rank %d went or stayed", i, cases[i].rank);
	}
}

TEST_WITH(a_thread_that_is_bound_stays, setup, NULL)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	const cpu_set_t before = allowed;
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	allowed = one;
	here[0] = true;
	const bool went = goes(comm_of(1, 1));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_false(went);
}

TEST_WITH(others_are_asked_now_and_then, setup, NULL)
{
	struct tutti_comm comm = comm_of(1, 1);

	asked = 0;
	for (uint64_t now = 1000000; now < 2000000; now += 1000)
		tt_spread(&comm, now);
	assert_true(asked >= 5 && asked <= 20);
}
