/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators take newcomers in: before or after they ask for them, one or several, again and
 * again; and where one does not come, or dies on its way, the members are as before.
 *
 *   test_grow shm|tcp|rdma|mixed [CLAIMS]      CLAIMS: a pattern of their names, such as "the_*" */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define MOST 12

struct stage {
	atomic_int joined, asked, done;
	_Atomic pid_t pid;
	atomic_uint_fast32_t ranks; /* bit mask of those that newcomers got */
};

struct play {
	int members, newcomers;
	const char *store;
	struct stage *stage;
	bool early; /* newcomers come first */
};

/* Each rank says who it is. */
static int all_compute(tutti_comm_t comm)
{
	int expected[MOST];

	for (int rank = 0; rank < MOST; rank++)
		expected[rank] = 100 + rank;
	return all_ways_compute(comm, expected[tutti_comm_rank(comm)], expected);
}

/* What members do with both; the new one, with which newcomers do the same, outlives the old
 * one. */
static int use_both(tutti_comm_t comm, tutti_comm_t more, tutti_store_t store)
{
	int failed = all_compute(more) || all_compute(comm);

	tutti_comm_destroy(comm);
	failed = failed || all_compute(more);
	tutti_comm_destroy(more);
	tutti_store_close(store);
	return failed;
}

static int init_members(const struct play *play, tutti_comm_t *out)
{
	tutti_comm_t comm = NULL;

	set_number("TUTTI_SIZE", play->members);
	set_number("TUTTI_LOCAL_SIZE", play->members);
	SUCCEEDS(tutti_init(NULL, &comm));
	meet_at(&play->stage->joined, play->members);
	*out = comm;
	return 0;
}

static int open_store(const struct play *play, tutti_store_t *out)
{
	const tutti_result_t result = tutti_store_open(play->store, 0, 20, out);

	return result ? complain(NULL, __FILE__, __LINE__, "%s", tutti_last_error(NULL)) : 0;
}

/* Join, note the rank, and compute with all, before and after the members have ended the old
 * communicator. */
static int be_newcomer(const struct play *play, int expected_size)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store = NULL;

	if (open_store(play, &store))
		return 1;
	SUCCEEDS(tutti_comm_join(store, NULL, &comm));
	CLAIM(tutti_comm_size(comm) == expected_size, "size %d, expected %d", tutti_comm_size(comm),
	      expected_size);
	CLAIM(tutti_comm_rank(comm) >= play->members, "a newcomer became rank %d",
	      tutti_comm_rank(comm));
	const uint32_t bit = 1u << tutti_comm_rank(comm);
	CLAIM(!(atomic_fetch_or(&play->stage->ranks, bit) & bit), "rank %d twice",
	      tutti_comm_rank(comm));
	const int failed = all_compute(comm) || all_compute(comm);
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	return failed;
}

/* In a process of its own: the thread sanitizer cannot fork ranks from one that has threads. */
static bool host_store(void *address)
{
	static tutti_store_t store;

	return tutti_store_open(address, 1, 10, &store) == TUTTI_OK;
}

static const struct stage *plays(struct play play, int ranks, rank_whole *whole, uint32_t victims,
				 int signal)
{
	static int number;
	char address[64];

	snprintf(address, sizeof(address), "unix:tutti-grow-%d-%d", (int)getpid(), number++);
	const pid_t host = child_that(host_store, address);
	play.store = address;
	play.stage = shared_memory(sizeof(*play.stage));
	const int failed = run_job(&(const struct job){ .ranks = ranks,
							.whole = whole,
							.argument = &play,
							.limit_s = 50,
							.victims = victims,
							.expect_signal = signal });
	end_child(host);
	assert_int_equal(failed, 0);
	return play.stage;
}

/* ---- it goes well */

static int grow_once(int rank, void *argument)
{
	const struct play *play = argument;
	const int size = play->members + play->newcomers;
	tutti_comm_t comm = NULL, more = NULL;
	tutti_store_t store = NULL;
	void *memory;

	if (rank >= play->members) {
		if (!play->early)
			await_count(&play->stage->asked, play->members);
		atomic_fetch_add(&play->stage->done, 1);
		return be_newcomer(play, size);
	}
	SUCCEEDS(tutti_mem_alloc(1, &memory)); /* the heap's descriptor stays with the process */
	tutti_mem_free(memory);
	const int descriptors = open_descriptors();
	if (init_members(play, &comm) || (rank == 0 && open_store(play, &store)))
		return 1;
	if (play->early)
		await_count(&play->stage->done, play->newcomers);
	atomic_fetch_add(&play->stage->asked, 1);
	SUCCEEDS(tutti_comm_grow(comm, store, play->newcomers, &more));
	CLAIM(tutti_comm_rank(more) == rank && tutti_comm_size(more) == size, "rank %d of %d",
	      tutti_comm_rank(more), tutti_comm_size(more));
	const int failed = use_both(comm, more, store);
	CLAIM(open_descriptors() == descriptors, "%d descriptors were open before, %d are after",
	      descriptors, open_descriptors());
	return failed;
}

