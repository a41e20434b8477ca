/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that do not come: the deadline of the others passes, the communicator's own or the one that
 * a thread says of its next call, and all are told which operation waited for whom.
 *
 *   test_deadline shm|tcp|mixed */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS	   6
#define FEW	   3
#define SHORT_S	   (machine_may_be_busy() ? 2 : 0.5) /* the others are heard of by then */
#define LATE_S	   (SHORT_S + bound_s(1.5))	     /* told by then; the usual one is 40 s */
#define OUTLIVED_S 0.5
#define LARGE	   (1u << 18)

/* Shared by all ranks of a job. */
struct stage {
	atomic_int joined, calling, told;
	_Atomic pid_t stopped; /* or 0 */
	char said[RANKS][640]; /* what each rank was told */
};

struct absence {
	int ranks;
	uint32_t absent; /* mask of ranks that do not come … */
	bool stopped;	 /* … as they are stopped, instead of going on elsewhere */
	bool all_hurry;	 /* all that come say so of their next call, not rank 0 alone */
	int before;	 /* calls that all make before */
	/* By all that come, from one that does not, where it is a message. */
	tutti_result_t (*call)(tutti_comm_t comm, int absent, float *send, float *recv);
	const char *words, *state; /* of the operation, and of who is absent */
	struct stage *stage;
};

/* ---- calls */

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
	return tutti_all_reduce(comm, send, recv, LARGE, TUTTI_FLOAT32, TUTTI_SUM, NULL);
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

static tutti_result_t group(tutti_comm_t comm, int absent, float *send, float *recv)
{
	tutti_result_t result = tutti_group_begin(comm);

	if (!result)
		result = small_sum(comm, absent, send, recv);
	if (!result)
		result = tutti_broadcast(comm, send, recv + 2, 2, TUTTI_FLOAT32, 0, NULL);
	return result ? result : tutti_group_end(comm, NULL);
}

/* They travel as one. */
static tutti_result_t group_of_sums(tutti_comm_t comm, int absent, float *send, float *recv)
{
	tutti_result_t result = tutti_group_begin(comm);

	for (int i = 0; i < 3 && !result; i++)
		result = tutti_all_reduce(comm, send + i, recv + i, 1, TUTTI_FLOAT32, TUTTI_SUM,
					  NULL);
	return result ? result : tutti_group_end(comm, NULL);
}

/* ---- who is absent, and who comes */

static bool is_absent(const struct absence *a, int rank)
{
	return a->absent >> rank & 1;
}

static int present(const struct absence *a)
{
	return a->ranks - __builtin_popcount(a->absent);
}

/* Back again, it is told the same as the others. */
static tutti_result_t be_absent(const struct absence *a, tutti_comm_t comm)
{
	if (a->stopped) {
		atomic_store(&a->stage->stopped, getpid());
		raise(SIGSTOP);
	} else {
		await_count(&a->stage->told, present(a));
	}
	return tutti_barrier(comm, NULL);
}

/* Rank 0 comes last. */
static int come(const struct absence *a, tutti_comm_t comm)
{
	const int rank = tutti_comm_rank(comm), absent = __builtin_ctz(a->absent);
	float *send = calloc(LARGE, sizeof(float)), *recv = calloc(LARGE, sizeof(float));
	char missed[64];
	int named;

	if (a->stopped) {
		await_count(&a->stage->stopped, 1);
		CLAIM(await_stop(atomic_load(&a->stage->stopped)), "the absent rank has ended");
	}
	atomic_fetch_add(&a->stage->calling, 1);
	if (rank == 0)
		await_count(&a->stage->calling, present(a));
	if (a->all_hurry || rank == 0)
		SUCCEEDS(next_call_takes(comm, SHORT_S));
	const double start = seconds_now();
	const tutti_result_t result = a->call(comm, absent, send, recv);
	const double took = seconds_now() - start;

	if (atomic_fetch_add(&a->stage->told, 1) == present(a) - 1 && a->stopped)
		kill(atomic_load(&a->stage->stopped), SIGCONT);
	snprintf(missed, sizeof(missed), "missed its deadline of %g s: ", SHORT_S);
	FAILS(result, TUTTI_ERR_TIMEOUT, a->words, a->state, missed);
	CLAIM(took < LATE_S, "told after %.3f s", took);
	CLAIM(tutti_comm_error(comm, &named) == result && is_absent(a, named),
	      "tutti_comm_error names rank %d", named);
	free(send);
	free(recv);
	return 0;
}

