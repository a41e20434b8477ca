/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about ranks that do not come, or come late. */
#include "claims.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

GPU_JOB(absent_rank_is_told, .hurries = true)
{
	const int absent = r->size - 1;
	char words[32];
	struct vector x;

	TRY(begin(r, &x, came));
	snprintf(words, sizeof(words), by_host() ? "rank %d is alive" : "for rank %d,", absent);
	if (r->rank != absent)
		SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	return told(r, x, TUTTI_ERR_TIMEOUT, words);
}

static void let_pass(double seconds)
{
	for (const double end = seconds_now() + seconds; seconds_now() < end;)
		sched_yield();
}

#define SHORT_S 0.3
#define SHORT	"0.3 s"

/* Operations: CUDA takes fewer, and then keeps the thread that brings more. One by cliques is many
 * works on a stream. */
static int chain(void)
{
	return by_cliques() ? 250 : 1000;
}

/* How many are taken before one is refused. */
static int put_chain(struct gpu_rank *r, struct vector x, atomic_int *taken)
{
	int n = 0;

	while (n < chain() && reduce_all(r, x, x, TUTTI_MAX) == TUTTI_OK) {
		atomic_fetch_add(taken, 1);
		n++;
	}
	return n;
}

/* Nobody is kept in CUDA, where others' threads could not pass. */
GPU_JOB(late_rank_finds_a_chain)
{
	struct vector x;

	TRY(begin(r, &x, came));
	if (r->rank == r->size - 1) {
		await_count(came, r->size + 10);
		let_pass(0.2); /* for the others to bring all that they can */
	}
	const int taken = put_chain(r, x, came);
	CLAIM(taken == chain(), "%d operations of %d were taken, then: %s", taken, chain(),
	      tutti_last_error(comm));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	return expect_size(r, x);
}

GPU_JOB(absent_rank_is_told_to_who_brings_a_chain)
{
	struct vector x;

	TRY(begin(r, &x, came));
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	meet_at(came, 2 * r->size);
	if (r->rank != r->size - 1) {
		const int taken = put_chain(r, x, came);

		CLAIM(taken < chain(), "all of %d operations were taken", chain());
	}
	return told(r, x, TUTTI_ERR_TIMEOUT, "");
}

/* Longer than the deadlines, which are for waiting. */
GPU_JOB(a_rank_alone_may_rest)
{
	struct gpu_rank alone;
	struct vector x;

	TRY(make_another(r, r->rank, &alone) || take(comm, &x, few) || ready(comm) || put(r, x, 1));
	SUCCEEDS(reduce_all(&alone, x, x, TUTTI_SUM));
	WORKS(gpu_finish(r->stream));
	for (const double end = seconds_now() + 3 * SHORT_S; seconds_now() < end;) {
		SUCCEEDS(next_call_takes(alone.comm, SHORT_S));
		SUCCEEDS(reduce_all(&alone, x, x, TUTTI_SUM));
	}
	TRY(expect(r, x, 1, 1));
	SUCCEEDS(tutti_comm_error(alone.comm, NULL));
	tutti_comm_destroy(alone.comm);
	return 0;
}

/* The call before it has a deadline of its own, too, and the one between has not: the last rank
 * comes later than that. */
GPU_JOB(a_call_has_its_own_deadline)
{
	const int absent = r->size - 1;
	struct vector x;

	TRY(begin(r, &x, came));
	SUCCEEDS(next_call_takes(comm, 30));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_MAX));
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	CLAIM(reduce_all(r, x, x, -7) == TUTTI_ERR_INVALID, "operation -7 is taken for one");
	if (r->rank == absent)
		let_pass(3 * SHORT_S);
	SUCCEEDS(reduce_all(r, x, x, TUTTI_MAX)); /* the wrong one has taken it */
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	meet_at(came, 2 * r->size);
	if (r->rank != absent) /* the fault of another one may be known */
		reduce_all(r, x, x, TUTTI_SUM);
	return told(r, x, TUTTI_ERR_TIMEOUT, SHORT);
}

GPU_JOB(a_call_may_wait_longer_than_others, .hurries = true)
{
	struct vector x;

	TRY(begin(r, &x, came));
	SUCCEEDS(next_call_takes(comm, 30));
	if (r->rank == r->size - 1)
		let_pass(2 * HURRY_S);
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	return expect_size(r, x);
}

GPU_JOB(a_group_has_its_own_deadline)
{
	struct vector x, got;

	TRY(take(comm, &got, few) || begin(r, &x, came));
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	meet_at(came, 2 * r->size);
	if (r->rank != r->size - 1) /* the fault of another one may be known */
		swap(r, x, got);
	return told(r, x, TUTTI_ERR_TIMEOUT, SHORT);
}

/* Each time that it is launched. */
GPU_JOB(a_call_in_a_graph_has_its_own_deadline)
{
	const double deadline_s = machine_may_be_busy() ? 3 : 1; /* two launches make it */
	struct vector x;
	char words[16];

	TRY(begin(r, &x, came));
	snprintf(words, sizeof(words), " %g s", deadline_s);
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(next_call_takes(comm, deadline_s));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_MAX));
	gpu_graph_t graph = gpu_captured(r->stream);
	WORKS(graph);
	for (int turn = 0; turn < 2; turn++) {
		meet_at(came, (turn + 2) * r->size);
		WORKS(gpu_launch(graph, r->stream));
		TRY(expect(r, x, 1, 1));
	}
	if (r->rank != r->size - 1)
		WORKS(gpu_launch(graph, r->stream));
	return told(r, x, TUTTI_ERR_TIMEOUT, words);
}

/* The last rank comes after that; the others' streams wait. */
GPU_JOB(ranks_that_were_all_stopped_go_on, .quiet = true)
{
	const int32_t pid = (int32_t)getpid();
	const bool last = r->rank == r->size - 1;
	int32_t pids[GPU_RANKS];
	struct vector x;

	TRY(begin(r, &x, came));
	SUCCEEDS(tutti_all_gather(comm, &pid, pids, 1, TUTTI_INT32, NULL));
	if (last) {
		await_count(came, 2 * r->size - 1);
		let_pass(0.1); /* in which the others' watches look */
		CLAIM(all_stand_still(pids, r->size, 15), "the ranks could not be stopped");
		let_pass(0.1); /* and again, before this rank's operation can end the wait */
	}
	SUCCEEDS(next_call_takes(comm, 10));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	atomic_fetch_add(came, 1);
	return expect_size(r, x);
}
