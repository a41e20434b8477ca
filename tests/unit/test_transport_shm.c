/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on shared memory; and what is claimed of it alone. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../patience.h"
#include "../refuse_calls.h"
#include "arena_file.h"
#include "fork.h"
#include "held.h"
#include "log.h"
#include "machine.h"
#include "fd_message.h"
#include "shm.h"
#include "test_warnings.h"
#include "transport_suite.h"

#define NAP_MS 50
#define NAPS   4

static void *allocate(size_t bytes)
{
	void *memory;

	return tutti_mem_alloc(bytes, &memory) == TUTTI_OK ? memory : NULL;
}

struct sleeper {
	struct suite_rank *rank;
	uint64_t slept; /* nanoseconds */
};

static void *take_naps(void *argument)
{
	struct sleeper *sleeper = argument;
	const struct tt_transport *ops = sleeper->rank->ops;
	const uint64_t began = tt_now();

	for (int i = 0; i < NAPS; i++) {
		ops->doorbell->arm(sleeper->rank->endpoint);
		ops->doorbell->sleep(sleeper->rank->endpoint, NAP_MS);
		ops->doorbell->disarm(sleeper->rank->endpoint);
	}
	sleeper->slept = tt_now() - began;
	return NULL;
}

/* A thread has armed, was woken, and has not come so far as to disarm: others sleep meanwhile. */
SUITE_CLAIM(a_wake_up_keeps_awake_only_who_was_armed, 2, SUITE_NOTHING)
{
	struct sleeper sleeper = { .rank = rank };
	pthread_t thread;

	if (rank->rank == 0) {
		rank->ops->doorbell->arm(rank->endpoint);
		rank->ops->doorbell->interrupt(rank->endpoint);
		suite_require(rank, pthread_create(&thread, NULL, take_naps, &sleeper) == 0,
			      "start a thread");
		pthread_join(thread, NULL);
		rank->ops->doorbell->disarm(rank->endpoint);
		suite_require(rank, sleeper.slept > NAP_MS * 1000000ull,
			      "%d naps of %d ms lasted %llu µs", NAPS, NAP_MS,
			      (unsigned long long)sleeper.slept / 1000);
	}
	suite_barrier(rank);
}

struct beside {
	struct suite_rank *rank;
	pthread_barrier_t step;
};

static void *be_called_and_come_late(void *argument)
{
	struct beside *beside = argument;
	struct suite_rank *rank = beside->rank;

	rank->ops->doorbell->arm(rank->endpoint);
	pthread_barrier_wait(&beside->step);
	pthread_barrier_wait(&beside->step); /* the other was called, too, and sleeps again */
	rank->ops->doorbell->disarm(rank->endpoint);
	pthread_barrier_wait(&beside->step);
	return NULL;
}

static bool rings(struct suite_rank *rank)
{
	struct pollfd bell = { rank->ops->doorbell->fd(rank->endpoint), POLLIN, 0 };

	return poll(&bell, 1, 0) == 1;
}

/* Of two threads one is armed at any time. */
SUITE_CLAIM(a_bell_is_silent_once_all_it_rang_for_are_up, 2, SUITE_POLLS)
{
	struct beside beside = { .rank = rank };
	pthread_t thread;
	bool before, after, again;

	if (rank->rank == 0) {
		pthread_barrier_init(&beside.step, NULL, 2);
		suite_require(rank,
			      pthread_create(&thread, NULL, be_called_and_come_late, &beside) == 0,
			      "start a thread");
		pthread_barrier_wait(&beside.step);
		rank->ops->doorbell->arm(rank->endpoint);
		rings(rank); /* from now on there is a bell */
		rank->ops->doorbell->interrupt(rank->endpoint);
		rank->ops->doorbell->disarm(rank->endpoint);
		rank->ops->doorbell->arm(rank->endpoint);
		before = rings(rank);
		pthread_barrier_wait(&beside.step);
		pthread_barrier_wait(&beside.step);
		after = rings(rank);
		rank->ops->doorbell->interrupt(rank->endpoint);
		again = rings(rank);
		rank->ops->doorbell->disarm(rank->endpoint);
		pthread_join(thread, NULL);
		pthread_barrier_destroy(&beside.step);
		suite_require(rank, before, "the bell does not ring for a thread that is not up");
		suite_require(rank, !after, "the bell rings although all are up");
		suite_require(rank, again, "the bell does not ring again");
	}
	suite_barrier(rank);
}