static int play_absence(tutti_comm_t comm, void *argument)
{
	const struct absence *a = argument;
	const int rank = tutti_comm_rank(comm);
	int failed = 0;

	CLAIM(tutti_comm_timeout(comm) == atof(getenv("TUTTI_TIMEOUT")) &&
		      tutti_comm_timeout(NULL) == -1,
	      "the communicator's own deadline is %g s", tutti_comm_timeout(comm));
	for (int i = 0; i < a->before; i++) { /* in which rank 0 hears of nobody */
		float value = 1;

		SUCCEEDS(tutti_broadcast(comm, &value, &value, 1, TUTTI_FLOAT32, 0, NULL));
	}
	meet_at(&a->stage->joined, a->ranks);
	if (is_absent(a, rank)) {
		FAILS(be_absent(a, comm), TUTTI_ERR_TIMEOUT, "");
	} else {
		failed = come(a, comm);
	}
	snprintf(a->stage->said[rank], sizeof(a->stage->said[0]), "%s", tutti_last_error(comm));
	return failed;
}

static void all_are_told(struct absence a)
{
	a.stage = shared_memory(sizeof(*a.stage));
	HOLDS(.ranks = a.ranks, .body = play_absence, .argument = &a);
	for (int rank = 1; rank < a.ranks; rank++)
		assert_string_equal(a.stage->said[rank], a.stage->said[0]);
}

/* ---- whatever the call is */

static void each_is_named(struct absence a, const char *state)
{
	char words[96];

	a.ranks = FEW;
	a.all_hurry = true;
	a.state = words;
	for (int absent = 0; absent < FEW; absent++) {
		a.absent = 1u << absent;
		snprintf(words, sizeof(words), "rank %d is %s", absent, state);
		all_are_told(a);
	}
}

#define SCENE(name, state, ...)                                                                    \
	TEST(name)                                                                                 \
	{                                                                                          \
		each_is_named((struct absence){ __VA_ARGS__ }, state);                             \
	}
#define NOT_CALLED "alive but has not called operation 1"
#define NOT_SENT   "alive but has not called the send"
#define STOPPED	   "stopped (state T) and has not called operation 1"

SCENE(a_barrier_has_a_deadline, NOT_CALLED, .call = barrier,
      .words = "operation 1, barrier(), missed its deadline of ")
SCENE(a_small_sum_has_a_deadline, NOT_CALLED, .call = small_sum,
      .words = "all_reduce(float32 × 2, sum)")
SCENE(a_large_sum_has_a_deadline, NOT_CALLED, .call = large_sum,
      .words = "all_reduce(float32 × 262144, sum)")
SCENE(a_receive_has_a_deadline, NOT_SENT, .call = receive, .words = "(float32 × 2)")
SCENE(a_request_has_a_deadline, NOT_CALLED, .call = pending, .words = "all_gather(float32 × 8)")
SCENE(a_stopped_rank_is_named_and_told, STOPPED, .call = small_sum, .stopped = true,
      .words = "all_reduce(float32 × 2, sum)")

/* ---- of several, and where rank 0 alone is in a hurry */

#define TOLD(name, mask, ...)                                                                      \
	TEST(name)                                                                                 \
	{                                                                                          \
		all_are_told((struct absence){ RANKS, mask, __VA_ARGS__ });                        \
	}

TOLD(one_ranks_shorter_deadline_ends_the_call_of_all, 1u << 2, .call = small_sum,
     .words = "ranks 0, 1, 3-5 have called it, ",
     .state = "rank 2 is alive but has not called operation 1")
TOLD(several_absent_ranks_are_told_together, 1u << 1 | 1u << 2 | 1u << 4, .call = small_sum,
     .words = "ranks 0, 3, 5 have called it, ",
     .state = "ranks 1, 2, 4 are alive but have not called operation 1")
TOLD(only_the_caller_is_said_to_have_called, 0x3e, .call = small_sum,
     .words = "rank 0 has called it, ",
     .state = "ranks 1-5 are alive but have not called operation 1")
/* The absent rank is in no call: the control area shows what it called last, or its monitor says
 * so. */
TOLD(the_last_call_of_an_absent_rank_is_told, 1u << 4, .before = 2, .call = small_sum,
     .words = strcmp(transport_chosen, "shm") == 0 ? "operation 3 (its last was operation 2)"
						   : "operation 3 (last heard of in operation 2)",
     .state = "rank 4 is alive but has not called operation 3")
TOLD(a_group_has_the_deadline_said_before_it, 1u << 3, .call = group, .words = "operation 1, ",
     .state = "rank 3 is ")
TOLD(small_sums_of_a_group_have_it_too, 1u << 3, .call = group_of_sums, .words = "operation 1, ",
     .state = "rank 3 is ")

/* ---- all have called, and one does not get on: its own part of the sum waits for the others */

