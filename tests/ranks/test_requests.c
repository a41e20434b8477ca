/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations in flight together: requests waited for in any order, groups.
 *
 *   TUTTI_LOG=warn,plan:debug test_requests shm|tcp|mixed
 *
 * What is planned is to be seen by a sink. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"
#include "notices.h"

#define F32	  TUTTI_FLOAT32
#define MAX_RANKS 4
#define MANY	  100
#define LARGE	  (1u << 20) /* elements */

static void fill(float *data, size_t n, int rank, int number)
{
	for (size_t i = 0; i < n; i++)
		data[i] = (float)(rank + 1) * (float)(i % 17 + (size_t)number);
}

/* Is data[i] what `fill` gives, `times` times a rank's? */
static int check(tutti_comm_t comm, const float *data, size_t n, float times, int number)
{
	for (size_t i = 0; i < n; i++) {
		const float expected = times * (float)(i % 17 + (size_t)number);

		CLAIM(data[i] == expected, "number %d of %zu: element %zu is %g, expected %g",
		      number, n, i, (double)data[i], (double)expected);
	}
	return 0;
}

/* 1 + 2 + … over the ranks */
static float total(tutti_comm_t comm)
{
	const int size = tutti_comm_size(comm);

	return (float)(size * (size + 1) / 2);
}

/* ---- requests */

static int a_hundred(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	tutti_request_t requests[MANY];
	float *send[MANY], *recv[MANY];
	size_t n[MANY];
	int failed = 0, ended = 0;

	for (int i = 0; i < MANY; i++) {
		n[i] = i % 10 == 9 ? 100000 : (size_t)(i * i % 3001 + 1);
		send[i] = malloc(n[i] * sizeof(float));
		recv[i] = malloc(n[i] * sizeof(float));
		fill(send[i], n[i], rank, i);
		SUCCEEDS(tutti_all_reduce(comm, send[i], recv[i], n[i], F32, TUTTI_SUM,
					  &requests[i]));
	}
	SUCCEEDS(tutti_wait(&requests[MANY / 2]));
	for (size_t index;; ended++) {
		SUCCEEDS(tutti_wait_any(requests, MANY, &index));
		if (index == MANY)
			break;
		CLAIM(!requests[index], "request %zu is still there", index);
	}
	CLAIM(ended == MANY - 1, "%d requests ended", ended);
	for (int i = 0; i < MANY; i++) {
		failed |= check(comm, recv[i], n[i], total(comm), i);
		free(send[i]), free(recv[i]);
	}
	return failed;
}

/* Rank 1 sends on one of two communicators when it is told to on the first, at once or after rank 0
 * has gone to sleep. */
static int any_of_two(tutti_comm_t *comms, int round)
{
	const tutti_comm_t comm = comms[0];
	const int which = round % 2;
	tutti_request_t requests[2] = { NULL };
	int32_t came[2] = { -1, -1 };
	size_t index;

	for (int c = 0; c < 2; c++)
		SUCCEEDS(tutti_recv(comms[c], &came[c], 1, TUTTI_INT32, 1, &requests[c]));
	tutti_result_t result = tutti_wait_any_for(requests, 2, round % 3 ? 0 : 1e-3, &index);

	CLAIM(result == TUTTI_IN_PROGRESS && index == 2 && requests[0] && requests[1],
	      "%d, index %zu before anything was sent", result, index);
	SUCCEEDS(tutti_send(comm, &round, 1, TUTTI_INT32, 1, NULL));
	for (int k = 0; k < 2; k++) {
		SUCCEEDS(tutti_wait_any(requests, 2, &index));
		CLAIM(index == (size_t)(k ? 1 - which : which) && !requests[index] &&
			      came[index] == round,
		      "message %d of round %d: index %zu, value %d", k, round, index, came[index]);
		SUCCEEDS(tutti_send(comm, &round, 1, TUTTI_INT32, 1, NULL));
	}
	return 0;
}

static int answer(tutti_comm_t *comms, int round)
{
	const tutti_comm_t comm = comms[0];
	int32_t told;

	for (int k = 0; k < 3; k++) {
		SUCCEEDS(tutti_recv(comm, &told, 1, TUTTI_INT32, 0, NULL));
		CLAIM(told == round, "round %d in round %d", told, round);
		if (k < 2)
			SUCCEEDS(tutti_send(comms[(round + k) % 2], &round, 1, TUTTI_INT32, 0,
					    NULL));
	}
	return 0;
}