/* ---- many ranks */

#define MANY	    40
#define DESCRIPTORS 24 /* of a rank, whatever the number of ranks */
#define VICTIM	    (MANY - 2)
#define WAITER	    1
#define FAR	    ((size_t)1 << 30)

/* Beside the one of its heap; and the memory of all can be mapped, where none maps a heap that
 * has room for all memory of the host. */
SUITE_CLAIM(a_rank_of_many_holds_few_descriptors, MANY, SUITE_UNMET | SUITE_PROCESSES)
{
	const int next = (rank->rank + 1) % rank->size;
	uint8_t *mine = allocate(FAR + 1);
	const int before = suite_count_descriptors();
	uint64_t token = 0;

	suite_open(rank);
	suite_join(rank);
	const int after = suite_count_descriptors();
	suite_require(rank, after - before <= DESCRIPTORS, "%d ranks: %d descriptors", rank->size,
		      after - before);
	memset(mine, 1 + rank->rank, 4096);
	mine[FAR] = 100 + rank->rank;
	suite_require(rank, rank->ops->memory->export(rank->endpoint, mine, FAR + 1, &token),
		      "export(): false");
	suite_set(rank, SUITE_FIRST_FREE + rank->rank, token);
	suite_barrier(rank);
	const uint64_t named = suite_value(rank, SUITE_FIRST_FREE + next);
	const size_t space = bytes_held(HELD_ADDRESSES);
	const uint8_t *theirs = rank->ops->memory->import(rank->endpoint, next, named, 4096),
		      *more = rank->ops->memory->import(rank->endpoint, next, named, FAR + 1);
	suite_require(rank, theirs && more, "import() of rank %d: %s", next, tt_thread_error());
	suite_require(rank, theirs[4095] == 1 + next && more[FAR] == 100 + next,
		      "import() of rank %d gives other bytes", next);
	suite_require(rank, bytes_held(HELD_ADDRESSES) - space < 4 * FAR,
		      "import() of %zu bytes maps %zu", FAR + 1,
		      bytes_held(HELD_ADDRESSES) - space);
	suite_require(rank, suite_count_descriptors() == after, "import() keeps a descriptor");
	suite_barrier(rank);
	tutti_mem_free(mine);
}

static void await_death_of(struct suite_rank *rank, int victim)
{
	char expected[32];

	while (!rank->endpoint->fault.result && tt_now() < rank->stage->deadline)
		rank->ops->progress(rank->endpoint, true);
	snprintf(expected, sizeof(expected), "rank %d (pid ", victim);
	suite_require_fault(rank, TUTTI_ERR_PEER_LOST, victim, expected);
}

/* All others are in no call. */
SUITE_CLAIM(who_waits_sees_the_death_of_any, MANY, SUITE_PROCESSES)
{
	if (rank->rank == VICTIM) {
		suite_await(rank, SUITE_ARMED, 1);
		suite_die(rank);
	}
	while (rank->rank != WAITER && suite_value(rank, SUITE_EVENT) == 0)
		usleep(1000);
	if (rank->rank != WAITER)
		return;
	suite_post(rank, SUITE_ARMED);
	await_death_of(rank, VICTIM);
	suite_post(rank, SUITE_EVENT);
}