static void add(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	struct stage *stage = context;
	float *sum = inout;

	for (size_t i = 0; i < count; i++)
		sum[i] += ((const float *)in)[i];
	if (stage) /* of the slow rank */
		await_count(&stage->told, RANKS - 1);
}

static int play_slow(tutti_comm_t comm, void *argument)
{
	struct stage *stage = argument;
	const int rank = tutti_comm_rank(comm);
	float numbers[RANKS] = { 0 };
	tutti_op_t op;
	int named = -1;

	SUCCEEDS(tutti_op_create(comm, add, 1, rank == 2 ? stage : NULL, &op));
	meet_at(&stage->joined, RANKS);
	atomic_fetch_add(&stage->calling, 1);
	if (rank == 0) {
		await_count(&stage->calling, RANKS);
		SUCCEEDS(next_call_takes(comm, SHORT_S));
	}
	tutti_result_t result =
		tutti_all_reduce(comm, numbers, numbers, RANKS, TUTTI_FLOAT32, op, NULL);
	if (rank == 2 && !result) /* it has all of its own part */
		result = tutti_barrier(comm, NULL);
	atomic_fetch_add(&stage->told, 1);
	FAILS(result, TUTTI_ERR_TIMEOUT, "all ranks have called it, and rank 0 waits for rank 2");
	CLAIM(tutti_comm_error(comm, &named) == result && named == 2, "rank %d is blamed", named);
	return 0;
}

TEST(of_those_that_have_called_the_one_behind_is_named)
{
	if (strcmp(transport_chosen, "shm") != 0)
		leave_out("only through shared memory each rank sees how far all are");
	HOLDS(.ranks = RANKS, .body = play_slow, .argument = shared_memory(sizeof(struct stage)),
	      .env = ENV("TUTTI_ALGORITHM=direct"));
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
	REFUSES(tutti_all_reduce(comm, &value, &sum, 1, TUTTI_FLOAT32, -7, NULL), "op -7");
	return wait_for_late(comm, released);
}

JOB(an_invalid_call_takes_it, .ranks = 3, .body = waste_it, .shares = sizeof(atomic_int))

static int have_no_time(tutti_comm_t comm, void *argument)
{
	float value;

	SUCCEEDS(next_call_takes(comm, 1e-10));
	FAILS(tutti_recv(comm, &value, 1, TUTTI_FLOAT32, 1 - tutti_comm_rank(comm), NULL),
	      TUTTI_ERR_TIMEOUT, "missed its deadline of 1e-09 s");
	return 0;
}

JOB(less_than_a_nanosecond_is_a_deadline, .ranks = 2, .body = have_no_time)

/* ---- a chain of ranks that wait for messages: 1 for 0, and 0 for 2 */

struct chain {
	atomic_int joined, waits, told;
	_Atomic pid_t stopped; /* or 0 */
	bool stops;	       /* rank 2, which otherwise calls nothing */
};

static tutti_result_t end_chain(struct chain *chain, tutti_comm_t comm)
{
	if (chain->stops) {
		atomic_store(&chain->stopped, getpid());
		raise(SIGSTOP);
	} else {
		await_count(&chain->told, FEW - 1);
	}
	return tutti_barrier(comm, NULL);
}

/* Rank 1 misses its deadline when rank 0 has waited for most of its own, if that has not passed before. */
static tutti_result_t wait_for_next(struct chain *chain, tutti_comm_t comm)
{
	const int rank = tutti_comm_rank(comm);
	tutti_request_t request;
	float value;

	if (chain->stops) {
		await_count(&chain->stopped, 1);
		CLAIM(await_stop(atomic_load(&chain->stopped)), "rank 2 has ended");
	}
	if (rank == 1)
		await_count(&chain->waits, 1);
	SUCCEEDS(next_call_takes(comm, rank == 1 ? SHORT_S : 1.2 * SHORT_S));
	SUCCEEDS(tutti_recv(comm, &value, 1, TUTTI_FLOAT32, rank == 1 ? 0 : 2, &request));
	atomic_store(&chain->waits, 1);
	const tutti_result_t result = tutti_wait(&request);

	if (atomic_fetch_add(&chain->told, 1) == FEW - 2 && chain->stops)
		kill(atomic_load(&chain->stopped), SIGCONT);
	return result;
}

static int play_chain(tutti_comm_t comm, void *argument)
{
	struct chain *chain = argument;
	int named = -1;

	meet_at(&chain->joined, FEW);
	const tutti_result_t result =
		(tutti_comm_rank(comm) == 2 ? end_chain : wait_for_next)(chain, comm);
	FAILS(result, TUTTI_ERR_TIMEOUT, "");
	CLAIM(tutti_comm_error(comm, &named) == result && named == 2, "rank %d is blamed: %s",
	      named, tutti_last_error(comm));
	return 0;
}