static int any_of_several_communicators(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	tutti_comm_t comms[2] = { comm, NULL };
	tutti_request_t none[2] = { NULL };
	size_t index;
	int failed = 0;

	SUCCEEDS(tutti_comm_split(comm, 0, 0, &comms[1]));
	for (int round = 0; round < 300 && rank < 2 && !failed; round++)
		failed = rank == 0 ? any_of_two(comms, round) : answer(comms, round);
	SUCCEEDS(tutti_wait_any_for(none, 2, 1e9, &index));
	CLAIM(index == 2, "index %zu of no request", index);
	SUCCEEDS(tutti_barrier(comm, NULL));
	tutti_comm_destroy(comms[1]);
	return failed;
}

/* Rank 0 has called everything before the others begin: what it posted early lies where it would
 * post again. */
static int be_ahead(tutti_comm_t comm, atomic_int *posted, int turn, const size_t *lengths, int n)
{
	static float data[MANY][8000];
	const int rank = tutti_comm_rank(comm);
	tutti_request_t requests[MANY];
	int failed = 0;

	for (int i = 0; i < MANY && rank == 0; i++) {
		fill(data[i], lengths[i % n], 1, i);
		SUCCEEDS(tutti_broadcast(comm, data[i], data[i], lengths[i % n], F32, 0,
					 &requests[i]));
	}
	if (rank == 0)
		atomic_store(posted, turn);
	await_count(posted, turn);
	for (int i = 0; i < MANY && !failed && rank != 0; i++) {
		SUCCEEDS(tutti_broadcast(comm, data[i], data[i], lengths[i % n], F32, 0, NULL));
		failed = check(comm, data[i], lengths[i % n], 2, i);
	}
	if (rank == 0)
		SUCCEEDS(tutti_wait_all(requests, MANY));
	return failed;
}

static int root_ahead(tutti_comm_t comm, void *argument)
{
	/* what lies in slots alone, and 4 bytes to 32 KB */
	static const size_t shorts[] = { 1, 20, 60, 64 },
			    lengths[] = { 1, 300, 20, 4000, 60, 8000, 64, 65 };

	return be_ahead(comm, argument, 1, shorts, 4) || be_ahead(comm, argument, 2, lengths, 8);
}

/* Rank 0 calls nothing until all the others have ended. */
static int without_calls(tutti_comm_t comm, void *argument)
{
	atomic_int *ended = argument;
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	float *send = malloc(LARGE * sizeof(float)), *recv = malloc(LARGE * sizeof(float));
	tutti_request_t request;

	fill(send, LARGE, rank, 5);
	SUCCEEDS(tutti_all_reduce(comm, send, recv, LARGE, F32, TUTTI_SUM, &request));
	if (rank != 0) {
		SUCCEEDS(tutti_wait(&request));
		atomic_fetch_add(ended, 1);
	} else {
		CLAIM(await_count_for(ended, size - 1, bound_s(10)),
		      "the others do not end while rank 0 computes");
		SUCCEEDS(tutti_wait(&request));
	}
	const int failed = check(comm, recv, LARGE, total(comm), 5);
	free(send), free(recv);
	return failed;
}

#define TURN_NS 100000

/* struct sched_attr, as glibc has none before 2.41 */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t turn_ns, deadline, period;
};

/* 0: the kernel does not tell, as before Linux 6.12, or the thread is gone. */
static uint64_t turn_of(int thread)
{
	struct attributes attributes = { 0 };

	if (syscall(SYS_sched_getattr, thread, &attributes, sizeof(attributes), 0) < 0 ||
	    attributes.policy != SCHED_OTHER)
		return 0;
	return attributes.turn_ns;
}

static int threads_with_short_turns(void)
{
	DIR *directory = opendir("/proc/self/task");
	struct dirent *entry;
	int found = 0;

	while (directory && (entry = readdir(directory)))
		found += turn_of(atoi(entry->d_name)) == TURN_NS;
	if (directory)
		closedir(directory);
	return found;
}

/* Rank 0's request is pending until it has looked at who works on it: that thread asks for itself alone. */
static int with_turns(tutti_comm_t comm, void *argument)
{
	atomic_int *looked = argument;
	tutti_request_t request;
	int byte = 0;

	if (tutti_comm_rank(comm) == 1) {
		await_count(looked, 1);
		SUCCEEDS(tutti_send(comm, &byte, 1, TUTTI_UINT8, 0, NULL));
		return 0;
	}
	SUCCEEDS(tutti_recv(comm, &byte, 1, TUTTI_UINT8, 1, &request));
	while (threads_with_short_turns() == 0)
		look_again();
	const bool callers = turn_of(0) == TURN_NS;
	atomic_store(looked, 1);
	SUCCEEDS(tutti_wait(&request));
	CLAIM(!callers, "the caller's turns are short, too");
	return 0;
}

