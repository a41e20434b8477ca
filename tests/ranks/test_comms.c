/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: split, duplicated, several through one store, alone, a thousand in turn and at once.
 *
 *   test_comms shm|tcp|mixed */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests.h"
#include "comm.h"
#include "harness.h"
#include "parts.h"

/* The sum of `mine` over the communicator's ranks is `expected`. */
static int sums_to(tutti_comm_t comm, int32_t mine, int32_t expected)
{
	int32_t sum = -1;

	SUCCEEDS(tutti_all_reduce(comm, &mine, &sum, 1, TUTTI_INT32, TUTTI_SUM, NULL));
	CLAIM(sum == expected, "the sum is %d, expected %d", (int)sum, (int)expected);
	return 0;
}

/* More than fits on the control area, and every rank's part in its place. */
static int gathers(tutti_comm_t comm)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const size_t n = 20000;
	int32_t *send = malloc(n * sizeof(*send)), *recv = malloc(n * (size_t)size * sizeof(*recv));

	for (size_t i = 0; i < n; i++)
		send[i] = rank * 1000000 + (int32_t)i;
	SUCCEEDS(tutti_all_gather(comm, send, recv, n, TUTTI_INT32, NULL));
	for (size_t i = 0; i < n * (size_t)size; i++)
		CLAIM(recv[i] == (int32_t)(i / n) * 1000000 + (int32_t)(i % n), "element %zu is %d",
		      i, (int)recv[i]);
	free(send);
	free(recv);
	return 0;
}

static int split_by_parity(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm), color = rank % 2;
	const int members = (size + 1 - color) / 2;
	tutti_comm_t half, quarter;
	uint64_t first;
	int failed;

	/* the highest rank comes first; the difference of two keys may be no int */
	SUCCEEDS(tutti_comm_split(comm, color, rank < 2 ? INT_MAX : -rank, &half));
	CLAIM(tutti_comm_size(half) == members, "%d members, expected %d", tutti_comm_size(half),
	      members);
	CLAIM(tutti_comm_rank(half) == members - 1 - rank / 2, "rank %d of the half",
	      tutti_comm_rank(half));
	first = half->id; /* by which connections and reports tell communicators apart */
	SUCCEEDS(tutti_broadcast(comm, &first, &first, 1, TUTTI_UINT64, 0, NULL));
	CLAIM((first == half->id) == (color == 0), "the halves have the same number");
	failed = gathers(half);
	for (int i = 0; i < 20 && !failed; i++) /* parent and child in turn */
		failed = sums_to(comm, 1, size) || sums_to(half, 1, members);
	SUCCEEDS(tutti_comm_split(half, 7, 0, &quarter)); /* all of it: equal keys keep the order */
	CLAIM(tutti_comm_rank(quarter) == tutti_comm_rank(half), "the order of equal keys changed");
	failed |= sums_to(quarter, 2, 2 * members);
	tutti_comm_destroy(half); /* a child outlives its parent */
	failed |= sums_to(quarter, 3, 3 * members) || sums_to(comm, 1, size);
	tutti_comm_destroy(quarter);
	return failed;
}

/* The same ranks in the same order, and operations of its own: messages on the one and on the other
 * do not meet. */
static int duplicate(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	const int32_t values[2] = { 3, 4 };
	int32_t came[2] = { 0 };
	tutti_request_t requests[4] = { NULL };
	tutti_comm_t twin;
	int failed;

	SUCCEEDS(tutti_comm_dup(comm, &twin));
	CLAIM(tutti_comm_rank(twin) == rank && tutti_comm_size(twin) == size, "rank %d of %d",
	      tutti_comm_rank(twin), tutti_comm_size(twin));
	for (int i = 0; i < 2 && size > 1; i++) {
		SUCCEEDS(tutti_send(i ? twin : comm, &values[i], 1, TUTTI_INT32, next,
				    &requests[i]));
		SUCCEEDS(tutti_recv(i ? comm : twin, &came[!i], 1, TUTTI_INT32, previous,
				    &requests[2 + i]));
	}
	SUCCEEDS(tutti_wait_all(requests, 4));
	CLAIM(size == 1 || (came[0] == 3 && came[1] == 4), "%d and %d came", came[0], came[1]);
	failed = sums_to(comm, 1, size) || sums_to(twin, 1, size);
	tutti_comm_destroy(twin);
	return failed | sums_to(comm, 1, size);
}