/* It dies between the call in which it names its memory and the first look at that. */
SUITE_CLAIM(memory_of_the_dead_is_their_death, 2, SUITE_PROCESSES)
{
	void *mine = allocate(4096);
	uint64_t token = 0;

	rank->ops->memory->export(rank->endpoint, mine, 4096, &token);
	suite_set(rank, SUITE_FIRST_FREE + rank->rank, token);
	suite_barrier(rank);
	if (rank->rank == 1) {
		suite_await(rank, SUITE_ARMED, 1);
		suite_die(rank);
	}
	struct pollfd end = { (int)syscall(SYS_pidfd_open, rank->peers[1].pid, 0), POLLIN, 0 };

	suite_post(rank, SUITE_ARMED);
	suite_require(rank, poll(&end, 1, 20000) == 1, "rank 1 does not die");
	close(end.fd);
	suite_require(rank,
		      !rank->ops->memory->import(rank->endpoint, 1,
						 suite_value(rank, SUITE_FIRST_FREE + 1), 4096),
		      "import() of a dead rank's memory gives some");
	suite_require_fault(rank, TUTTI_ERR_PEER_LOST, 1, "rank 1 (pid ");
	suite_require_fault(rank, TUTTI_ERR_PEER_LOST, 1, "died");
	tutti_mem_free(mine);
}

/* ---- how a death is seen */

SUITE_CLAIM(a_death_is_seen_where_processes_have_no_descriptors, 3, SUITE_UNMET | SUITE_PROCESSES)
{
	suite_require(rank, refuse_pidfds() && syscall(SYS_pidfd_open, getpid(), 0) < 0,
		      "refuse pidfd_open(2): %s", strerror(errno));
	suite_open(rank);
	suite_join(rank);
	suite_barrier(rank);
	if (rank->rank == 2)
		suite_die(rank);
	await_death_of(rank, 2);
}

/* By system calls alone: what a sanitizer knows of locks and threads is as the other threads of the
 * parent had left it at that moment. */
__attribute__((no_sanitize_thread)) static void live_until(const volatile uint64_t *event)
{
	const struct timespec little = { 0, 1000000 };

	while (*event == 0)
		syscall(SYS_nanosleep, &little, NULL);
	syscall(SYS_exit_group, 0);
}

/* A child that was made past the C library has all descriptors of its parent's. */
SUITE_CLAIM(a_child_that_lives_on_hides_no_death, 2, SUITE_PROCESSES)
{
	if (rank->rank == 1) {
		const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (child == 0)
			live_until(&rank->stage->counters[SUITE_EVENT]);
		suite_require(rank, child > 0, "clone: %s", strerror(errno));
		suite_post(rank, SUITE_ARMED);
		suite_die(rank);
	}
	suite_await(rank, SUITE_ARMED, 1);
	await_death_of(rank, 1);
	suite_post(rank, SUITE_EVENT);
}

static bool is_seen_alive(struct suite_rank *rank, int fd)
{
	const pid_t parent = getpid(), child = fork();
	int status = 0;

	if (child == 0)
		_exit(shm_file_is_held(fd, parent));
	suite_require(rank, child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status),
		      "look from another process: %s", strerror(errno));
	return WEXITSTATUS(status);
}

/* Threads of a process that are ranks of one communicator, and leave one after the other. */
SUITE_CLAIM(a_process_is_alive_until_the_last_of_its_ranks_has_left, 2,
	    SUITE_UNMET | SUITE_PROCESSES)
{
	const int outside = memfd_create("arena", MFD_CLOEXEC);
	const int first = shm_file_take(TT_FD(dup(outside)));
	const int second = shm_file_take(TT_FD(dup(outside)));

	suite_require(rank, first >= 0 && first == second, "descriptors of one file: %d, %d", first,
		      second);
	suite_require(rank, is_seen_alive(rank, outside), "with two ranks: dead");
	shm_file_drop(second);
	suite_require(rank, is_seen_alive(rank, outside), "with one rank: dead");
	shm_file_drop(first);
	suite_require(rank, !is_seen_alive(rank, outside), "without ranks: alive");
	close(outside);
}

