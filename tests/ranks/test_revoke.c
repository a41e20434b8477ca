/* SPDX-License-Identifier: BSD-3-Clause */
/* A fault reaches every rank within a second, also past ranks that are in no call of the library
 * or stopped, and all return the same error message, also where several find different faults at
 * once.
 *
 *   test_revoke shm|tcp|mixed */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS  8
#define SOON_S bound_s(1.0)
#define LONG_S bound_s(20.0) /* after which those outside the library give up */

/* Shared by all ranks of a job. */
struct stage {
	atomic_int joined, ready, told, over;
	_Atomic double at; /* when the fault happened; 0: it has not */
	_Atomic pid_t pid[RANKS];
	char said[RANKS][640];
};

struct play {
	struct stage *stage;
	uint32_t victims, outside, stopped, polling; /* masks of ranks; all others wait in a
						      * barrier */
	void (*end)(tutti_comm_t comm);		     /* of the victims */
	tutti_result_t result;
	bool lonely; /* rank 0 is a host of its own, and all others share one */
};

static bool in(uint32_t mask, int rank)
{
	return mask >> rank & 1;
}

/* Ranks that are told while they wait or poll. */
static int told_first(const struct play *play)
{
	return RANKS - __builtin_popcount(play->victims | play->outside | play->stopped);
}

static int survivors(const struct play *play)
{
	return RANKS - __builtin_popcount(play->victims);
}

static int claim_told(const struct play *play, tutti_comm_t comm, tutti_result_t result,
		      double since)
{
	const int rank = tutti_comm_rank(comm);
	const double took = seconds_now() - since;

	snprintf(play->stage->said[rank], sizeof(play->stage->said[0]), "%s",
		 tutti_last_error(NULL)); /* it is the thread's, too */
	CLAIM(result == play->result, "result %d (%s), expected %d", result, tutti_last_error(comm),
	      play->result);
	CLAIM(took < SOON_S, "told after %.3f s: %s", took, tutti_last_error(comm));
	return 0;
}

static int wait_for_it(const struct play *play, tutti_comm_t comm)
{
	atomic_fetch_add(&play->stage->ready, 1);
	const tutti_result_t result = tutti_barrier(comm, NULL);
	return claim_told(play, comm, result, atomic_load(&play->stage->at));
}

static int poll_for_it(const struct play *play, tutti_comm_t comm)
{
	const double start = seconds_now();
	tutti_result_t result = TUTTI_OK;
	int culprit = -1;

	atomic_fetch_add(&play->stage->ready, 1);
	while (!result && seconds_now() - start < LONG_S)
		result = tutti_comm_error(comm, &culprit);
	CLAIM(culprit >= 0 && in(play->victims, culprit), "rank %d is blamed", culprit);
	return claim_told(play, comm, result, atomic_load(&play->stage->at));
}

/* Those that wait are told while this rank computes, or is stopped; then it learns at its next
 * call. */
static int stay_outside(const struct play *play, tutti_comm_t comm)
{
	struct stage *stage = play->stage;

	atomic_fetch_add(&stage->ready, 1);
	if (in(play->stopped, tutti_comm_rank(comm)))
		raise(SIGSTOP);
	await_count_for(&stage->told, told_first(play), LONG_S);
	const double start = seconds_now();
	const tutti_result_t result = tutti_barrier(comm, NULL);
	return claim_told(play, comm, result, start);
}

static int be_victim(const struct play *play, tutti_comm_t comm)
{
	struct stage *stage = play->stage;

	await_count_for(&stage->ready, survivors(play), LONG_S);
	for (int rank = 0; rank < RANKS; rank++)
		CLAIM(!in(play->stopped, rank) || await_stop(atomic_load(&stage->pid[rank])),
		      "rank %d has ended", rank);
	atomic_fetch_add(&stage->over, 1);
	await_count_for(&stage->over, __builtin_popcount(play->victims), LONG_S);
	atomic_store(&stage->at, seconds_now());
	play->end(comm);
	/* its own end would be news as well */
	await_count_for(&stage->told, told_first(play), LONG_S);
	return 0;
}

