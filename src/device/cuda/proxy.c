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
#include "proxy.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "call.h"
#include "hierarchy.h"
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

/* A communicator across cliques numbers ranks by itself: the error message says so, and the fault's
 * rank becomes the caller's number. */
static void rename_ranks(const struct tt_cuda *cuda, const struct tt_op_header *whole,
			 struct tt_fault *fault)
{
	char text[sizeof(fault->text)], called[TT_CALL_BYTES];

	tt_op_header_describe(whole, called, sizeof(called));
	snprintf(text, sizeof(text), "%s", fault->text);
	fault->rank = fault->rank < 0 ? -1 : tt_cuda_rank_across(cuda, fault->rank);
	snprintf(fault->text, sizeof(fault->text),
		 "a chunk of %s, between cliques of GPUs, on each of which one rank is numbered "
		 "anew (rank 0 is rank %d, rank 1 is rank %d, …): %.240s",
		 called, tt_cuda_rank_across(cuda, 0), tt_cuda_rank_across(cuda, 1), text);
}

/* The fault of the chunk's communicator becomes that of the caller's. */
static void fail(struct tt_cuda_proxy *proxy, const struct tt_cuda_job *job)
{
	struct tutti_comm *comm = proxy->cuda->comm, *by = job->comm;
	struct tt_fault fault = { .result = TUTTI_ERR_SYSTEM, .rank = comm->rank };

	snprintf(fault.text, sizeof(fault.text), "rank %d: %s", comm->rank, tt_thread_error());
	pthread_mutex_lock(&by->lock);
	const bool told = tt_comm_state(by);
	if (told)
		fault = by->fault;
	pthread_mutex_unlock(&by->lock);
	if (told && by == proxy->across)
		rename_ranks(proxy->cuda, &job->whole, &fault);
	tt_comm_lock(comm);
	tt_comm_revoke(comm, &fault);
	pthread_mutex_unlock(&comm->lock);
	tt_cuda_watchdog_busy(proxy->cuda); /* which lets streams go on once all ranks know */
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

static uint64_t lowest_gone(const struct tt_cuda_proxy *proxy)
{
	uint64_t lowest = 0;

	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++) {
		const uint64_t number = tt_cuda_read_flag(&proxy->flags->slot[i].gone);

		lowest = number && (!lowest || number < lowest) ? number : lowest;
	}
	return lowest;
}

/* Chunks are started in order of their numbers: those that lie there are of one operation, and
 * whoever sees one then sees all that came before it. 0: none has come. */
static uint64_t next_gone(const struct tt_cuda_proxy *proxy)
{
	uint64_t seen = lowest_gone(proxy), again;

	while (seen && (again = lowest_gone(proxy)) != seen)
		seen = again;
	return seen;
}

static int by_number(const void *key, const void *member)
{
	const uint64_t number = *(const uint64_t *)key,
		       other = (*(struct tt_cuda_job *const *)member)->number;

	return number < other ? -1 : number > other;
}

/* Where it is among the jobs. Lock held. */
static struct tt_cuda_job **place_of(const struct tt_cuda_proxy *proxy, uint64_t number)
{
	return bsearch(&number, proxy->jobs, proxy->njobs, sizeof(*proxy->jobs), by_number);
}

static struct tt_cuda_job *find_job(struct tt_cuda_proxy *proxy, uint64_t number)
{
	pthread_mutex_lock(&proxy->lock);
	struct tt_cuda_job *job = *place_of(proxy, number);
	pthread_mutex_unlock(&proxy->lock);
	return job;
}

static void finish(struct tt_cuda_proxy *proxy, int slot)
{
	struct tt_cuda_job *job = proxy->slots[slot].running;

	proxy->slots[slot].running = NULL;
	pthread_mutex_lock(&proxy->lock);
	if (!proxy->released) /* release: the result is in pinned memory; pairs with the stream's
			       * wait */
		__atomic_store_n(&proxy->flags->slot[slot].done, job->number, __ATOMIC_RELEASE);
	if (!job->recorded) {
		struct tt_cuda_job **place = place_of(proxy, job->number);

		proxy->njobs--;
		memmove(place, place + 1,
			(size_t)(proxy->jobs + proxy->njobs - place) * sizeof(*place));
	}
	pthread_mutex_unlock(&proxy->lock);
	if (!job->recorded)
		free(job);
}

/* Start what has come, end what has ended. True if anything did. `failed`: NULL if none did. */
static bool advance(struct tt_cuda_proxy *proxy, struct tt_cuda_job **failed)
{
	const uint64_t number = next_gone(proxy);
	struct tt_cuda_job *job = number ? find_job(proxy, number) : NULL;
	bool moved = job != NULL;

	*failed = NULL;
	if (job) {
		__atomic_store_n(&proxy->flags->slot[number % TT_CUDA_CHUNKS_SLOTS].gone, 0,
				 __ATOMIC_RELAXED); /* the stream writes there again once it has
						     * seen `done` */
		proxy->slots[number % TT_CUDA_CHUNKS_SLOTS].running = job;
		if (start(job) < 0)
			*failed = job;
	}
	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS && !*failed; i++) {
		if (!proxy->slots[i].running)
			continue;
		const tutti_result_t result = tutti_test(&proxy->slots[i].running->request);

		if (result < 0)
			*failed = proxy->slots[i].running;
		else if (result == TUTTI_OK)
			finish(proxy, i);
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

/* Until something may come, which nothing does after a job has `failed`; false: the thread is to
 * end. */
static bool await(struct tt_cuda_proxy *proxy, const struct tt_cuda_job *failed)
{
	pthread_mutex_lock(&proxy->lock);
	while (!proxy->stop && (!proxy->njobs || failed || proxy->released))
		pthread_cond_wait(&proxy->wanted, &proxy->lock);
	const bool go_on = !proxy->stop;
	pthread_mutex_unlock(&proxy->lock);
	return go_on;
}

static bool is_busy(const struct tt_cuda_proxy *proxy)
{
	bool busy = false;

	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++)
		busy |= proxy->slots[i].running != NULL;
	return busy;
}