static int split_without_some(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	tutti_comm_t rest = comm;
	int failed = 0;

	SUCCEEDS(tutti_comm_split(comm, rank == 0 ? -1 : 3, 0, &rest));
	if (rank == 0)
		CLAIM(!rest, "a negative color got a communicator");
	else
		failed = sums_to(rest, 1, size - 1) || gathers(rest);
	tutti_comm_destroy(rest);
	SUCCEEDS(tutti_comm_split(comm, rank, 0, &rest)); /* everybody alone */
	CLAIM(tutti_comm_size(rest) == 1 && tutti_comm_rank(rest) == 0, "not alone");
	failed |= sums_to(rest, 5, 5) || gathers(rest) || sums_to(comm, 1, size);
	tutti_comm_destroy(rest);
	SUCCEEDS(tutti_comm_split(comm, -1, 0, &rest)); /* nobody */
	CLAIM(!rest, "a communicator of nobody");
	return failed | sums_to(comm, 1, size);
}

#define JOB_RANKS 4

static int several_by_one_store(int rank, void *argument)
{
	tutti_store_t store = NULL;
	tutti_comm_t comms[3] = { NULL }, comm = NULL;
	int failed = 0;

	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), rank == 0, 10, &store));
	for (int i = 0; i < 3; i++) /* the ranks are others in each */
		SUCCEEDS(tutti_comm_create(store, (rank + i) % JOB_RANKS, JOB_RANKS, NULL,
					   &comms[i]));
	tutti_store_close(store);
	for (int i = 0; i < 30 && !failed; i++) {
		CLAIM(tutti_comm_rank(comms[i % 3]) == (rank + i % 3) % JOB_RANKS,
		      "rank of communicator %d", i % 3);
		failed = sums_to(comms[i % 3], rank, 6) || (i < 3 && gathers(comms[i]));
	}
	for (int i = 0; i < 3; i++)
		tutti_comm_destroy(comms[(rank + i) % 3]); /* in any order */
	return failed;
}

/* ---- which transports */

/* Ranks 0 and 2 are on one host, rank 1 is on another. */
static int names_carriers(tutti_comm_t comm, void *argument)
{
	static const char *const between[3][3] = { { "none", "tcp", "shm" },
						   { "tcp", "none", "tcp" },
						   { "shm", "tcp", "none" } };
	static const char *const gathered[3] = { "shm+tcp", "tcp", "shm" }; /* straight to rank 0 */
	tutti_plan_info_t info = { .size = sizeof(info) };
	const int rank = tutti_comm_rank(comm);
	int32_t all[3];

	for (int peer = 0; peer < 3; peer++)
		CLAIM(strcmp(tutti_comm_transport(comm, peer), between[rank][peer]) == 0,
		      "%s to rank %d", tutti_comm_transport(comm, peer), peer);
	CLAIM(!tutti_comm_transport(comm, -1) && !tutti_comm_transport(comm, 3),
	      "ranks that are none have a transport");
	for (int i = 0; i < 2; i++) { /* the second time it is known */
		SUCCEEDS(tutti_gather(comm, &rank, all, 1, TUTTI_INT32, 0, NULL));
		SUCCEEDS(tutti_comm_last_plan(comm, &info));
		CLAIM(strcmp(info.transports, gathered[rank]) == 0, "gather by %s",
		      info.transports);
	}
	return 0;
}

/* ---- alone, and often */

/* What operations do there test_matrix shows. */
static int alone(int rank, void *argument)
{
	tutti_comm_t comm = NULL;

	SUCCEEDS(tutti_comm_create(NULL, 0, 1, NULL, &comm));
	CLAIM(tutti_comm_local_rank(comm) == 0 && tutti_comm_local_size(comm) == 1, "not alone");
	const int failed = sums_to(comm, 4, 4) || gathers(comm);
	tutti_comm_destroy(comm);
	return failed;
}

#define TIMES 1000

static int a_thousand(tutti_comm_t comm, void *argument)
{
	const int size = tutti_comm_size(comm);
	int descriptors = 0;
	long before = 0;

	for (int i = 0; i < TIMES; i++) {
		tutti_comm_t child;

		SUCCEEDS(tutti_comm_split(comm, i % 3, 0, &child));
		if (sums_to(child, 1, size))
			return 1;
		tutti_comm_destroy(child);
		if (i == TIMES / 10) { /* caches are warm */
			descriptors = open_descriptors();
			before = memory_in_use();
		}
	}
	SUCCEEDS(tutti_barrier(comm, NULL));
	const long grown = memory_in_use() - before;
	CLAIM(open_descriptors() <= descriptors, "%d descriptors became %d", descriptors,
	      open_descriptors());
	CLAIM(grown < 1024, "%ld KiB are left of %d communicators", grown, TIMES - TIMES / 10);
	return 0;
}