static int play_rank(int rank, void *argument)
{
	const struct play *play = argument;
	struct stage *stage = play->stage;
	tutti_comm_t comm = NULL;
	int failed;

	atomic_store(&stage->pid[rank], getpid());
	if (play->lonely)
		setenv("TUTTI_HOST_ID", rank == 0 ? "lonely" : "crowded", 1);
	SUCCEEDS(tutti_init(NULL, &comm));
	meet_at(&stage->joined, RANKS);
	if (in(play->victims, rank))
		failed = be_victim(play, comm);
	else if (in(play->outside | play->stopped, rank))
		failed = stay_outside(play, comm);
	else
		failed =
			in(play->polling, rank) ? poll_for_it(play, comm) : wait_for_it(play, comm);
	const int told = atomic_fetch_add(&stage->told, 1) + 1;
	for (int other = 0; told == told_first(play) && other < RANKS; other++)
		if (in(play->stopped, other))
			kill(atomic_load(&stage->pid[other]), SIGCONT);
	tutti_comm_destroy(comm);
	return failed;
}

static void die(tutti_comm_t comm)
{
	raise(SIGKILL);
}

static void all_are_told(struct play play, const char *words)
{
	int first = 0;

	if (play.lonely && strcmp(transport_chosen, "mixed") != 0)
		skip();
	play.stage = shared_memory(sizeof(*play.stage));
	HOLDS(.ranks = RANKS, .whole = play_rank, .argument = &play, .limit_s = 40,
	      .expect_signal = play.end == die ? SIGKILL : 0, .victims = play.victims);
	while (in(play.victims, first))
		first++;
	for (int rank = first; rank < RANKS; rank++)
		if (!in(play.victims, rank))
			assert_string_equal(play.stage->said[rank], play.stage->said[first]);
	assert_says(play.stage->said[first], words);
}

static void abort_for_own_reason(tutti_comm_t comm)
{
	char reason[32];

	snprintf(reason, sizeof(reason), "reason of rank %d", tutti_comm_rank(comm));
	tutti_comm_abort(comm, reason);
}

#define SCENE(name, words, ...)                                                                    \
	TEST(name)                                                                                 \
	{                                                                                          \
		all_are_told((struct play){ __VA_ARGS__ }, words);                                 \
	}
#define DEATH .end = die, .result = TUTTI_ERR_PEER_LOST
#define ABORT .end = abort_for_own_reason, .result = TUTTI_ERR_ABORTED

/* Over TCP 1, 2, 4, 6 and 7 have a control link with rank 0, and 3 and 5 have none. */
SCENE(neighbours_of_the_dead_pass_it_on_from_outside_the_library, "rank 0 ", .victims = 1,
      .outside = 0xd6, DEATH)
SCENE(a_death_passes_ranks_that_are_stopped, "rank 0 ", .victims = 1, .stopped = 0x16, DEATH)
SCENE(idle_ranks_may_ask_for_it, "rank 5 ", .victims = 1 << 5, .polling = 0xdf, DEATH)
SCENE(the_last_rank_is_no_other, "rank 7 ", .victims = 1 << 7, .outside = 0x4a, DEATH)

/* Rank 3 has no TCP link, and all of its host that have one are outside the library. */
SCENE(a_hosts_death_is_passed_on_by_who_is_outside, "rank 3 ", .victims = 1 << 3, .outside = 0xf6,
      .lonely = true, DEATH)
/* Rank 0 polls, as who waits sends notes, which wake the others. */
SCENE(an_abort_is_passed_on_by_who_is_outside, "reason of rank 3", .victims = 1 << 3,
      .outside = 0xf6, .polling = 1, .lonely = true, ABORT)

/* ---- several faults at once */

TEST(all_settle_on_one_of_several_reasons)
{
	static const uint32_t victims[] = { 0x81, 0x18, 0x28, 0x92, 0x55, 0xfe };

	for (size_t i = 0; i < sizeof(victims) / sizeof(victims[0]); i++)
		all_are_told((struct play){ .victims = victims[i],
					    .outside = i % 2 ? 0x24 & ~victims[i] : 0,
					    ABORT },
			     "aborted the communicator: reason of rank ");
}

/* ---- the monitor */

static bool has_monitor(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	while (tasks && (entry = readdir(tasks))) {
		char path[300], name[32] = "";

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		FILE *file = fopen(path, "re");
		if (file && fgets(name, sizeof(name), file))
			found |= strcmp(name, "tutti-monitor\n") == 0;
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static int look_for_monitor(tutti_comm_t comm, void *argument)
{
	const bool wanted = strcmp(transport_chosen, "shm") != 0;
	const double start = seconds_now();

	/* a thread takes its name once it runs */
	while (wanted && !has_monitor() && seconds_now() - start < LONG_S)
		look_again();
	SUCCEEDS(tutti_barrier(comm, NULL));
	CLAIM(has_monitor() == wanted, "there is %s monitor", wanted ? "no" : "a");
	return 0;
}

JOB(only_ranks_with_control_links_have_one, .ranks = 4, .body = look_for_monitor)