/* ---- memory of others */

/* As a program with rights of its own, or one that keeps others from looking at it. */
SUITE_CLAIM(where_heaps_cannot_be_opened_none_is_exported, 3, SUITE_UNMET | SUITE_PROCESSES)
{
	void *mine = allocate(4096);
	uint64_t token;

	suite_require(rank,
		      (geteuid() != 0 || setresuid(65534, 65534, 65534) == 0) &&
			      prctl(PR_SET_DUMPABLE, 0) == 0,
		      "keep others from looking: %s", strerror(errno));
	suite_open(rank);
	suite_join(rank);
	suite_require(rank, !rank->ops->memory->export(rank->endpoint, mine, 4096, &token),
		      "export(): true");
	suite_barrier(rank);
	tutti_mem_free(mine);
}

/* ---- ranks that do not join */

#define SOON_MS (1000 * bound_s(2))

/* What the others get: at once, and with the word. */
static void require_told(struct suite_rank *rank, const char *word)
{
	const uint64_t began = tt_now();

	suite_require_failed(rank, suite_try_join(rank), TUTTI_ERR_PEER_LOST, word, "join()");
	suite_require(rank, (tt_now() - began) / 1000000 < SOON_MS, "told after %u ms",
		      (unsigned)((tt_now() - began) / 1000000));
}

static void leave_instead(struct suite_rank *rank, int who)
{
	suite_open(rank);
	if (rank->rank != who)
		require_told(rank, "died while joining");
}

SUITE_CLAIM_OF(leader_leaves_instead_of_joining, 3, SUITE_UNMET, leave_instead(rank, 0))
SUITE_CLAIM_OF(second_leaves_instead_of_joining, 3, SUITE_UNMET, leave_instead(rank, 1))
SUITE_CLAIM_OF(last_leaves_instead_of_joining, 3, SUITE_UNMET, leave_instead(rank, 2))

static void die_instead(struct suite_rank *rank, int who)
{
	suite_open(rank);
	if (rank->rank == who) {
		suite_await(rank, SUITE_ARMED, 1);
		suite_die(rank);
	}
	if (rank->rank == 2 - who) /* the leader, or who waits for it */
		suite_post(rank, SUITE_ARMED);
	require_told(rank, "died while joining");
}

SUITE_CLAIM_OF(leader_dies_instead_of_joining, 3, SUITE_UNMET | SUITE_PROCESSES,
	       die_instead(rank, 0))
SUITE_CLAIM_OF(last_dies_instead_of_joining, 3, SUITE_UNMET | SUITE_PROCESSES, die_instead(rank, 2))

/* Leave room for one descriptor more. */
static void allow_one_descriptor(struct suite_rank *rank)
{
	const int next = dup(0);
	struct rlimit limit;

	close(next);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)next + 1;
	suite_require(rank, setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit: %s",
		      strerror(errno));
}

/* The connection fits, the arena does not. */
SUITE_CLAIM(the_cause_of_one_is_told_to_all, 3, SUITE_UNMET | SUITE_PROCESSES)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	suite_open(rank);
	if (rank->rank != 1) {
		require_told(rank, "rank 1 could not join: receive descriptors of");
		return;
	}
	allow_one_descriptor(rank);
	suite_require_failed(rank, suite_try_join(rank), TUTTI_ERR_SYSTEM, "ulimit -n",
			     "join() without descriptors");
	limit.rlim_cur = limit.rlim_max; /* for the count of what is left */
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* All that a rank's address says beside the machine. */
static void falsify_name(struct suite_rank *rank, int of)
{
	memset(rank->addresses[of] + sizeof(struct tt_machine), 0xff,
	       rank->peers[of].address_length - sizeof(struct tt_machine));
}

