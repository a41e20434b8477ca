/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads of one process, which meet in one store: every collective, every kind of call from
 * several threads on one communicator, one-sided calls, notices, an abort among threads. What a race
 * detector is to see happens here. Requests in any order, groups of everything and splits are those
 * of tests/random.
 *
 *   test_threads RANKS [NAME=VALUE …] */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/window.h>

#include "calls/call.h"
#include "notices.h"
#include "thread_ranks.h"

#define RANKS_MAX CALL_RANKS
#define HELPERS	  3

static const size_t counts[] = { 0, 1, 37, 5000, 150000 };
static int ranks;

/* What rank `rank` has at place i: sums of 16 of them fit. */
static int32_t input(int rank, size_t i)
{
	return (int32_t)((i * 31 + (size_t)rank * 17) % 1009);
}

static int32_t sum_of(int first, int last, size_t i)
{
	int32_t sum = 0;

	for (int rank = first; rank <= last; rank++)
		sum += input(rank, i);
	return sum;
}

static void fill(int32_t *out, int rank, size_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = input(rank, first + i);
}

/* ---- collectives */

static int check_sum(tutti_comm_t comm, const char *what, const int32_t *found, int first, int last,
		     size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		CLAIM(found[i] == sum_of(first, last, from + i),
		      "%s of %zu: element %zu is %d, expected %d", what, n, i, found[i],
		      sum_of(first, last, from + i));
	return 0;
}

static int collective(tutti_comm_t comm, enum what what, size_t n)
{
	char why[CALL_TEXT];
	struct call c;

	call_init(&c, what, tutti_comm_rank(comm), ranks, TUTTI_INT32, TUTTI_SUM, n);
	c.root = what == SCATTER ? 0 : ranks - 1;
	CLAIM(call_try(comm, &c, why), "%s", why);
	return 0;
}

static int reductions(tutti_comm_t comm, size_t n)
{
	for (int what = 0; what < MESSAGE; what++)
		if (call_combines((enum what)what) && collective(comm, (enum what)what, n))
			return 1;
	return 0;
}

static int collectives(tutti_comm_t comm)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (int what = 0; what < MESSAGE; what++)
			if (collective(comm, (enum what)what, counts[i]))
				return 1;
	return 0;
}

/* ---- every kind of call from several threads of a rank on one communicator */

/* Swap with the rank so many places on; each pair's messages belong to one thread of each. */
static int swap_messages(tutti_comm_t comm, int distance)
{
	const int me = tutti_comm_rank(comm);
	const int to = (me + distance) % ranks, from = (me + ranks - distance) % ranks;
	int32_t out[3000], in[3000];

	for (size_t n = 1; n <= 3000; n = n * 5 + 3) {
		tutti_request_t sent;

		fill(out, me, n, n);
		SUCCEEDS(tutti_send(comm, out, n, TUTTI_INT32, to, &sent));
		SUCCEEDS(tutti_recv(comm, in, n, TUTTI_INT32, from, NULL));
		SUCCEEDS(tutti_wait(&sent));
		if (check_sum(comm, "recv", in, from, from, n, n))
			return 1;
	}
	return 0;
}

#define TURNS 15

/* What the threads of a rank share. */
struct company {
	tutti_comm_t comm;
	atomic_int over;      /* the collectives are */
	pthread_mutex_t lock; /* of the request handed on */
	pthread_cond_t handed;
	tutti_request_t request;
	int32_t data[64];
};

struct member {
	pthread_t thread;
	struct company *company;
	int (*work)(struct company *company);
	int failed;
};