TEST(newcomers_are_taken_in)
{
	static const struct {
		int members, newcomers;
	} cases[] = { { 1, 1 }, { 2, 1 }, { 3, 3 }, { 1, 4 } };

	for (int early = 0; early < 2; early++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			const struct play play = { .members = cases[i].members,
						   .newcomers = cases[i].newcomers,
						   .early = early };
			const struct stage *stage =
				plays(play, play.members + play.newcomers, grow_once, 0, 0);

			assert_int_equal(atomic_load(&stage->ranks), ((1u << play.newcomers) - 1)
									     << play.members);
		}
}

/* Ranks 2 … come one by one, and are members for those after them. */
static int grow_on_and_on(int rank, void *argument)
{
	const struct play *play = argument;
	const int last = play->members + play->newcomers;
	tutti_comm_t comm = NULL, more = NULL;
	tutti_store_t store = NULL;

	if (open_store(play, &store))
		return 1;
	if (rank < play->members) {
		if (init_members(play, &comm))
			return 1;
	} else {
		SUCCEEDS(tutti_comm_join(store, NULL,
					 &comm)); /* all at once: who is taken in when is open */
		if (all_compute(comm))
			return 1;
	}
	while (tutti_comm_size(comm) < last) {
		const int size = tutti_comm_size(comm);

		SUCCEEDS(tutti_comm_grow(comm, store, 1, &more));
		CLAIM(tutti_comm_size(more) == size + 1, "size %d", tutti_comm_size(more));
		tutti_comm_destroy(comm);
		comm = more;
		if (all_compute(comm))
			return 1;
	}
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	return 0;
}

TEST_OF(it_grows_on_and_on,
	plays((struct play){ .members = 2, .newcomers = 4 }, 6, grow_on_and_on, 0, 0))

/* ---- it does not */

static int grow_in_vain(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_comm_t comm = NULL, more = NULL;
	tutti_store_t store = NULL;

	if (rank >= play->members) {
		await_count(&play->stage->asked, play->members);
		return be_newcomer(play, play->members + 1);
	}
	if (init_members(play, &comm) || (rank == 0 && open_store(play, &store)))
		return 1;
	const double start = seconds_now();
	SUCCEEDS(next_call_takes(comm, 0.5));
	FAILS(tutti_comm_grow(comm, store, 1, &more), TUTTI_ERR_TIMEOUT,
	      "0 of 1 newcomers came by the deadline of 0.5 s");
	CLAIM(seconds_now() - start < bound_s(6), "it took %g s", seconds_now() - start);
	SUCCEEDS(tutti_next_call(
		comm, &(tutti_call_t){ sizeof(tutti_call_t), 0.0, NULL, TUTTI_WIRE_INT8 }));
	REFUSES(tutti_comm_grow(comm, store, 1, &more), "travel as int8");
	if (all_compute(comm))
		return 1;
	REFUSES(tutti_comm_grow(comm, store, rank == 0 ? 1 : 2, &more), "rank 1 for 2");
	setenv("TUTTI_STORE", "", 1);
	REFUSES(tutti_comm_grow(comm, NULL, 1, &more), "TUTTI_STORE is not set");
	setenv("TUTTI_STORE", "unix:tutti-grow-nobody", 1);
	SUCCEEDS(next_call_takes(comm, 0.5));
	FAILS(tutti_comm_grow(comm, NULL, 1, &more), TUTTI_ERR_TIMEOUT, "");
	REFUSES(tutti_comm_grow(comm, NULL, 0, &more), "");
	CLAIM(!more, "something came of it");
	if (all_compute(comm))
		return 1;
	atomic_fetch_add(&play->stage->asked, 1);
	SUCCEEDS(tutti_comm_grow(comm, store, 1, &more));
	return use_both(comm, more, store);
}

TEST_OF(who_does_not_come_is_waited_for_until_the_deadline,
	plays((struct play){ .members = 2, .newcomers = 1 }, 3, grow_in_vain, 0, 0))

static int join_in_vain(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;
	tutti_store_t store = NULL;

	if (open_store(play, &store))
		return 1;
	config.timeout_s = 1;
	FAILS(tutti_comm_join(store, &config, &comm), TUTTI_ERR_TIMEOUT, "");
	CLAIM(!comm, "nobody took it in, and yet it is in a communicator");
	REFUSES(tutti_comm_join(store, NULL, NULL), "");
	tutti_store_close(store);
	return 0;
}

TEST_OF(nobody_takes_a_newcomer_in,
	plays((struct play){ .members = 0, .newcomers = 2 }, 2, join_in_vain, 0, 0))