static int notified(tutti_comm_t comm, void *argument)
{
	return notices_come(comm);
}

/* ---- several threads that wait */

#define WAITING 4
#define CALLS	500

struct waiting {
	pthread_t thread;
	tutti_request_t request;
	int32_t value;
	tutti_result_t result;
};

static void *wait_in_thread(void *argument)
{
	struct waiting *w = argument;

	w->result = tutti_wait(&w->request);
	return NULL;
}

struct added {
	pthread_t caller;
	int here, elsewhere;
};

/* Is called by the thread that drives. */
static void add_and_look(void *inout, const void *in, size_t count, tutti_dtype_t dtype,
			 void *context)
{
	struct added *added = context;

	for (size_t i = 0; i < count; i++)
		((int32_t *)inout)[i] += ((const int32_t *)in)[i];
	++*(pthread_equal(added->caller, pthread_self()) ? &added->here : &added->elsewhere);
}

static int call_on(tutti_comm_t comm)
{
	struct added added = { .caller = pthread_self() };
	tutti_op_t op;

	SUCCEEDS(tutti_op_create(comm, add_and_look, 1, &added, &op));
	for (int i = 0; i < CALLS; i++) {
		int32_t sum = 1;

		SUCCEEDS(tutti_all_reduce(comm, &sum, &sum, 1, TUTTI_INT32, op, NULL));
		CLAIM(sum == tutti_comm_size(comm), "sum %d is %d", i, sum);
	}
	/* threads that come to wait later drive once, each */
	CLAIM(added.elsewhere <= WAITING, "%d of %d times another thread added", added.elsewhere,
	      added.here + added.elsewhere);
	return 0;
}

/* They let the one drive that calls meanwhile, and go on once it does not any more. */
static int threads_wait(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	struct waiting waiting[WAITING];

	for (int i = 0; i < WAITING; i++) {
		SUCCEEDS(tutti_recv(comm, &waiting[i].value, 1, TUTTI_INT32,
				    (rank + size - 1) % size, &waiting[i].request));
		pthread_create(&waiting[i].thread, NULL, wait_in_thread, &waiting[i]);
	}
	const int failed = call_on(comm);

	for (int32_t i = 0; i < WAITING; i++)
		SUCCEEDS(tutti_send(comm, &i, 1, TUTTI_INT32, (rank + 1) % size, NULL));
	for (int i = 0; i < WAITING; i++) {
		pthread_join(waiting[i].thread, NULL);
		CLAIM(waiting[i].result == TUTTI_OK && waiting[i].value == i,
		      "wait %d: result %d, value %d", i, waiting[i].result, waiting[i].value);
	}
	return failed;
}

/* ---- a program that wants its waits to end */

static atomic_int asked;
static pthread_t waits_first; /* and is asked; */
static sem_t waits;	      /* another thread waits later */

static int end_the_third_time(void)
{
	if (!pthread_equal(waits_first, pthread_self()))
		return 0;
	sem_post(&waits);
	return atomic_fetch_add(&asked, 1) == 2;
}

static void *wait_later(void *comm)
{
	int32_t value;

	while (sem_wait(&waits)) {
	}
	return (void *)(intptr_t)tutti_recv(comm, &value, 1, TUTTI_INT32, 1, NULL);
}

/* Rank 0 alone has a function; it waits for what nobody sends, the others for rank 0. */
static int interrupted(tutti_comm_t comm, void *argument)
{
	const bool first = tutti_comm_rank(comm) == 0;
	int32_t value = 0;
	tutti_result_t result;
	pthread_t later;
	void *other = (void *)(intptr_t)TUTTI_ERR_ABORTED;

	atomic_store(&asked, 0);
	sem_init(&waits, 0, 0);
	waits_first = pthread_self();
	SUCCEEDS(tutti_barrier(comm, NULL));
	if (first)
		pthread_create(&later, NULL, wait_later, comm);
	if (first)
		tutti_interrupt_set(end_the_third_time);
	result = first ? tutti_recv(comm, &value, 1, TUTTI_INT32, 1, NULL)
		       : tutti_barrier(comm, NULL);
	tutti_interrupt_set(NULL);
	FAILS(result, TUTTI_ERR_ABORTED, "rank 0 aborted the communicator: interrupted");
	if (first)
		pthread_join(later, &other);
	CLAIM((intptr_t)other == TUTTI_ERR_ABORTED, "the other thread gets %d",
	      (int)(intptr_t)other);
	/* it is asked again where ranks take their time to agree on a fault */
	CLAIM(first ? atomic_load(&asked) >= 3 : atomic_load(&asked) == 0, "asked %d times",
	      atomic_load(&asked));
	return 0;
}

