/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the thread that works for streams. A stream tells it the number of a chunk that lies in
 * pinned memory (`gone`); the thread has the host's collective make the result of it, also in
 * pinned memory, and tells that (`done`), for which the stream waits. Several chunks are on
 * their way between the hosts.
 *
 * The thread has communicators of its own, so that what it calls does not mix with the program's
 * plain calls. Chunks are numbered in the order in which they are put on streams, which is the
 * same on all ranks. Those of a captured stream are kept: their numbers come again whenever the
 * graph is launched. */
#include "relay.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "call.h"
#include "levels.h"
#include "log.h"
#include "machine.h"
#include "parts.h"
#include "thread.h"

#define YIELD_NS                                                                                   \
	1000000 /* that the thread looks for a signal of the GPU before it begins to sleep between
		 * two looks: nothing can wake it */
#define SLEEP_NS 50000
#define IDLE_NS	 100000000 /* that nothing came: then it sleeps longer */
#define LONG_NS	 500000
#define RELEASED (1ull << 62) /* more than any chunk's number */

/* ---- the thread */

/* Words that the GPU writes; acquire: what it copied before is there. */
static uint64_t read_flag(const uint64_t *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* A communicator across islands numbers ranks by itself: the error message says so, and the fault's
 * rank becomes the caller's number. */
static void rename_ranks(const struct tt_cuda *cuda, const struct tt_op_header *whole,
			 struct tt_fault *fault)
{
	char text[sizeof(fault->text)], called[TT_CALL_BYTES];

	tt_op_header_describe(whole, called, sizeof(called));
	snprintf(text, sizeof(text), "%s", fault->text);
	fault->rank = fault->rank < 0 ? -1 : tt_cuda_rank_across(cuda, fault->rank);
	snprintf(fault->text, sizeof(fault->text),
		 "a piece of %s, between islands of GPUs, on each of which one rank is numbered "
		 "anew (rank 0 is rank %d, rank 1 is rank %d, …): %.240s",
		 called, tt_cuda_rank_across(cuda, 0), tt_cuda_rank_across(cuda, 1), text);
}

/* The fault of the chunk's communicator becomes that of the caller's. */
static void fail(struct tt_cuda_relay *relay, const struct tt_cuda_job *job)
{
	struct tutti_comm *comm = relay->cuda->comm, *by = job->comm;
	struct tt_fault fault = { .result = TUTTI_ERR_SYSTEM, .rank = comm->rank };

	snprintf(fault.text, sizeof(fault.text), "rank %d: %s", comm->rank, tt_thread_error());
	pthread_mutex_lock(&by->lock);
	const bool told = tt_comm_state(by);
	if (told)
		fault = by->fault;
	pthread_mutex_unlock(&by->lock);
	if (told && by == relay->across)
		rename_ranks(relay->cuda, &job->whole, &fault);
	pthread_mutex_lock(&relay->lock);
	relay->failed = true;
	pthread_mutex_unlock(&relay->lock);
	pthread_mutex_lock(&comm->lock);
	tt_comm_revoke(comm, &fault);
	pthread_mutex_unlock(&comm->lock);
	tt_cuda_watch_busy(relay->cuda, false); /* which lets streams go on once all ranks know */
}

static tutti_result_t start(struct tt_cuda_job *job)
{
	tutti_result_t result = TUTTI_OK, ended;

	if (job->scaled) { /* in place: what lies in pinned memory is a copy already */
		void *const input = (void *)(uintptr_t)job->calls[0].send;

		job->comm->kernels->scale[job->calls[0].dtype](input, input, job->scaled,
							       job->scalar);
	}
	if (job->ncalls == 1)
		return tt_call_submit(job->comm, &job->calls[0], &job->request);
	result = tutti_group_begin(job->comm);
	for (size_t i = 0; i < job->ncalls && !result; i++)
		result = tt_call_submit(job->comm, &job->calls[i], NULL);
	ended = tutti_group_end(job->comm, &job->request);
	return result ? result : ended;
}

static uint64_t lowest_gone(const struct tt_cuda_relay *relay)
{
	uint64_t lowest = 0;

	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++) {
		const uint64_t number = read_flag(&relay->flags->slot[i].gone);

		lowest = number && (!lowest || number < lowest) ? number : lowest;
	}
	return lowest;
}

/* Chunks are started in order of their numbers: those that lie there are of one operation, and
 * whoever sees one then sees all that came before it. 0: none has come. */
static uint64_t next_gone(const struct tt_cuda_relay *relay)
{
	uint64_t seen = lowest_gone(relay), again;

	while (seen && (again = lowest_gone(relay)) != seen)
		seen = again;
	return seen;
}

