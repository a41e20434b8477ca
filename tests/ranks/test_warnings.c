/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the library does something else than was asked for, or does it worse, it says so.
 *
 *   test_warnings shm|tcp|mixed */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "held.h"
#include "tests.h"
#include "harness.h"

#define RANKS 4

/* The warnings of a subsystem in this process. */
struct warnings {
	const char *subsystem;
	int count;
	char last[1024];
};

static struct warnings plan = { .subsystem = "plan" };

static void keep(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	struct warnings *warnings = context;

	if (level != TUTTI_LOG_WARN || strcmp(subsystem, warnings->subsystem) != 0)
		return;
	warnings->count++;
	snprintf(warnings->last, sizeof(warnings->last), "%s", line);
}

/* ---- an algorithm that cannot */

/* Did rank 0, and nobody else, warn of `collective` as the `count`-th, and name what is used? */
static int warned_of(tutti_comm_t comm, const char *collective, int count)
{
	tutti_plan_info_t info = { .size = sizeof(info) };
	char words[256];

	SUCCEEDS(tutti_comm_last_plan(comm, &info));
	snprintf(words, sizeof(words),
		 "cannot do %s with these ranks and this operation: %s is used", collective,
		 info.algorithm);
	CLAIM(plan.count == (tutti_comm_rank(comm) == 0 ? count : 0),
	      "%d warnings, the last: \"%s\"", plan.count, plan.last);
	if (tutti_comm_rank(comm) != 0)
		return 0;
	CLAIM(strstr(plan.last, "algorithm bruck,"), "\"%s\" does not name bruck", plan.last);
	CLAIM(strstr(plan.last, words), "\"%s\" does not say \"%s\"", plan.last, words);
	return 0;
}

