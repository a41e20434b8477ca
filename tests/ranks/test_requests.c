/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations in flight together: requests waited for in any order, groups, threads that share a
 * communicator.
 *
 *   TUTTI_LOG=warn,plan:debug test_requests shm|tcp|mixed
 *
 * What is planned is to be seen by a sink. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int kinds_at_once(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	const size_t n = 70001;
	float *send = malloc(n * sizeof(float)), *sum = malloc(n * sizeof(float)),
	      *all = malloc(n * size * 4);
	float *from_root = malloc(n * sizeof(float)), *came = malloc(n * sizeof(float)), one = 1,
	      ones = 0;
	tutti_request_t r[5];
	tutti_result_t result;
	int failed = 0;

	fill(send, n, rank, 3);
	SUCCEEDS(tutti_all_reduce(comm, send, sum, n, F32, TUTTI_SUM, &r[0]));
	SUCCEEDS(tutti_all_gather(comm, send, all, n, F32, &r[1]));
	SUCCEEDS(tutti_recv(comm, came, n, F32, previous, &r[2]));
	SUCCEEDS(tutti_send(comm, send, n, F32, next, &r[3]));
	SUCCEEDS(tutti_broadcast(comm, send, from_root, n, F32, size - 1, &r[4]));
	/* blocking, among them */
	SUCCEEDS(tutti_all_reduce(comm, &one, &ones, 1, F32, TUTTI_SUM, NULL));
	CLAIM(ones == (float)size, "%g ranks", (double)ones);
	SUCCEEDS(tutti_wait(&r[4]));
	while ((result = tutti_test(&r[2])) == TUTTI_IN_PROGRESS)
		sched_yield();
	CLAIM(result == TUTTI_OK && !r[2], "the receive ended with %d", result);
	SUCCEEDS(tutti_wait_all(r, 5));
	for (int i = 0; i < 5; i++)
		CLAIM(!r[i], "request %d is still there", i);
	failed |= check(comm, sum, n, total(comm), 3) || check(comm, from_root, n, (float)size, 3);
	failed |= check(comm, came, n, (float)(previous + 1), 3);
	for (int from = 0; from < size; from++)
		failed |= check(comm, all + n * (size_t)from, n, (float)(from + 1), 3);
	free(send), free(sum), free(all), free(from_root), free(came);
	return failed;
}

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
static int root_ahead(tutti_comm_t comm, void *argument)
{
	/* 4 bytes to 32 KB */
	static const size_t lengths[] = { 1, 300, 20, 4000, 60, 8000, 64, 65 };
	static float data[MANY][8000];
	atomic_int *posted = argument;
	const int rank = tutti_comm_rank(comm);
	tutti_request_t requests[MANY];
	int failed = 0;

	for (int i = 0; i < MANY && rank == 0; i++) {
		fill(data[i], lengths[i % 8], 1, i);
		SUCCEEDS(tutti_broadcast(comm, data[i], data[i], lengths[i % 8], F32, 0,
					 &requests[i]));
	}
	if (rank == 0)
		atomic_store(posted, 1);
	await_count(posted, 1);
	for (int i = 0; i < MANY && !failed && rank != 0; i++) {
		SUCCEEDS(tutti_broadcast(comm, data[i], data[i], lengths[i % 8], F32, 0, NULL));
		failed = check(comm, data[i], lengths[i % 8], 2, i);
	}
	if (rank == 0)
		SUCCEEDS(tutti_wait_all(requests, MANY));
	return failed;
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

/* Signals that a thread of this process has blocked, once it sleeps: while it begins, the C library
 * has all blocked. False: it has ended. */
static bool blocked_by(const char *thread, uint64_t *blocked)
{
	char path[64], line[256], run_state = 'R';
	unsigned long long mask = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	while (run_state != 'S') {
		FILE *file = fopen(path, "re");

		if (!file)
			return false;
		while (fgets(line, sizeof(line), file)) {
			sscanf(line, "State: %c", &run_state);
			sscanf(line, "SigBlk: %llx", &mask);
		}
		fclose(file);
		look_again();
	}
	*blocked = mask;
	return true;
}

static int check_threads(tutti_comm_t comm)
{
	static const int signals[] = { SIGHUP,	SIGINT,	 SIGTERM, SIGUSR1, SIGUSR2,
				       SIGALRM, SIGCHLD, SIGIO,	  SIGPROF, SIGURG };
	DIR *directory = opendir("/proc/self/task");
	int others = 0;

	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		uint64_t blocked;

		if (atoi(entry->d_name) == 0 || atoi(entry->d_name) == getpid() ||
		    !blocked_by(entry->d_name, &blocked))
			continue;
		others++;
		for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
			CLAIM(blocked >> (signals[i] - 1) & 1,
			      "thread %s of the library takes signal %d", entry->d_name,
			      signals[i]);
	}
	closedir(directory);
	CLAIM(others > 0, "no thread works on what is pending");
	return 0;
}