static void the_end_is_blamed(bool stops)
{
	struct chain *chain = shared_memory(sizeof(*chain));

	chain->stops = stops;
	HOLDS(.ranks = FEW, .body = play_chain, .argument = chain, .limit_s = 20);
}

TEST_OF(a_stopped_rank_at_the_end_of_a_chain_is_blamed, the_end_is_blamed(true))

/* Where all share an arena nobody can be asked: the first fault is that of all. */
TEST(the_end_of_a_chain_is_blamed)
{
	if (strcmp(transport_chosen, "shm") == 0)
		leave_out("over shm alone the first fault counts");
	the_end_is_blamed(false);
}

/* ---- a rank that has ended what others wait in, since another one does not call it */

#define LONGER 4

struct ended {
	atomic_int joined, ended, told;
	bool leaves; /* rank 0, when it has ended its scan; or it is in no call meanwhile */
};

static tutti_result_t prefix_sum(tutti_comm_t comm)
{
	float value = 1, sum;

	return tutti_scan(comm, &value, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static int miss_rank_1(struct ended *ended, tutti_comm_t comm)
{
	int named = -1;

	await_count(&ended->ended, 1);
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	const tutti_result_t result = prefix_sum(comm);
	atomic_fetch_add(&ended->told, 1);
	FAILS(result, TUTTI_ERR_TIMEOUT, "rank 1 is alive but has not called operation 1");
	CLAIM(tutti_comm_error(comm, &named) == result && named == 1, "rank %d is blamed: %s",
	      named, tutti_last_error(comm));
	return 0;
}

static int play_ended(tutti_comm_t world, void *argument)
{
	struct ended *ended = argument;
	tutti_comm_t comm;
	int failed = 0;

	SUCCEEDS(tutti_comm_split(world, 0, 0, &comm));
	meet_at(&ended->joined, LONGER);
	if (tutti_comm_rank(world) > 1) {
		failed = miss_rank_1(ended, comm);
	} else if (tutti_comm_rank(world) == 0) {
		SUCCEEDS(prefix_sum(comm));
		if (ended->leaves)
			tutti_comm_destroy(comm);
		atomic_store(&ended->ended, 1);
	}
	await_count(&ended->told, LONGER - 2);
	if (tutti_comm_rank(world) > 0 || !ended->leaves)
		tutti_comm_destroy(comm);
	return failed;
}

static void rank_1_is_blamed(bool leaves)
{
	struct ended *ended = shared_memory(sizeof(*ended));

	ended->leaves = leaves;
	HOLDS(.ranks = LONGER, .body = play_ended, .argument = ended, .limit_s = 20);
}

TEST_OF(who_has_ended_an_operation_is_not_blamed, rank_1_is_blamed(false))

TEST_OF(who_has_left_is_not_blamed, rank_1_is_blamed(true))

/* ---- two that send to each other */

#define LONG (1u << 22) /* elements: more than any link takes without a receive */

struct senders {
	atomic_int joined, told;
	uint32_t answer;   /* elements that rank 1 sends to rank 0 before it receives; rank 0 sends
			      LONG of them */
	const char *words; /* of the error message */
};

static tutti_result_t call_within(tutti_comm_t comm, double seconds, tutti_request_t *request)
{
	const tutti_result_t result = next_call_takes(comm, seconds);

	return result ? result : tutti_barrier(comm, request);
}

static int play_senders(tutti_comm_t comm, void *argument)
{
	struct senders *senders = argument;
	const int rank = tutti_comm_rank(comm);
	float *elements = calloc(LONG, sizeof(*elements));
	tutti_result_t result = TUTTI_OK;

	meet_at(&senders->joined, FEW);
	if (rank < 2)
		SUCCEEDS(next_call_takes(comm, SHORT_S));
	if (rank < 2)
		result = tutti_send(comm, elements, rank == 0 ? LONG : senders->answer,
				    TUTTI_FLOAT32, 1 - rank, NULL);
	if (rank == 1 && !result) /* it was short, and is on its way */
		await_count(&senders->told, 1);
	if (rank == 0 || (rank == 1 && result))
		atomic_fetch_add(&senders->told, 1);
	if (!result) /* the third one, too, is to hear of them, and misses no deadline of its own */
		result = call_within(comm, 20, NULL);
	FAILS(result, TUTTI_ERR_TIMEOUT, senders->words);
	free(elements);
	return 0;
}

static void senders_are_told(uint32_t answer, const char *words)
{
	struct senders *senders = shared_memory(sizeof(*senders));

	senders->answer = answer;
	senders->words = words;
	HOLDS(.ranks = FEW, .body = play_senders, .argument = senders, .limit_s = 20);
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