static int ask_for_bruck(tutti_comm_t comm, void *argument)
{
	static float send[RANKS * 64], recv[RANKS * 64];
	tutti_comm_t copy;

	tutti_log_set_sink(keep, &plan);
	SUCCEEDS(tutti_all_gather(comm, send, recv, 64, TUTTI_FLOAT32, NULL));
	CLAIM(plan.count == 0, "a warning of what bruck can do: \"%s\"", plan.last);
	SUCCEEDS(tutti_all_reduce(comm, send, recv, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	if (warned_of(comm, "all_reduce", 1))
		return 1;
	SUCCEEDS(tutti_all_reduce(comm, send, recv, 64, TUTTI_FLOAT32, TUTTI_MAX, NULL));
	CLAIM(plan.count <= 1, "the second all_reduce is warned of, too");
	SUCCEEDS(tutti_broadcast(comm, send, send, 64, TUTTI_FLOAT32, 1, NULL));
	if (warned_of(comm, "broadcast", 2))
		return 1;
	SUCCEEDS(tutti_comm_split(comm, 0, tutti_comm_rank(comm), &copy));
	SUCCEEDS(tutti_all_reduce(copy, send, recv, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	const int failed = warned_of(copy, "all_reduce", 3);

	tutti_comm_destroy(copy);
	return failed;
}

JOB(an_algorithm_that_cannot_is_warned_of_once, .ranks = RANKS, .env = ENV("TUTTI_ALGORITHM=bruck"),
    .body = ask_for_bruck)

static int ask_for_nothing(tutti_comm_t comm, void *argument)
{
	float value = 1, sum;

	tutti_log_set_sink(keep, &plan);
	SUCCEEDS(tutti_all_reduce(comm, &value, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	CLAIM(plan.count == 0, "nothing was asked for, and yet: \"%s\"", plan.last);
	return 0;
}

JOB(a_choice_by_cost_is_no_reason_to_warn, .ranks = RANKS, .body = ask_for_nothing)

/* ---- a variable that is misspelt */

static int have_unknown_variables(int rank, void *argument)
{
	struct warnings comms = { .subsystem = "comm" };
	tutti_comm_t comm = NULL, again = NULL;

	tutti_log_set_sink(keep, &comms);
	SUCCEEDS(tutti_init(NULL, &comm));
	CLAIM(comms.count == (rank == 0), "%d warnings, the last: \"%s\"", comms.count, comms.last);
	CLAIM(rank != 0 || strstr(comms.last, "TUTTI_TIMEOOT (did you mean TUTTI_TIMEOUT?), which "
					      "tutti does not read"),
	      "\"%s\"", comms.last);
	CLAIM(!strstr(comms.last, "secret"), "\"%s\" tells the value", comms.last);
	/* of which every process is rank 0 */
	SUCCEEDS(tutti_comm_create(NULL, 0, 1, NULL, &again));
	CLAIM(comms.count == (rank == 0), "warned once more: \"%s\"", comms.last);
	tutti_comm_destroy(again);
	tutti_comm_destroy(comm);
	return 0;
}

JOB(one_rank_warns_once_of_a_variable_that_nobody_reads, .ranks = RANKS,
    .env = ENV("TUTTI_TIMEOOT=secret"), .whole = have_unknown_variables)

/* ---- no control area */

#define FILE_MAX (17u << 20) /* the arena of RANKS ranks fits, their control area does not */

/* Over shared memory a rank says, once, that there is none, and why: in these words. */
static int join_without_control_area(const char *words, const char *more, tutti_comm_t *out)
{
	static struct warnings comms = { .subsystem = "comm" };
	const bool shm = strcmp(transport_chosen, "shm") == 0;
	tutti_comm_t comm = NULL;

	tutti_log_set_sink(keep, &comms);
	SUCCEEDS(tutti_init(NULL, &comm));
	CLAIM(comms.count == (shm ? 1 : 0), "%d warnings, the last: \"%s\"", comms.count,
	      comms.last);
	CLAIM(!shm || (strstr(comms.last, words) && strstr(comms.last, more)),
	      "\"%s\" does not say \"%s\" and \"%s\"", comms.last, words, more);
	*out = comm;
	return sums_right(comm);
}

/* Files of at most FILE_MAX bytes, also those in memory: every rank fails alike. */
static int do_without_control_area(int rank, void *argument)
{
	const struct rlimit limit = { FILE_MAX, FILE_MAX };
	tutti_comm_t comm = NULL;

	signal(SIGXFSZ, SIG_IGN);
	CLAIM(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit: %s", strerror(errno));
	const int failed =
		join_without_control_area("but not the control area", "grow the arena", &comm);
	tutti_comm_destroy(comm);
	return failed;
}

JOB(ranks_without_a_control_area_say_so, .ranks = RANKS, .whole = do_without_control_area)

/* One rank has no room for the control area; nobody may then use it. */
static int share_with_one_that_cannot(int rank, void *argument)
{
	const size_t capacity = bytes_held(HELD_ADDRESSES) + FILE_MAX + FILE_MAX / 4;
	const struct rlimit limit = { capacity, capacity };
	tutti_plan_info_t info = { .size = sizeof(info) };
	tutti_comm_t comm = NULL;

	CLAIM(rank != 1 || setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit: %s", strerror(errno));
	if (join_without_control_area(rank == 1 ? "shared bytes" : "rank 1 does not map it", "",
				      &comm))
		return 1;
	SUCCEEDS(tutti_comm_last_plan(comm, &info));
	CLAIM(strcmp(info.algorithm, "board") != 0, "the board is used");
	tutti_comm_destroy(comm);
	return 0;
}

JOB(a_control_area_that_one_rank_lacks_is_used_by_none, .ranks = RANKS,
    .whole = share_with_one_that_cannot)

/* Of the thread that joins. */
static _Thread_local bool dies_as_it_shares;

/* A program's own definition comes before that of the C library. */
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (dies_as_it_shares && !at && flags & MAP_SHARED && offset > 0)
		raise(SIGKILL);
	return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

static int die_as_all_share(int rank, void *argument)
{
	static struct warnings comms = { .subsystem = "comm" };
	tutti_comm_t comm = NULL;

	tutti_log_set_sink(keep, &comms);
	dies_as_it_shares = rank == 1;
	tutti_init(NULL, &comm);
	CLAIM(!strstr(comms.last, "control area"), "\"%s\"", comms.last);
	tutti_comm_destroy(comm);
	return 0;
}

JOB(a_death_is_no_reason_to_warn_of_a_missing_control_area, .ranks = RANKS,
    .whole = die_as_all_share, .expect_signal = SIGKILL, .victims = 1u << 1)

/* Rank 0 kills the first whose memory it looks at, and goes on when that is gone. */
static _Thread_local bool kills;

int stat(const char *path, struct stat *info)
{
	int pid;

	if (kills && sscanf(path, "/proc/%d/fd/", &pid) == 1) {
		kills = false;
		kill(pid, SIGKILL);
		while (fstatat(AT_FDCWD, path, info, 0) == 0)
			sched_yield();
	}
	return fstatat(AT_FDCWD, path, info, 0);
}

static int kill_as_all_join(int rank, void *argument)
{
	static struct warnings shm = { .subsystem = "shm" };
	tutti_comm_t comm = NULL;

	tutti_log_set_sink(keep, &shm);
	kills = rank == 0;
	tutti_init(NULL, &comm);
	CLAIM(shm.count == 0, "\"%s\"", shm.last);
	tutti_comm_destroy(comm);
	return 0;
}

JOB(a_death_is_no_reason_to_warn_of_memory_that_cannot_be_opened, .ranks = RANKS,
    .whole = kill_as_all_join, .expect_signal = SIGKILL, .victims = 1u << 1 | 1u << 2)