/* The leader looks there for the rank, and the rank for the leader. */
SUITE_CLAIM(a_false_name_is_one_that_nobody_has, 2, SUITE_UNMET)
{
	suite_open(rank);
	falsify_name(rank, 1 - rank->rank);
	require_told(rank, "died while joining");
}

/* ---- processes that are none of the ranks */

#define STRANGERS 20

/* Where the rank listens. */
static socklen_t socket_of(const struct suite_rank *rank, int of, struct sockaddr_un *name)
{
	struct shm_address address;

	memcpy(&address, rank->peers[of].address, sizeof(address));
	return tt_unix_name("shm", address.socket, name);
}

/* Claim the leader's own place; with root's rights, by another user. */
static void come_as_stranger(struct suite_rank *rank, bool other_user)
{
	const struct shm_endpoint *own = (const struct shm_endpoint *)rank->endpoint;
	struct shm_endpoint leader = { .config = own->config };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name;
	const socklen_t length = socket_of(rank, 0, &name);

	if (other_user)
		suite_require(rank, seteuid(65534) == 0, "become another user: %s",
			      strerror(errno));
	suite_require(rank, fd >= 0 && connect(fd, (struct sockaddr *)&name, length) == 0,
		      "connect: %s", strerror(errno));
	if (other_user)
		suite_require(rank, seteuid(0) == 0, "become root again: %s", strerror(errno));
	suite_require_ok(rank, shm_send_word(&leader, fd, 0, 0), "claim a place");
	close(fd);
}

SUITE_CLAIM(strangers_bring_about_one_line, 2, SUITE_UNMET | SUITE_PROCESSES)
{
	suite_open(rank);
	if (rank->rank == 0)
		listen_for(TUTTI_LOG_WARN, "turns away process");
	for (int i = 0; i < STRANGERS && rank->rank == 1; i++)
		come_as_stranger(rank, i % 2 && geteuid() == 0);
	suite_barrier(rank);
	suite_join(rank);
	suite_barrier(rank);
	if (rank->rank != 0)
		return;
	leave_warnings();
	suite_require(rank, atomic_load(&warnings) == 1, "%d strangers brought about %d lines",
		      STRANGERS, atomic_load(&warnings));
}

/* The leader's name in the hands of another user, as when its process has ended. */
SUITE_CLAIM(who_took_a_name_is_named, 2, SUITE_UNMET | SUITE_PROCESSES | SUITE_ROOT)
{
	struct sockaddr_un name = { 0 };
	struct shm_address address = { 0 };
	char expected[64];

	suite_open(rank);
	if (rank->rank == 0) {
		suite_await(rank, SUITE_EVENT, 1);
		return;
	}
	memcpy(&address, rank->peers[0].address, sizeof(address));
	address.socket = ~address.socket;
	memcpy(rank->addresses[0], &address, sizeof(address));
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const socklen_t length = socket_of(rank, 0, &name);

	suite_require(rank,
		      seteuid(65534) == 0 && bind(fd, (struct sockaddr *)&name, length) == 0 &&
			      listen(fd, 1) == 0 && seteuid(0) == 0,
		      "listen as another user: %s", strerror(errno));
	snprintf(expected, sizeof(expected), "process %d (", (int)getpid());
	suite_require_failed(rank, suite_try_join(rank), TUTTI_ERR_PEER_LOST, expected, "join()");
	suite_require(
		rank,
		strstr(tt_thread_error(), ") of user 65534 listens at unix socket @tutti-shm-"),
		"join(): %s", tt_thread_error());
	close(fd);
	suite_post(rank, SUITE_EVENT);
}

int main(void)
{
	const struct suite_options options = {
		.threads = true,
		.processes = true,
		.elsewhere = true,
		.shares = true,
		.locates = true,
		.allocate = allocate,
		.release = tutti_mem_free,
	};

	return transport_suite_run(&tt_transport_shm, &options);
}