/* A newcomer that has come and died is found to be dead, and the next one has its place. */
static int grow_past_the_dead(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_comm_t comm = NULL, more = NULL;
	tutti_store_t store = NULL;

	if (rank == 1) { /* dies waiting to be invited */
		atomic_store(&play->stage->pid, getpid());
		if (open_store(play, &store))
			return 1;
		tutti_comm_join(store, NULL, &comm);
		return 1;
	}
	if (rank == 0) {
		uint64_t token;
		size_t length = sizeof(token);

		if (init_members(play, &comm) || open_store(play, &store))
			return 1;
		SUCCEEDS(tutti_store_get(store, "grow/seat/0", &token, &length, 20));
		struct pollfd dead = {
			(int)syscall(SYS_pidfd_open, atomic_load(&play->stage->pid), 0), POLLIN, 0
		};
		kill(atomic_load(&play->stage->pid), SIGKILL);
		poll(&dead, 1, 20000);
		close(dead.fd);
		atomic_fetch_add(&play->stage->asked, 1);
		SUCCEEDS(tutti_comm_grow(comm, store, 1, &more));
		return use_both(comm, more, store);
	}
	await_count(&play->stage->asked, 1);
	return be_newcomer(play, 2);
}

TEST_OF(the_dead_are_passed_over, plays((struct play){ .members = 1, .newcomers = 1 }, 3,
					grow_past_the_dead, 1 << 1, SIGKILL))

/* A store whose answer to an invitation is held back until another newcomer has been taken in. */
struct slow_store {
	tutti_store_t store;
	struct stage *stage;
};

static int slow_set(void *context, const char *key, const void *value, size_t length)
{
	const struct slow_store *slow = context;

	if (strstr(key, "/answer/") && atomic_load(&slow->stage->done) == 0) {
		atomic_store(&slow->stage->asked, 1);
		await_count(&slow->stage->done, 1);
	}
	return store_error(tutti_store_set(slow->store, key, value, length));
}

static int slow_get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	const struct slow_store *slow = context;

	return store_error(tutti_store_get(slow->store, key, value, length, timeout_s));
}

/* Rank 1 is invited and does not answer until rank 2 has its place; then it comes in as another. */
static int grow_past_the_late(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_comm_t comm = NULL, more = NULL, most = NULL;
	tutti_store_t store = NULL;

	if (open_store(play, &store))
		return 1;
	if (rank == 1) {
		struct slow_store slow = { store, play->stage };
		const tutti_store_ops_t ops = { sizeof(ops), slow_set, slow_get, NULL };

		SUCCEEDS(tutti_store_create(&ops, &slow, &store));
		SUCCEEDS(tutti_comm_join(store, NULL, &most));
		CLAIM(tutti_comm_rank(most) == 2, "rank %d", tutti_comm_rank(most));
		tutti_store_close(slow.store);
	} else {
		if (rank == 0) {
			if (init_members(play, &comm))
				return 1;
			SUCCEEDS(tutti_comm_grow(comm, store, 1, &more));
			tutti_comm_destroy(comm);
		} else {
			await_count(&play->stage->asked, 1);
			SUCCEEDS(tutti_comm_join(store, NULL, &more));
		}
		atomic_fetch_add(&play->stage->done, 1);
		SUCCEEDS(tutti_comm_grow(more, store, 1, &most));
		tutti_comm_destroy(more);
	}
	const int failed = all_compute(most);
	tutti_comm_destroy(most);
	tutti_store_close(store);
	return failed;
}

TEST_OF(the_late_are_passed_over_and_come_in_later,
	plays((struct play){ .members = 1, .newcomers = 2 }, 3, grow_past_the_late, 0, 0))

/* ---- the coordinator dies */

/* Rank 0, which looks for newcomers, dies over it; the others shrink, and take in who waits. */
static int outlive_the_coordinator(int rank, void *argument)
{
	const struct play *play = argument;
	const struct itimerval soon = { .it_value = { 0, 400000 } };
	tutti_comm_t comm = NULL, rest = NULL, more = NULL;
	tutti_store_t store = NULL;

	if (open_store(play, &store))
		return 1;
	if (rank >= play->members) {
		SUCCEEDS(tutti_comm_join(store, NULL, &more));
		const int failed = all_compute(more) || all_compute(more);
		tutti_comm_destroy(more);
		tutti_store_close(store);
		return failed;
	}
	if (init_members(play, &comm))
		return 1;
	if (rank == 0)
		setitimer(ITIMER_REAL, &soon, NULL);
	FAILS(tutti_comm_grow(comm, store, 2, &more), TUTTI_ERR_PEER_LOST, "");
	SUCCEEDS(tutti_comm_shrink(comm, &rest));
	tutti_comm_destroy(comm);
	SUCCEEDS(tutti_comm_grow(rest, store, 1, &more));
	return use_both(rest, more, store);
}

TEST_OF(the_coordinator_may_die, plays((struct play){ .members = 3, .newcomers = 1 }, 4,
				       outlive_the_coordinator, 1, SIGALRM))