static int by_number(const void *key, const void *member)
{
	const uint64_t number = *(const uint64_t *)key,
		       other = (*(struct tt_cuda_job *const *)member)->number;

	return number < other ? -1 : number > other;
}

/* NULL: whoever put it on the stream has yet to tell the thread of it. */
static struct tt_cuda_job *find_job(struct tt_cuda_relay *relay, uint64_t number)
{
	pthread_mutex_lock(&relay->lock);
	struct tt_cuda_job *job = relay->first;
	while (job && job->number != number)
		job = job->next;
	if (!job && relay->nrecorded) {
		struct tt_cuda_job **found = bsearch(&number, relay->recorded, relay->nrecorded,
						     sizeof(struct tt_cuda_job *), by_number);

		job = found ? *found : NULL;
	}
	pthread_mutex_unlock(&relay->lock);
	return job;
}

static void finish(struct tt_cuda_relay *relay, int slot)
{
	struct tt_cuda_job *job = relay->running[slot], *before = NULL, **link = &relay->first;

	relay->running[slot] = NULL;
	pthread_mutex_lock(&relay->lock);
	if (!relay->released) /* release: the result is in pinned memory; pairs with the stream's
			       * wait */
		__atomic_store_n(&relay->flags->slot[slot].done, job->number, __ATOMIC_RELEASE);
	while (!job->recorded && *link != job) {
		before = *link;
		link = &before->next;
	}
	if (!job->recorded) {
		*link = job->next;
		relay->last = relay->last == job ? before : relay->last;
	}
	pthread_mutex_unlock(&relay->lock);
	if (!job->recorded)
		tt_cuda_job_free(job);
}

/* Start what has come, end what has ended. True if anything did. `failed`: NULL if none did. */
static bool advance(struct tt_cuda_relay *relay, struct tt_cuda_job **failed)
{
	const uint64_t number = next_gone(relay);
	struct tt_cuda_job *job = number ? find_job(relay, number) : NULL;
	bool moved = job != NULL;

	*failed = NULL;
	if (job) {
		__atomic_store_n(&relay->flags->slot[number % TT_CUDA_CHUNKS_SLOTS].gone, 0,
				 __ATOMIC_RELAXED); /* the stream writes there again once it has
						     * seen `done` */
		relay->running[number % TT_CUDA_CHUNKS_SLOTS] = job;
		if (start(job) < 0)
			*failed = job;
	}
	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS && !*failed; i++) {
		if (!relay->running[i])
			continue;
		const tutti_result_t result = tutti_test(&relay->running[i]->request);

		if (result < 0)
			*failed = relay->running[i];
		else if (result == TUTTI_OK)
			finish(relay, i);
		moved |= result == TUTTI_OK;
	}
	return moved;
}

/* `busy`: the host works on something. */
static void pause_for(uint64_t since, bool busy)
{
	const uint64_t idle = tt_now() - since;
	const struct timespec little = { 0, busy || idle < IDLE_NS ? SLEEP_NS : LONG_NS };

	if (idle < YIELD_NS)
		sched_yield();
	else
		nanosleep(&little, NULL);
}

/* Until something may come; false: the thread is to end. */
static bool await(struct tt_cuda_relay *relay)
{
	pthread_mutex_lock(&relay->lock);
	while (!relay->stop &&
	       ((!relay->first && !relay->nrecorded) || relay->failed || relay->released))
		pthread_cond_wait(&relay->wanted, &relay->lock);
	const bool go_on = !relay->stop;
	pthread_mutex_unlock(&relay->lock);
	return go_on;
}

static bool is_busy(const struct tt_cuda_relay *relay)
{
	bool busy = false;

	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++)
		busy |= relay->running[i] != NULL;
	return busy;
}

static void *relay_main(void *argument)
{
	struct tt_cuda_relay *relay = argument;
	uint64_t since = tt_now();
	struct tt_cuda_job *failed;

	prctl(PR_SET_NAME, "tutti-relay");
	while (await(relay)) {
		if (advance(relay, &failed))
			since = tt_now();
		else
			pause_for(since, is_busy(relay));
		if (failed)
			fail(relay, failed);
	}
	return NULL;
}

void tt_cuda_relay_release(struct tt_cuda *cuda)
{
	struct tt_cuda_relay *relay = cuda->relay;

	pthread_mutex_lock(&relay->lock);
	relay->released = true;
	pthread_mutex_unlock(&relay->lock);
	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++)
		__atomic_store_n(&relay->flags->slot[i].done, RELEASED,
				 __ATOMIC_RELEASE); /* pairs with the stream's wait */
}

