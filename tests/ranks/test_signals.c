/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that a timer interrupts a thousand times a second, by a handler that restarts nothing,
 * from joining to leaving: all goes well all the same. And peers that die while they are sent to
 * raise no SIGPIPE.
 *
 *   test_signals shm|tcp|mixed */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "tests.h"
#include "harness.h"

#define RANKS  4
#define LARGE  (4u << 20) /* elements */
#define ROUNDS 3

static volatile sig_atomic_t alarms, pipes;

static void count(int signal)
{
	if (signal == SIGALRM)
		alarms++;
	else
		pipes++;
}

static void begin_storm(void)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action = { .sa_handler = count }; /* no SA_RESTART */

	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGPIPE, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void end_storm(void)
{
	const struct itimerval never = { 0 };

	setitimer(ITIMER_REAL, &never, NULL);
}

/* ---- from joining to leaving */

static int sums(tutti_comm_t comm, float *values)
{
	static const size_t counts[] = { 1, 1000, 100000, LARGE };

	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		for (size_t i = 0; i < counts[k]; i++)
			values[i] = (float)(i % 1000);
		SUCCEEDS(tutti_all_reduce(comm, values, values, counts[k], TUTTI_FLOAT32, TUTTI_SUM,
					  NULL));
		for (size_t i = 0; i < counts[k]; i++)
			CLAIM(values[i] == RANKS * (float)(i % 1000), "element %zu of %zu is %g", i,
			      counts[k], (double)values[i]);
	}
	return 0;
}

static int messages(tutti_comm_t comm, float *values)
{
	const int rank = tutti_comm_rank(comm), to = (rank + 1) % RANKS,
		  from = (rank + RANKS - 1) % RANKS;
	tutti_request_t request;

	for (size_t i = 0; i < LARGE / 2; i++)
		values[i] = (float)rank;
	SUCCEEDS(tutti_send(comm, values, LARGE / 2, TUTTI_FLOAT32, to, &request));
	SUCCEEDS(tutti_recv(comm, values + LARGE / 2, LARGE / 2, TUTTI_FLOAT32, from, NULL));
	SUCCEEDS(tutti_wait(&request));
	CLAIM(values[LARGE - 1] == (float)from, "%g came, expected %d", (double)values[LARGE - 1],
	      from);
	return 0;
}

static int live(float *values)
{
	tutti_comm_t comm = NULL, half = NULL, same = NULL;

	SUCCEEDS(tutti_init(NULL, &comm));
	if (sums(comm, values) || messages(comm, values))
		return 1;
	SUCCEEDS(tutti_comm_split(comm, tutti_comm_rank(comm) % 2, 0, &half));
	CLAIM(tutti_comm_size(half) == RANKS / 2, "%d ranks of a half", tutti_comm_size(half));
	if (sums_right(half))
		return 1;
	tutti_comm_destroy(half);
	SUCCEEDS(tutti_comm_shrink(comm, &same));
	CLAIM(tutti_comm_size(same) == RANKS, "%d ranks are left", tutti_comm_size(same));
	SUCCEEDS(tutti_barrier(same, NULL));
	tutti_comm_destroy(same);
	tutti_comm_destroy(comm);
	return 0;
}

static int live_in_a_storm(int rank, void *argument)
{
	float *values = malloc(LARGE * sizeof(*values)), *shared;
	const tutti_comm_t comm = NULL;
	int failed = 0;

	begin_storm();
	SUCCEEDS(tutti_mem_alloc(LARGE * sizeof(*shared), (void **)&shared));
	for (int round = 0; round < ROUNDS && !failed; round++)
		failed = live(round % 2 ? shared : values);
	tutti_mem_free(shared);
	end_storm();
	free(values);
	CLAIM(failed || alarms > 10, "%d signals came", (int)alarms);
	return failed;
}

JOB(signals_change_nothing_with_a_unix_store, .ranks = RANKS, .whole = live_in_a_storm)

TEST(signals_change_nothing_with_a_tcp_store)
{
	char store[64];

	snprintf(store, sizeof(store), "TUTTI_STORE=tcp://127.0.0.1:%d", free_port());
	HOLDS(.ranks = RANKS, .env = ENV(store), .whole = live_in_a_storm);
}

JOB(signals_change_nothing_with_a_directory, .ranks = RANKS, .whole = live_in_a_storm,
    .with_directory = "TUTTI_STORE=file:")

/* ---- no SIGPIPE */

/* The victim has read all that was sent: its end is an ordinary one of the connection, and then
 * writing raises SIGPIPE unless it is told not to. */
static int send_to_the_dying(tutti_comm_t comm, void *argument)
{
	atomic_int *ended = argument;
	const int rank = tutti_comm_rank(comm);
	float *values = calloc(LARGE, sizeof(*values));
	tutti_result_t result = TUTTI_OK;

	begin_storm();
	for (int peer = 0; peer < RANKS && rank == 1; peer++)
		if (peer != rank)
			SUCCEEDS(tutti_recv(comm, values, 1, TUTTI_FLOAT32, peer, NULL));
	if (rank == 1) {
		atomic_store(ended, 1);
		raise(SIGKILL);
	}
	SUCCEEDS(tutti_send(comm, values, 1, TUTTI_FLOAT32, 1, NULL));
	await_count(ended, 1);
	while (!result)
		result = tutti_send(comm, values, LARGE, TUTTI_FLOAT32, 1, NULL);
	end_storm();
	free(values);
	FAILS(result, TUTTI_ERR_PEER_LOST, "");
	CLAIM(pipes == 0, "SIGPIPE was raised %d times", (int)pipes);
	return 0;
}

JOB(a_peer_that_dies_raises_no_signal, .ranks = RANKS, .body = send_to_the_dying,
    .shares = sizeof(atomic_int), .expect_signal = SIGKILL, .victims = 1u << 1)