/* Signals of the program are for the program's threads. Rank 0's request is pending until it has
 * looked at who works on it. */
static int with_signals(tutti_comm_t comm, void *argument)
{
	atomic_int *checked = argument;
	const int rank = tutti_comm_rank(comm), last = tutti_comm_size(comm) - 1;
	int failed = 0, byte = 0;
	tutti_request_t request;

	if (rank == 0) {
		SUCCEEDS(tutti_recv(comm, &byte, 1, TUTTI_UINT8, last, &request));
		failed = check_threads(comm);
		atomic_store(checked, 1);
		SUCCEEDS(tutti_wait(&request));
	} else if (rank == last) {
		await_count(checked, 1);
		SUCCEEDS(tutti_send(comm, &byte, 1, TUTTI_UINT8, 0, NULL));
	}
	return failed;
}

static int notified(tutti_comm_t comm, void *argument)
{
	return notices_come(comm);
}

/* ---- a program that wants its waits to end */

static atomic_int asked;

static int end_the_third_time(void)
{
	return atomic_fetch_add(&asked, 1) == 2;
}

/* Rank 0 alone has a function; it waits for what nobody sends, the others for rank 0. */
static int interrupted(tutti_comm_t comm, void *argument)
{
	const bool first = tutti_comm_rank(comm) == 0;
	int32_t value = 0;
	tutti_result_t result;

	atomic_store(&asked, 0);
	SUCCEEDS(tutti_barrier(comm, NULL));
	if (first)
		tutti_interrupt_set(end_the_third_time);
	result = first ? tutti_recv(comm, &value, 1, TUTTI_INT32, 1, NULL)
		       : tutti_barrier(comm, NULL);
	tutti_interrupt_set(NULL);
	CLAIM(result == TUTTI_ERR_ABORTED, "%d: %s", result, tutti_last_error(comm));
	CLAIM(strstr(tutti_last_error(comm), "rank 0 aborted the communicator: interrupted"), "%s",
	      tutti_last_error(comm));
	/* it is asked again where ranks take their time to agree on a fault */
	CLAIM(first ? atomic_load(&asked) >= 3 : atomic_load(&asked) == 0, "asked %d times",
	      atomic_load(&asked));
	return 0;
}

/* ---- groups */

/* To and from everybody, oneself included, in an order of each rank's own, around collectives. */
static int all_pairs(tutti_comm_t comm, size_t n, bool blocking)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	float *send = malloc(n * sizeof(float)), *sum = malloc(n * sizeof(float));
	float *came = malloc(n * sizeof(float) * (size_t)size),
	      *all = malloc(n * sizeof(float) * (size_t)size);
	size_t counts[MAX_RANKS];
	tutti_request_t request = NULL;
	int failed = 0;

	fill(send, n, rank, 1);
	for (int i = 0; i < size; i++)
		counts[i] = n;
	SUCCEEDS(tutti_group_begin(comm));
	for (int i = 0; i < size; i++) {
		const int peer = rank % 2 ? (rank + i) % size : (2 * size - i) % size;

		if (rank % 2)
			SUCCEEDS(tutti_recv(comm, came + n * (size_t)peer, n, F32, peer, NULL));
		SUCCEEDS(tutti_send(comm, send, n, F32, peer, NULL));
		if (rank % 2 == 0)
			SUCCEEDS(tutti_recv(comm, came + n * (size_t)peer, n, F32, peer, NULL));
		if (i == rank)
			SUCCEEDS(tutti_all_reduce(comm, send, sum, n, F32, TUTTI_SUM, NULL));
	}
	SUCCEEDS(tutti_all_gather_v(comm, send, all, counts, NULL, F32, NULL));
	memset(counts, 0xff, sizeof(counts)); /* the caller's again */
	SUCCEEDS(tutti_group_end(comm, blocking ? NULL : &request));
	SUCCEEDS(tutti_wait(&request));
	failed |= check(comm, sum, n, total(comm), 1);
	for (int peer = 0; peer < size; peer++)
		failed |= check(comm, came + n * (size_t)peer, n, (float)(peer + 1), 1) ||
			  check(comm, all + n * (size_t)peer, n, (float)(peer + 1), 1);
	free(send), free(sum), free(came), free(all);
	return failed;
}