static int a_thousand_at_once(tutti_comm_t comm, void *argument)
{
	const int size = tutti_comm_size(comm), before = open_descriptors();
	tutti_comm_t children[TIMES];

	for (int i = 0; i < TIMES; i++) {
		SUCCEEDS(tutti_comm_split(comm, 0, 0, &children[i]));
		if (sums_to(children[i], 1, size))
			return 1;
	}
	for (int i = 0; i < TIMES; i++)
		if (sums_to(children[i], i, i * size))
			return 1;
	for (int i = 0; i < TIMES; i++)
		tutti_comm_destroy(children[i]);
	CLAIM(open_descriptors() <= before, "%d descriptors became %d", before, open_descriptors());
	return 0;
}

#define USUAL	    1024 /* the soft limit of descriptors */
#define FILLERS	    900	 /* of the program's own */
#define A_COMM_MOST 2	 /* of a communicator whose ranks share memory: the arena, the recorder */

/* Ranks have not always as many: one may be about to open a connection. */
static bool all_have_room(tutti_comm_t comm)
{
	int32_t room = open_descriptors() <= USUAL;

	return tutti_all_reduce(comm, &room, &room, 1, TUTTI_INT32, TUTTI_MIN, NULL) == TUTTI_OK &&
	       room;
}

static int a_hundred_at_once(tutti_comm_t comm, void *argument)
{
	const bool shares = strcmp(transport_chosen, "shm") == 0;
	tutti_comm_t children[USUAL - FILLERS];
	struct rlimit limit;
	int n = 0, failed = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = USUAL;
	CLAIM(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit cannot be set: %s",
	      strerror(errno));
	for (int i = 0; i < FILLERS; i++)
		CLAIM(dup(0) >= 0, "no descriptor");
	const int before = open_descriptors();

	while (!failed && all_have_room(comm)) {
		SUCCEEDS(tutti_comm_split(comm, 0, 0, &children[n]));
		failed = sums_to(children[n++], 1, tutti_comm_size(comm));
	}
	CLAIM(!shares || open_descriptors() - before <= A_COMM_MOST * n,
	      "%d descriptors for %d communicators", open_descriptors() - before, n);
	while (n > 0)
		tutti_comm_destroy(children[--n]);
	return failed;
}

/* ---- the parent */

TEST(the_soft_limit_of_descriptors_bounds_no_communicators)
{
	need_descriptors(2 * USUAL);
	HOLDS(.ranks = 2, .with_directory = "TUTTI_TRACE=", .body = a_hundred_at_once);
}

JOB(a_split_orders_by_key_and_splits_again, .ranks = 2, .most = 5, .body = split_by_parity,
    .limit_s = 100)

#define SPLITS 8

/* Colors that are the number of the call, further up. */
static int split_by_large_colors(tutti_comm_t comm, void *argument)
{
	tutti_comm_t children[SPLITS];

	for (int i = 0; i < SPLITS; i++) {
		const int color = (int)(comm->next_seq + 1) << 20;

		SUCCEEDS(tutti_comm_split(comm, color, 0, &children[i]));
		for (int before = 0; before < i; before++)
			CLAIM(children[i]->id != children[before]->id,
			      "split %d has the number of split %d", i, before);
	}
	for (int i = 0; i < SPLITS; i++)
		tutti_comm_destroy(children[i]);
	return 0;
}

JOB(splits_by_large_colors_are_told_apart, .ranks = 2, .body = split_by_large_colors)

/* Rank 1 can open no descriptor: no rank of its color or another has a part, and they all have
 * what they had. */
static int split_without_descriptors(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	uint8_t zeros[1 << 16] = { 0 }, got[sizeof(zeros)];
	tutti_comm_t half;
	(void)argument;

	/* every rank has its connection with every other */
	SUCCEEDS(tutti_all_to_all(comm, zeros, got, sizeof(zeros) / (size_t)size, TUTTI_UINT8,
				  NULL));
	if (rank == 1)
		allow_descriptors(0);
	const tutti_result_t result = tutti_comm_split(comm, rank % 2, 0, &half);
	if (rank == 1)
		allow_descriptors(-1);
	FAILS(result, TUTTI_ERR_SYSTEM, "tutti_comm_split: rank 1 could not join: ");
	CLAIM(!half, "a communicator came of it");
	SUCCEEDS(tutti_comm_error(comm, NULL));
	SUCCEEDS(tutti_comm_split(comm, rank % 2, 0, &half));
	const int failed = sums_to(half, 1, (size + !(rank % 2)) / 2) || sums_to(comm, 1, size);
	tutti_comm_destroy(half);
	return failed;
}

JOB(a_split_succeeds_on_all_ranks_or_none, .ranks = 4, .most = 5, .body = split_without_descriptors,
    .limit_s = 100)

/* ---- a rank that does not call tutti_comm_split, but what it is made of, and says something
 * else */

#define NONSENSE_RANKS 3

enum nonsense { LONG_RECORD, LONG_TEXT, FOREIGN_TEXT, IN_PROGRESS, UNKNOWN_ERROR, NONSENSES };

