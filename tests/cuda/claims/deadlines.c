/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about ranks that do not come, or come late. */
#include "claims.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int absent_rank_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int absent = r->size - 1;
	char words[32];
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	snprintf(words, sizeof(words), by_host() ? "rank %d is alive" : "for rank %d,", absent);
	if (r->rank != absent)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	return told(r, &x, TUTTI_ERR_TIMEOUT, words);
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
static int put_chain(struct gpu_rank *r, const struct vector *x, atomic_int *taken)
{
	int n = 0;

	while (n < chain() && tutti_cuda_all_reduce(r->comm, x->gpu, x->gpu, few, TUTTI_FLOAT32,
						    TUTTI_MAX, r->stream) == TUTTI_OK) {
		atomic_fetch_add(taken, 1);
		n++;
	}
	return n;
}

/* Nobody is kept in CUDA, where others' threads could not pass. */
static int late_rank_finds_a_chain(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (begin(r, &x, argument))
		return 1;
	if (r->rank == r->size - 1 && r->size > 1) {
		await_count(argument, r->size + 10);
		let_pass(0.2); /* for the others to bring all that they can */
	}
	const int taken = put_chain(r, &x, argument);
	CLAIM(taken == chain(), "%d operations of %d were taken, then: %s", taken, chain(),
	      tutti_last_error(comm));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	if (expect(r, &x, (float)r->size, (float)r->size))
		return 1;
	give(&x);
	return 0;
}

static int absent_rank_is_told_to_who_brings_a_chain(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	meet_at(argument, 2 * r->size);
	if (r->rank != r->size - 1) {
		const int taken = put_chain(r, &x, argument);

		CLAIM(taken < chain(), "all of %d operations were taken", chain());
	}
	return told(r, &x, TUTTI_ERR_TIMEOUT, "");
}

/* Longer than the deadlines, which are for waiting. */
static int a_rank_alone_may_rest(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = NULL;
	struct vector x;

	SUCCEEDS(tutti_comm_split(r->comm, r->rank, 0, &comm));
	SUCCEEDS(tutti_cuda_bind(comm, r->device));
	if (take(comm, &x, few) || ready(comm) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	for (const double end = seconds_now() + 3 * SHORT_S; seconds_now() < end;) {
		SUCCEEDS(next_call_takes(comm, SHORT_S));
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	}
	if (expect(r, &x, 1, 1))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	tutti_comm_destroy(comm);
	give(&x);
	return 0;
}

/* The call before it has a deadline of its own, too, and the one between has not: the last rank
 * comes later than that. */
static int a_call_has_its_own_deadline(struct gpu_rank *r, void *argument)
{
	const int absent = r->size - 1;
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(next_call_takes(comm, 30));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	CLAIM(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, -7, r->stream) ==
		      TUTTI_ERR_INVALID,
	      "operation -7 is taken for one");
	if (r->rank == absent)
		let_pass(3 * SHORT_S);
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream)); /* the wrong one has taken it */
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(tutti_comm_error(comm, NULL));
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	meet_at(argument, 2 * r->size);
	if (r->rank != absent) /* the fault of another one may be known */
		tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream);
	return told(r, &x, TUTTI_ERR_TIMEOUT, SHORT);
}

static int a_call_may_wait_longer_than_others(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(next_call_takes(comm, 30));
	if (r->rank == r->size - 1)
		let_pass(2 * HURRY_S);
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	if (expect(r, &x, (float)r->size, (float)r->size))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	give(&x);
	return 0;
}

static int a_group_has_its_own_deadline(struct gpu_rank *r, void *argument)
{
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	tutti_comm_t comm = r->comm;
	struct vector x, got;

	if (r->size == 1)
		return 0;
	if (take(comm, &got, few) || begin(r, &x, argument))
		return 1;
	SUCCEEDS(next_call_takes(comm, SHORT_S));
	meet_at(argument, 2 * r->size);
	if (r->rank != r->size - 1) { /* the fault of another one may be known */
		tutti_group_begin(comm);
		tutti_cuda_send(comm, x.gpu, few, TUTTI_FLOAT32, next, r->stream);
		tutti_cuda_recv(comm, got.gpu, few, TUTTI_FLOAT32, before, r->stream);
		tutti_group_end(comm, NULL);
	}
	const int failed = told(r, &x, TUTTI_ERR_TIMEOUT, SHORT);
	give(&got);
	return failed;
}

/* Each time that it is launched. */
static int a_call_in_a_graph_has_its_own_deadline(struct gpu_rank *r, void *argument)
{
	const double deadline_s = machine_may_be_busy() ? 3 : 1; /* two launches make it */
	tutti_comm_t comm = r->comm;
	struct vector x;
	char words[16];

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	snprintf(words, sizeof(words), " %g s", deadline_s);
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(next_call_takes(comm, deadline_s));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	for (int turn = 0; turn < 2; turn++) {
		meet_at(argument, (turn + 2) * r->size);
		WORKS(gpu_launch(graph, r->stream));
		if (expect(r, &x, 1, 1))
			return 1;
	}
	if (r->rank != r->size - 1)
		WORKS(gpu_launch(graph, r->stream));
	return told(r, &x, TUTTI_ERR_TIMEOUT, words);
}

/* The last rank comes after that; the others' streams wait. */
static int ranks_that_were_all_stopped_go_on(struct gpu_rank *r, void *argument)
{
	const int32_t pid = (int32_t)getpid();
	const bool last = r->rank == r->size - 1;
	tutti_comm_t comm = r->comm;
	int32_t pids[32];
	struct vector x;

	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_all_gather(comm, &pid, pids, 1, TUTTI_INT32, NULL));
	if (last) {
		await_count(argument, 2 * r->size - 1);
		let_pass(0.1); /* in which the others' watches look */
		CLAIM(all_stand_still(pids, r->size, 15), "the ranks could not be stopped");
		let_pass(0.1); /* and again, before this rank's operation can end the wait */
	}
	SUCCEEDS(next_call_takes(comm, 10));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	atomic_fetch_add((atomic_int *)argument, 1);
	if (expect(r, &x, (float)r->size, (float)r->size))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	give(&x);
	return 0;
}

const struct claim deadline_claims[] = {
	{ "absent_rank_is_told", absent_rank_is_told, .hurries = true },
	{ "late_rank_finds_a_chain", late_rank_finds_a_chain },
	{ "absent_rank_is_told_to_who_brings_a_chain", absent_rank_is_told_to_who_brings_a_chain },
	{ "a_rank_alone_may_rest", a_rank_alone_may_rest },
	{ "a_call_has_its_own_deadline", a_call_has_its_own_deadline },
	{ "a_call_may_wait_longer_than_others", a_call_may_wait_longer_than_others,
	  .hurries = true },
	{ "a_group_has_its_own_deadline", a_group_has_its_own_deadline },
	{ "a_call_in_a_graph_has_its_own_deadline", a_call_in_a_graph_has_its_own_deadline },
	{ "ranks_that_were_all_stopped_go_on", ranks_that_were_all_stopped_go_on, .quiet = true },
	{ NULL },
};