static int mixtures(tutti_comm_t comm, void *argument)
{
	static const size_t sizes[] = { 1, 1000, 300000 };

	for (int i = 0; i < 3; i++)
		for (int blocking = 0; blocking < 2; blocking++)
			if (all_pairs(comm, sizes[i], blocking))
				return 1;
	return 0;
}

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

static int empty_groups(tutti_comm_t comm, void *argument)
{
	tutti_request_t request;

	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_group_end(comm, NULL));
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_group_end(comm, &request));
	SUCCEEDS(tutti_wait(&request));
	SUCCEEDS(tutti_barrier(comm, NULL));
	return 0;
}

/* ---- threads of one rank */

#define THREADS 4
#define TURNS	50

struct worker {
	tutti_comm_t comm;
	int number;
	atomic_int *turn; /* NULL: the communicator is this thread's alone */
	int failed;
};

static int work(struct worker *worker)
{
	tutti_comm_t comm = worker->comm;
	const int rank = tutti_comm_rank(comm);
	const size_t n = 5000;
	float *send = malloc(n * sizeof(float)), *recv = malloc(n * sizeof(float));
	int failed = 0;

	for (int i = 0; i < TURNS && !failed; i++) {
		const int turn = i * THREADS + worker->number;
		tutti_request_t request = NULL;

		fill(send, n, rank, turn);
		while (worker->turn && atomic_load(worker->turn) != turn)
			sched_yield();
		SUCCEEDS(tutti_all_reduce(comm, send, recv, n, F32, TUTTI_SUM,
					  worker->turn ? &request : NULL));
		if (worker->turn)
			atomic_fetch_add(worker->turn,
					 1); /* the order of the calls is the same on all ranks */
		SUCCEEDS(tutti_wait(&request));
		failed = check(comm, recv, n, total(comm), turn);
	}
	free(send), free(recv);
	return failed;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;

	worker->failed = work(worker);
	return NULL;
}

static int work_together(struct worker *workers, int n)
{
	pthread_t threads[THREADS];
	int failed = 0;

	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, worker_main, &workers[i]))
			return 1;
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		failed |= workers[i].failed;
	}
	return failed;
}

static int threads_on_one(tutti_comm_t comm, void *argument)
{
	struct worker workers[THREADS];
	atomic_int turn = 0;

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ comm, i, &turn, 0 };
	return work_together(workers, THREADS);
}

static int threads_on_two(tutti_comm_t comm, void *argument)
{
	tutti_comm_t other;

	SUCCEEDS(tutti_comm_split(comm, 0, -tutti_comm_rank(comm), &other));
	struct worker workers[2] = { { comm, 0, NULL, 0 }, { other, 1, NULL, 0 } };
	const int failed = work_together(workers, 2);
	tutti_comm_destroy(other);
	return failed;
}

/* ---- the parent */

static void holds(rank_body *body)
{
	atomic_int *count = shared_memory(sizeof(*count));
	const bool alone = body != kinds_at_once && body != fused && body != with_signals &&
			   body != interrupted && body != any_of_several_communicators;

	tutti_log_set_sink(drop, NULL);
	for (int ranks = alone ? 1 : 2; ranks <= MAX_RANKS; ranks++) {
		atomic_store(count, 0);
		HOLDS(.ranks = ranks, .body = body, .argument = count);
	}
}

#define SCENE(name, body)                                                                          \
	TEST(name)                                                                                 \
	{                                                                                          \
		holds(body);                                                                       \
	}

SCENE(all_kinds_are_in_flight_at_once, kinds_at_once)
SCENE(a_hundred_sums_end_in_any_order, a_hundred)
SCENE(any_of_several_communicators_is_waited_for, any_of_several_communicators)
SCENE(a_root_ahead_of_its_readers_overwrites_nothing, root_ahead)
SCENE(requests_end_while_the_caller_computes, without_calls)
SCENE(the_thread_that_works_on_requests_takes_no_signals, with_signals)
SCENE(who_asked_is_told_of_the_end_of_requests, notified)
SCENE(a_wait_ends_when_the_program_wants_it, interrupted)
SCENE(groups_mix_collectives_and_messages_in_any_order, mixtures)
SCENE(small_sums_of_a_group_travel_as_one, fused)
SCENE(empty_groups_end_at_once, empty_groups)
SCENE(threads_share_a_communicator, threads_on_one)
SCENE(threads_use_two_communicators, threads_on_two)