struct nonsensical {
	enum nonsense which;
	atomic_int done;
};

/* What ranks send each other there. */
struct choice {
	int32_t color, key;
};
struct failure {
	int32_t result;
	uint32_t length;
	char text[640];
};

/* The text has no last byte of zero, and speaks to a terminal. */
static struct failure failure_with(int32_t result)
{
	struct failure failure = { result, sizeof(failure.text) };

	memset(failure.text, 'x', sizeof(failure.text));
	memcpy(failure.text, "\033[2J", 4);
	return failure;
}

static void exchange(tutti_comm_t comm, const void *mine, size_t length)
{
	char all[NONSENSE_RANKS * 4096];
	size_t lengths[NONSENSE_RANKS];

	tt_part_all_gather(comm, TT_PART_SPLIT, &length, lengths, sizeof(length));
	if (length < sizeof(all))
		tt_part_all_gather_v(comm, TT_PART_SPLIT, mine, all, lengths);
}

/* What comes of it on this rank does not matter. */
static void say_nonsense(tutti_comm_t comm, enum nonsense which)
{
	const int32_t results[NONSENSES] = {
		[LONG_TEXT] = TUTTI_ERR_SYSTEM,
		[FOREIGN_TEXT] = TUTTI_ERR_SYSTEM,
		[IN_PROGRESS] = TUTTI_IN_PROGRESS,
		[UNKNOWN_ERROR] = -99,
	};
	const struct choice choice = { 0, 0 };
	struct failure failure = failure_with(results[which]);
	struct choice choices[NONSENSE_RANKS];

	failure.length += which == LONG_TEXT;
	tt_part_all_gather(comm, TT_PART_SPLIT, &choice, choices, sizeof(choice));
	exchange(comm, NULL, which == LONG_RECORD ? SIZE_MAX - 10 : 0);
	if (which != LONG_RECORD)
		exchange(comm, &failure, sizeof(failure));
}

static int split_with_nonsense(tutti_comm_t comm, void *argument)
{
	struct nonsensical *play = argument;
	const enum nonsense which = play->which;
	tutti_comm_t out;

	if (tutti_comm_rank(comm) == 0) {
		say_nonsense(comm, which);
		/* that it leaves is not what they find */
		await_count(&play->done, NONSENSE_RANKS - 1);
		return 0;
	}
	const double began = seconds_now();
	const tutti_result_t result = tutti_comm_split(comm, tutti_comm_rank(comm) % 2, 0, &out);
	atomic_fetch_add(&play->done, 1);
	CLAIM(!out, "nonsense %d: a communicator came of it", (int)which);
	if (which == FOREIGN_TEXT)
		FAILS(result, TUTTI_ERR_SYSTEM, "tutti_comm_split: rank 0 could not join: ");
	else
		FAILS(result, TUTTI_ERR_UNSUPPORTED, "version of tutti");
	for (const char *c = tutti_last_error(comm); *c; c++)
		CLAIM((unsigned char)*c >= ' ', "nonsense %d: byte %d in the message", (int)which,
		      *c);
	CLAIM(seconds_now() - began < bound_s(20), "it took %g s", seconds_now() - began);
	return 0;
}

TEST(a_split_believes_nothing_that_ranks_send)
{
	for (enum nonsense which = 0; which < NONSENSES; which++) {
		struct nonsensical *play = shared_memory(sizeof(*play));

		play->which = which;
		HOLDS(.ranks = NONSENSE_RANKS, .body = split_with_nonsense, .argument = play);
		munmap(play, sizeof(*play));
	}
}

JOB(a_split_may_leave_ranks_out, .ranks = 2, .most = 4, .body = split_without_some, .limit_s = 100)

JOB(a_duplicate_has_operations_of_its_own, .ranks = 1, .most = 4, .body = duplicate, .limit_s = 100)

JOB(several_communicators_meet_in_one_store, .ranks = JOB_RANKS, .whole = several_by_one_store)

JOB(a_plan_names_the_transports_that_carry_it, .ranks = 3,
    .env = ENV("TEST_HOSTS=2", "TUTTI_TRANSPORT=shm,tcp", "TUTTI_ALGORITHM=flat"),
    .body = names_carriers)

JOB(a_rank_alone_needs_no_store, .ranks = 1, .whole = alone)

JOB(a_thousand_communicators_leave_nothing, .ranks = 4, .body = a_thousand, .limit_s = 100)

TEST(a_thousand_communicators_are_there_at_once)
{
	need_descriptors(3 * TIMES);
	HOLDS(.ranks = 4, .env = ENV("TEST_HOSTS=1", "TUTTI_TRANSPORT=shm"),
	      .body = a_thousand_at_once, .limit_s = 100);
}