/* Groups of a send and a receive, waited for or tested. */
static int exchange_in_groups(struct company *company)
{
	const tutti_comm_t comm = company->comm;
	const int me = tutti_comm_rank(comm), to = (me + 2) % ranks,
		  from = (me + ranks - 2) % ranks;
	int32_t out[700], in[700];

	for (int turn = 0; turn < TURNS; turn++) {
		tutti_request_t request = NULL;
		tutti_result_t result = TUTTI_IN_PROGRESS;

		fill(out, me, (size_t)turn, 700);
		SUCCEEDS(tutti_group_begin(comm));
		SUCCEEDS(tutti_send(comm, out, 700, TUTTI_INT32, to, NULL));
		SUCCEEDS(tutti_recv(comm, in, 700, TUTTI_INT32, from, NULL));
		SUCCEEDS(tutti_group_end(comm, turn % 3 ? &request : NULL));
		while (turn % 3 == 1 && result == TUTTI_IN_PROGRESS)
			result = tutti_test(&request);
		SUCCEEDS(tutti_wait(&request));
		if (check_sum(comm, "group of a thread", in, from, from, (size_t)turn, 700))
			return 1;
	}
	return 0;
}

static int swap_in_turns(struct company *company)
{
	for (int turn = 0; turn < TURNS / 5; turn++)
		if (swap_messages(company->comm, 1))
			return 1;
	return 0;
}

/* Calls that change nothing, and memory. */
static int look_on(struct company *company)
{
	const tutti_comm_t comm = company->comm;

	while (!atomic_load(&company->over)) {
		tutti_plan_info_t info = { .size = sizeof(info) };
		void *memory;

		CLAIM(strcmp(tutti_last_error(comm), "") == 0, "an error: %s",
		      tutti_last_error(comm));
		CLAIM(tutti_comm_size(comm) == ranks, "%d ranks", tutti_comm_size(comm));
		SUCCEEDS(tutti_comm_error(comm, NULL));
		SUCCEEDS(tutti_comm_last_plan(comm, &info));
		CLAIM(info.algorithm && info.rounds < 1000, "no plan");
		SUCCEEDS(tutti_mem_alloc(5000, &memory));
		memset(memory, 1, 5000);
		tutti_mem_free(memory);
		sched_yield();
	}
	return 0;
}

/* Waits for the requests that the thread of the collectives starts. */
static int wait_for_others(struct company *company)
{
	const tutti_comm_t comm = company->comm;

	for (int turn = 0; turn < TURNS; turn++) {
		pthread_mutex_lock(&company->lock);
		while (!company->request)
			pthread_cond_wait(&company->handed, &company->lock);
		const tutti_result_t result = tutti_wait(&company->request);
		const int32_t first = company->data[0];
		pthread_cond_signal(&company->handed);
		pthread_mutex_unlock(&company->lock);
		CLAIM(result == TUTTI_OK && first == sum_of(0, ranks - 1, (size_t)turn),
		      "turn %d: %d (%s), %d", turn, result, tutti_last_error(comm), first);
	}
	return 0;
}

static int call_collectives(struct company *company)
{
	const tutti_comm_t comm = company->comm;

	for (int turn = 0; turn < TURNS; turn++) {
		const tutti_call_t call = { sizeof(call), 100 };

		pthread_mutex_lock(&company->lock);
		while (company->request)
			pthread_cond_wait(&company->handed, &company->lock);
		fill(company->data, tutti_comm_rank(comm), (size_t)turn, 64);
		const tutti_result_t result =
			tutti_all_reduce(comm, company->data, company->data, 64, TUTTI_INT32,
					 TUTTI_SUM, &company->request);
		pthread_cond_signal(&company->handed);
		pthread_mutex_unlock(&company->lock);
		SUCCEEDS(result);
		SUCCEEDS(tutti_next_call(comm, &call));
		if (collective(comm, ALL_REDUCE, 3000))
			return 1;
	}
	return 0;
}

static void *be_member(void *argument)
{
	struct member *member = argument;

	member->failed = member->work(member->company);
	return NULL;
}