static void *proxy_main(void *argument)
{
	struct tt_cuda_proxy *proxy = argument;
	uint64_t since = tt_now();
	struct tt_cuda_job *failed = NULL;

	prctl(PR_SET_NAME, "tutti-proxy");
	while (await(proxy, failed)) {
		if (advance(proxy, &failed))
			since = tt_now();
		else
			pause_for(since, is_busy(proxy));
		if (failed)
			fail(proxy, failed);
	}
	return NULL;
}

void tt_cuda_proxy_release(struct tt_cuda *cuda)
{
	struct tt_cuda_proxy *proxy = cuda->proxy;

	pthread_mutex_lock(&proxy->lock);
	proxy->released = true;
	pthread_mutex_unlock(&proxy->lock);
	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++)
		__atomic_store_n(&proxy->flags->slot[i].done, RELEASED,
				 __ATOMIC_RELEASE); /* pairs with the stream's wait */
}

/* ---- what others tell it */

bool tt_cuda_proxy_enlist(struct tt_cuda_proxy *proxy, struct tt_cuda_job *job)
{
	pthread_mutex_lock(&proxy->lock);
	struct tt_cuda_job **jobs = realloc(proxy->jobs, (proxy->njobs + 1) * sizeof(*jobs));
	if (jobs) {
		proxy->jobs = jobs;
		jobs[proxy->njobs++] = job;
		job->number = ++proxy->numbers;
	}
	pthread_cond_signal(&proxy->wanted);
	pthread_mutex_unlock(&proxy->lock);
	return jobs != NULL;
}

/* ---- its life */

static tutti_result_t make(struct tt_cuda *cuda, struct tt_cuda_proxy *proxy)
{
	/* calls without elements have addresses, too */
	const size_t room = tt_cuda_chunk_room(cuda->comm) + TT_CUDA_CHUNK_LINE,
		     bytes = TT_CUDA_CHUNKS_SLOTS * room + sizeof(*proxy->flags);
	void *memory;
	const cuda_result error =
		tt_cu.mem_host_alloc(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);

	if (error) {
		tt_cuda_check(error, "take %zu bytes of pinned memory", bytes);
		return TUTTI_ERR_NO_MEMORY;
	}
	for (size_t i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++)
		proxy->slots[i].memory = (uint8_t *)memory + i * room;
	proxy->flags =
		memset((uint8_t *)memory + TT_CUDA_CHUNKS_SLOTS * room, 0, sizeof(*proxy->flags));
	cuda->report = &proxy->flags->report;
	const tutti_result_t result = tt_cuda_try_report(cuda);
	if (result)
		return result;
	const int failed = tt_thread_begin(&proxy->thread, proxy_main, proxy);
	return failed ? tt_fail(TUTTI_ERR_SYSTEM, CUDA,
				"begin the thread between streams and the host: %s",
				strerror(failed))
		      : TUTTI_OK;
}

tutti_result_t tt_cuda_proxy_begin(struct tt_cuda *cuda)
{
	struct tt_cuda_proxy *proxy = calloc(1, sizeof(*proxy));

	if (!proxy) /* the others split already */
		return tt_comm_fail(cuda->comm, tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
							"no memory for host-staged operations"));
	proxy->cuda = cuda;
	cuda->proxy = proxy;
	pthread_mutex_init(&proxy->lock, NULL);
	pthread_cond_init(&proxy->wanted, NULL);
	tutti_result_t result =
		tt_part_split(cuda->comm, TT_PART_CUDA_BIND, 0, cuda->comm->rank, &proxy->comm);
	if (!result)
		result = make(cuda, proxy);
	if (result)
		tt_cuda_proxy_end(cuda, true);
	return result;
}

tutti_result_t tt_cuda_proxy_across(struct tt_cuda *cuda, int place, int clique)
{
	tutti_comm_t across;
	const tutti_result_t result =
		tt_part_split(cuda->comm, TT_PART_CUDA_BIND, place, clique, &across);

	if (result)
		return result;
	across->settings.timeout_ns = tt_cuda_timeout_across(across->settings.timeout_ns);
	cuda->proxy->across = across;
	return TUTTI_OK;
}

void tt_cuda_proxy_stop(struct tt_cuda *cuda)
{
	struct tt_cuda_proxy *proxy = cuda->proxy;

	if (!proxy)
		return;
	pthread_mutex_lock(&proxy->lock);
	proxy->stop = true;
	pthread_cond_signal(&proxy->wanted);
	pthread_mutex_unlock(&proxy->lock);
	pthread_join(proxy->thread, NULL);
}

void tt_cuda_proxy_end(struct tt_cuda *cuda, bool frees)
{
	struct tt_cuda_proxy *proxy = cuda->proxy;

	if (!proxy)
		return;
	tutti_comm_destroy(proxy->across);
	tutti_comm_destroy(proxy->comm);
	for (size_t i = 0; i < proxy->njobs; i++)
		free(proxy->jobs[i]);
	free(proxy->jobs);
	for (int i = 0; i < TT_CUDA_CHUNKS_SLOTS; i++)
		free(proxy->slots[i].results);
	if (frees && proxy->flags)
		tt_cu.mem_host_free(proxy->slots[0].memory);
	cuda->report = NULL;
	pthread_cond_destroy(&proxy->wanted);
	pthread_mutex_destroy(&proxy->lock);
	free(proxy);
	cuda->proxy = NULL;
}