/* ---- what others tell it */

void tt_cuda_job_free(struct tt_cuda_job *job)
{
	for (size_t i = 0; i < job->ncalls; i++) {
		free((void *)job->calls[i].send_counts);
		free((void *)job->calls[i].recv_counts);
	}
	free(job->calls);
	free(job);
}

bool tt_cuda_relay_enlist(struct tt_cuda_relay *relay, struct tt_cuda_job *job)
{
	bool well = true;

	pthread_mutex_lock(&relay->lock);
	if (job->recorded) {
		struct tt_cuda_job **recorded =
			realloc(relay->recorded, (relay->nrecorded + 1) * sizeof(*recorded));

		well = recorded != NULL;
		relay->recorded = well ? recorded : relay->recorded;
		if (well)
			recorded[relay->nrecorded++] = job;
	} else {
		*(relay->first ? &relay->last->next : &relay->first) = job;
		relay->last = job;
	}
	pthread_cond_signal(&relay->wanted);
	pthread_mutex_unlock(&relay->lock);
	return well;
}

/* ---- its life */

static tutti_result_t make(struct tt_cuda *cuda, struct tt_cuda_relay *relay)
{
	void *flags;

	relay->chunks = tt_cuda_chunks_new();
	if (!relay->chunks)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to go by the host");
	const cuda_result error = cuda->driver->mem_host_alloc(
		&flags, sizeof(*relay->flags), CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);

	if (error)
		return tt_cuda_fail(cuda->driver, "take a page of pinned memory", error);
	memset(flags, 0, sizeof(*relay->flags));
	relay->flags = flags;
	cuda->report = &relay->flags->report;
	const tutti_result_t result = tt_cuda_try_report(cuda);
	if (result)
		return result;
	const int failed = tt_thread_begin(&relay->thread, relay_main, relay);
	return failed ? tt_fail(TUTTI_ERR_SYSTEM, CUDA,
				"begin the thread between streams and the host: %s",
				strerror(failed))
		      : TUTTI_OK;
}

tutti_result_t tt_cuda_relay_begin(struct tt_cuda *cuda)
{
	struct tt_cuda_relay *relay = calloc(1, sizeof(*relay));

	if (!relay) /* the others split already */
		return tt_comm_fail(cuda->comm, tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
							"no memory to go by the host"));
	relay->cuda = cuda;
	pthread_mutex_init(&relay->lock, NULL);
	pthread_cond_init(&relay->wanted, NULL);
	tutti_result_t result =
		tt_part_split(cuda->comm, TT_PART_CUDA_BIND, 0, cuda->comm->rank, &relay->comm);
	if (!result)
		result = make(cuda, relay);
	if (!result) {
		cuda->relay = relay;
		return TUTTI_OK;
	}
	tt_cuda_chunks_free(cuda, relay->chunks, true);
	tutti_comm_destroy(relay->comm);
	pthread_cond_destroy(&relay->wanted);
	pthread_mutex_destroy(&relay->lock);
	free(relay);
	return result;
}

tutti_result_t tt_cuda_relay_across(struct tt_cuda *cuda, int place, int island)
{
	tutti_comm_t across;
	const tutti_result_t result =
		tt_part_split(cuda->comm, TT_PART_CUDA_BIND, place, island, &across);

	if (result)
		return result;
	across->settings.timeout_ns = tt_cuda_timeout_across(across->settings.timeout_ns);
	cuda->relay->across = across;
	return TUTTI_OK;
}

void tt_cuda_relay_stop(struct tt_cuda *cuda)
{
	struct tt_cuda_relay *relay = cuda->relay;

	if (!relay)
		return;
	pthread_mutex_lock(&relay->lock);
	relay->stop = true;
	pthread_cond_signal(&relay->wanted);
	pthread_mutex_unlock(&relay->lock);
	pthread_join(relay->thread, NULL);
}

void tt_cuda_relay_end(struct tt_cuda *cuda, bool frees)
{
	struct tt_cuda_relay *relay = cuda->relay;

	if (!relay)
		return;
	tutti_comm_destroy(relay->across);
	tutti_comm_destroy(relay->comm);
	while (relay->first) {
		struct tt_cuda_job *job = relay->first;

		relay->first = job->next;
		tt_cuda_job_free(job);
	}
	for (size_t i = 0; i < relay->nrecorded; i++)
		tt_cuda_job_free(relay->recorded[i]);
	free(relay->recorded);
	tt_cuda_chunks_free(cuda, relay->chunks, frees);
	pthread_cond_destroy(&relay->wanted);
	pthread_mutex_destroy(&relay->lock);
	free(relay);
	cuda->relay = NULL;
}