static int threads_mix(tutti_comm_t comm)
{
	struct company company = { .comm = comm };
	struct member members[] = { { .work = swap_in_turns },
				    { .work = wait_for_others },
				    { .work = look_on },
				    { .work = look_on },
				    { .work = exchange_in_groups } };
	const int n = ranks > 2 ? 5 : 4; /* with two ranks, two places on is oneself */

	SUCCEEDS(tutti_barrier(comm, NULL)); /* there is a last plan */
	pthread_mutex_init(&company.lock, NULL);
	pthread_cond_init(&company.handed, NULL);
	for (int i = 0; i < n; i++) {
		members[i].company = &company;
		CLAIM(pthread_create(&members[i].thread, NULL, be_member, &members[i]) == 0,
		      "cannot start a thread");
	}
	int failed = call_collectives(&company);
	if (failed) /* wakes who waits for what will not come */
		tutti_comm_abort(comm, "a claim of the test failed");
	atomic_store(&company.over, 1);
	for (int i = 0; i < n; i++) {
		pthread_join(members[i].thread, NULL);
		failed |= members[i].failed;
	}
	pthread_cond_destroy(&company.handed);
	pthread_mutex_destroy(&company.lock);
	return failed;
}

/* ---- an abort among threads */

static int call_until_aborted(struct company *company)
{
	const tutti_comm_t comm = company->comm;
	int32_t value = 1;
	tutti_result_t result;

	do
		result = tutti_all_reduce(comm, &value, &value, 1, TUTTI_INT32, TUTTI_MAX, NULL);
	while (!result);
	FAILS(result, TUTTI_ERR_ABORTED, "enough of it");
	return 0;
}

static int receive_until_aborted(struct company *company)
{
	const tutti_comm_t comm = company->comm;
	const int from = (tutti_comm_rank(comm) + 1) % ranks;
	tutti_request_t requests[2] = { NULL };
	int32_t values[2];
	size_t index;
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < 2 && !result; i++)
		result = tutti_recv(comm, &values[i], 1, TUTTI_INT32, from, &requests[i]);
	if (!result)
		result = tutti_wait_any(requests, 2, &index);
	tutti_wait_all(requests, 2);
	FAILS(result, TUTTI_ERR_ABORTED, "enough of it");
	return 0;
}

static int look_until_aborted(struct company *company)
{
	const tutti_comm_t comm = company->comm;
	int rank = -1;

	while (!tutti_comm_error(comm, &rank))
		sched_yield();
	CLAIM(rank == ranks - 1 && strstr(tutti_last_error(comm), "enough of it"), "rank %d (%s)",
	      rank, tutti_last_error(comm));
	return 0;
}

static int abort_among_threads(tutti_comm_t comm)
{
	struct company company = { 0 };
	struct member members[] = { { .work = call_until_aborted },
				    { .work = receive_until_aborted },
				    { .work = look_until_aborted },
				    { .work = look_until_aborted } };
	int failed = 0;

	SUCCEEDS(tutti_comm_split(comm, 0, tutti_comm_rank(comm), &company.comm));
	SUCCEEDS(tutti_barrier(comm, NULL)); /* nobody is in the split any more, which would end
					      * as well */
	for (int i = 0; i < 4; i++) {
		members[i].company = &company;
		CLAIM(pthread_create(&members[i].thread, NULL, be_member, &members[i]) == 0,
		      "cannot start a thread");
	}
	if (tutti_comm_rank(comm) == ranks - 1)
		SUCCEEDS(tutti_comm_abort(company.comm, "enough of it"));
	for (int i = 0; i < 4; i++) {
		pthread_join(members[i].thread, NULL);
		failed |= members[i].failed;
	}
	tutti_comm_destroy(company.comm);
	return failed;
}

/* ---- one-sided calls */

#define PUT 1500 /* elements: more than are copied */

/* What a rank's threads share with those of others: a sum, then a block for each thread of each
 * rank. */
struct board {
	uint64_t sum;
	int32_t block[RANKS_MAX][HELPERS][PUT];
};

struct putter {
	pthread_t thread;
	tutti_comm_t comm;
	tutti_window_t window;
	struct board *board;
	int number, failed;
};

static size_t block_at(int rank, int thread)
{
	return offsetof(struct board, block) +
	       ((size_t)rank * HELPERS + (size_t)thread) * PUT * sizeof(int32_t);
}

/* Each thread has a block and two signals with every rank: of puts, and of blocks that may be put
 * anew. */