/* ---- groups */

#define PARTS 16

/* Lines that tell of all-reduces planned: one of all the parts together, or of others. */
struct planned {
	atomic_int together, apart;
	char whole[40];
};

static void count_plans(tutti_log_level_t level, const char *subsystem, const char *line,
			void *context)
{
	struct planned *planned = context;

	if (strstr(line, planned->whole))
		atomic_fetch_add(&planned->together, 1);
	else if (strstr(line, ": all_reduce of "))
		atomic_fetch_add(&planned->apart, 1);
}

static void drop(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
}

static int fused(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	struct planned planned = { .whole = ": all_reduce of 136 float32" }; /* 1 + 2 + … + 16 */
	float send[PARTS][PARTS], recv[PARTS][PARTS];
	float least = (float)(rank + 1), found = 0;
	int32_t whole = rank, wholes = 0;
	int failed = 0;

	tutti_log_set_sink(count_plans, &planned);
	SUCCEEDS(tutti_group_begin(comm));
	for (int i = 0; i < PARTS; i++) {
		fill(send[i], (size_t)i + 1, rank, i);
		SUCCEEDS(tutti_all_reduce(comm, send[i], i % 2 ? recv[i] : send[i], (size_t)i + 1,
					  F32, TUTTI_SUM, NULL));
		if (i == 7) { /* neither type nor operation of the others */
			SUCCEEDS(tutti_all_reduce(comm, &whole, &wholes, 1, TUTTI_INT32, TUTTI_SUM,
						  NULL));
			SUCCEEDS(tutti_all_reduce(comm, &least, &found, 1, F32, TUTTI_MIN, NULL));
		}
	}
	SUCCEEDS(tutti_group_end(comm, NULL));
	tutti_log_set_sink(drop, NULL);
	for (int i = 0; i < PARTS; i++)
		failed |= check(comm, i % 2 ? recv[i] : send[i], (size_t)i + 1, total(comm), i);
	CLAIM(found == 1, "the least is %g", (double)found);
	CLAIM(wholes == tutti_comm_size(comm) * (tutti_comm_size(comm) - 1) / 2, "the sum is %d",
	      (int)wholes);
	CLAIM(planned.together == 1 && planned.apart == 2,
	      "%d all-reduces of all parts and %d others, expected 1 and 2", planned.together,
	      planned.apart);
	return failed;
}

/* ---- the parent */

/* Lines of what is planned are for one claim's own sink. */
__attribute__((constructor)) static void be_quiet(void)
{
	tutti_log_set_sink(drop, NULL);
}

JOB(a_hundred_sums_end_in_any_order, .ranks = 1, .most = MAX_RANKS, .body = a_hundred)
JOB(any_of_several_communicators_is_waited_for, .ranks = 2, .most = MAX_RANKS,
    .body = any_of_several_communicators)
JOB(a_root_ahead_of_its_readers_overwrites_nothing, .ranks = 1, .most = MAX_RANKS,
    .body = root_ahead, .shares = sizeof(atomic_int))
JOB(requests_end_while_the_caller_computes, .ranks = 1, .most = MAX_RANKS, .body = without_calls,
    .shares = sizeof(atomic_int))
JOB(who_asked_is_told_of_the_end_of_requests, .ranks = 1, .most = MAX_RANKS, .body = notified)
JOB(of_threads_that_wait_one_drives, .ranks = 2, .body = threads_wait)
JOB(a_wait_ends_when_the_program_wants_it, .ranks = 2, .most = MAX_RANKS, .body = interrupted)
JOB(small_sums_of_a_group_travel_as_one, .ranks = 2, .most = MAX_RANKS, .body = fused)

TEST(the_thread_that_works_on_requests_has_short_turns)
{
	if (turn_of(0) == 0 || turn_of(0) == TURN_NS)
		leave_out("the kernel knows no turns of a thread's own, or all are short");
	HOLDS(.ranks = 2, .body = with_turns, .shares = sizeof(atomic_int));
}