static int put_in_turns(struct putter *p)
{
	const tutti_comm_t comm = p->comm;
	const int me = tutti_comm_rank(comm), next = (me + 1) % ranks;
	const uint32_t here = (uint32_t)p->number, seen = here + HELPERS;
	int32_t out[PUT], in[PUT];

	for (uint64_t turn = 1; turn <= TURNS; turn++) {
		const uint64_t all = turn * (uint64_t)ranks;
		const size_t n = turn % 2 ? PUT : 7;

		fill(out, me, turn, n);
		for (int to = 0; to < ranks; to++)
			SUCCEEDS(tutti_put_signal(p->window, out, n * sizeof(*out), to,
						  block_at(me, p->number), here, 1, NULL));
		SUCCEEDS(tutti_fetch_add(p->window, (int)turn % ranks, 0, 1, NULL, NULL));
		SUCCEEDS(tutti_wait_signal(p->window, here, all, NULL, NULL));
		for (int from = 0; from < ranks; from++)
			if (check_sum(comm, "put", p->board->block[from][p->number], from, from,
				      turn, n))
				return 1;
		SUCCEEDS(tutti_get(p->window, in, n * sizeof(*in), next, block_at(me, p->number),
				   NULL));
		if (check_sum(comm, "get", in, me, me, turn, n))
			return 1;
		for (int to = 0; to < ranks; to++)
			SUCCEEDS(tutti_signal(p->window, to, seen, 1));
		SUCCEEDS(tutti_wait_signal(p->window, seen, all, NULL, NULL));
	}
	return 0;
}

static void *be_putter(void *argument)
{
	struct putter *putter = argument;

	putter->failed = put_in_turns(putter);
	return NULL;
}

static int check_sums(tutti_comm_t comm, const struct board *board)
{
	uint64_t sum = board->sum;

	SUCCEEDS(tutti_all_reduce(comm, &sum, &sum, 1, TUTTI_UINT64, TUTTI_SUM, NULL));
	CLAIM(sum == (uint64_t)(ranks * HELPERS * TURNS), "%llu were added",
	      (unsigned long long)sum);
	return 0;
}

static int threads_put(tutti_comm_t comm)
{
	struct board *board = calloc(1, sizeof(*board));
	struct putter putter[HELPERS];
	tutti_window_t window;
	int failed = 0;

	SUCCEEDS(tutti_window_create(comm, board, sizeof(*board), 2 * HELPERS, &window));
	for (int i = 0; i < HELPERS; i++) {
		putter[i] = (struct putter){
			.comm = comm, .window = window, .board = board, .number = i
		};
		CLAIM(pthread_create(&putter[i].thread, NULL, be_putter, &putter[i]) == 0,
		      "cannot start a thread");
	}
	for (int round = 0; round < 5 && !failed; round++)
		failed = reductions(comm, 300);
	for (int i = 0; i < HELPERS; i++) {
		pthread_join(putter[i].thread, NULL);
		failed |= putter[i].failed;
	}
	SUCCEEDS(tutti_flush(window, TUTTI_ANY_PEER, NULL));
	failed = failed || check_sums(comm, board);
	SUCCEEDS(tutti_window_destroy(window));
	free(board);
	return failed;
}

/* ---- driving */

static int body(tutti_comm_t comm, void *argument)
{
	return collectives(comm) ||
	       (ranks > 1 && (threads_mix(comm) || abort_among_threads(comm))) ||
	       threads_put(comm) || notices_come(comm);
}

int main(int argc, char **argv)
{
	ranks = argc > 1 ? atoi(argv[1]) : 0;
	if (ranks < 1 || ranks > RANKS_MAX) {
		fprintf(stderr, "usage: %s RANKS(1…%d) [NAME=VALUE …]\n", argv[0], RANKS_MAX);
		return 2;
	}
	for (int i = 2; i < argc; i++)
		putenv(argv[i]);
	const int failed = run_thread_ranks(ranks, 1, body, NULL);
	printf("%d ranks as threads: %s\n", ranks, failed ? "FAILED" : "all agree");
	return failed;
}
