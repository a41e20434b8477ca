/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the ranks of a claim, and the stage on which they meet: memory shared by threads and forked
 * processes alike, with counters to wait for and room for what failed. Starts them as threads or
 * processes and sees that all of them end and leave nothing open. A rank that hangs is named, with
 * the place where it hangs. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held.h"
#include "tests.h"
#include "log.h"
#include "transport_suite.h"

#define GRACE_S 10 /* for ranks to end by themselves after the limit */

/* ---- what ranks call */

static _Noreturn void bail(struct suite_rank *rank)
{
	longjmp(rank->bail, 1);
}

void suite_require(struct suite_rank *rank, bool ok, const char *format, ...)
{
	va_list args;

	if (ok)
		return;
	pthread_mutex_lock(&rank->stage->lock);
	rank->stage->failed = true;
	va_start(args, format);
	vsnprintf(rank->stage->failure[rank->rank], SUITE_TEXT, format, args);
	va_end(args);
	pthread_cond_broadcast(&rank->stage->changed);
	pthread_mutex_unlock(&rank->stage->lock);
	bail(rank);
}

void suite_require_ok(struct suite_rank *rank, tutti_result_t result, const char *what)
{
	suite_require(rank, result == TUTTI_OK, "%s: result %d, expected 0: %s", what, (int)result,
		      tt_thread_error());
}

void suite_require_failed(struct suite_rank *rank, ssize_t result, tutti_result_t expected,
			  const char *words, const char *what)
{
	suite_require(rank, result == expected && strstr(tt_thread_error(), words),
		      "%s: %zd (%s), expected %d (… %s …)", what, result, tt_thread_error(),
		      (int)expected, words);
}

void suite_at(struct suite_rank *rank, const char *format, ...)
{
	struct suite_stage *stage = rank->stage;
	va_list args;
	bool failed;

	pthread_mutex_lock(&stage->lock);
	va_start(args, format);
	vsnprintf(stage->where[rank->rank], SUITE_TEXT, format, args);
	va_end(args);
	failed = stage->failed;
	pthread_mutex_unlock(&stage->lock);
	if (failed)
		bail(rank);
	suite_require(rank, tt_now() < stage->deadline, "not done after %d s: %s", SUITE_LIMIT_S,
		      stage->where[rank->rank]);
}

void suite_set(struct suite_rank *rank, int counter, uint64_t value)
{
	pthread_mutex_lock(&rank->stage->lock);
	rank->stage->counters[counter] = value;
	pthread_cond_broadcast(&rank->stage->changed);
	pthread_mutex_unlock(&rank->stage->lock);
}

void suite_post(struct suite_rank *rank, int counter)
{
	pthread_mutex_lock(&rank->stage->lock);
	rank->stage->counters[counter]++;
	pthread_cond_broadcast(&rank->stage->changed);
	pthread_mutex_unlock(&rank->stage->lock);
}

uint64_t suite_value(struct suite_rank *rank, int counter)
{
	uint64_t value;

	pthread_mutex_lock(&rank->stage->lock);
	value = rank->stage->counters[counter];
	pthread_mutex_unlock(&rank->stage->lock);
	return value;
}

/* True when the counter is there; else after a change of anything, or 2 ms, so that progress goes
 * on. */
static bool wait_a_little(struct suite_stage *stage, int counter, uint64_t value)
{
	const uint64_t until = tt_now() + 2000000u;
	const struct timespec time = { .tv_sec = (time_t)(until / 1000000000u),
				       .tv_nsec = (long)(until % 1000000000u) };
	bool there;

	pthread_mutex_lock(&stage->lock);
	if (stage->counters[counter] < value)
		pthread_cond_timedwait(&stage->changed, &stage->lock, &time);
	there = stage->counters[counter] >= value;
	pthread_mutex_unlock(&stage->lock);
	return there;
}

void suite_await(struct suite_rank *rank, int counter, uint64_t value)
{
	while (!wait_a_little(rank->stage, counter, value)) {
		suite_at(rank, "waiting for the other ranks (counter %d to be %llu)", counter,
			 (unsigned long long)value);
		if (rank->endpoint)
			rank->ops->progress(rank->endpoint, true);
	}
}

void suite_barrier(struct suite_rank *rank)
{
	suite_post(rank, SUITE_BARRIER);
	rank->barriers++;
	suite_await(rank, SUITE_BARRIER, (uint64_t)rank->barriers * (uint64_t)rank->size);
}

void suite_die(struct suite_rank *rank)
{
	suite_set(rank, SUITE_KILLED_AT, tt_now());
	rank->stage->killed[rank->rank] = true;
	raise(SIGKILL);
	abort();
}

/* ---- what is left */

int suite_count_descriptors(void)
{
	return count_entries("/proc/self/fd");
}

static int count_threads(void)
{
	return count_entries("/proc/self/task");
}

/* Threads that were joined may be listed a moment longer: waits for up to two seconds. */
static bool no_more_threads_than(int before)
{
	const uint64_t until = tt_now() + 2000000000u;

	while (count_threads() > before)
		if (tt_now() > until)
			return false;
	return true;
}

/* What a process has, and a claim must give back. */
struct holdings {
	int descriptors, threads;
	char rest[SUITE_TEXT / 4]; /* suite_options.held() */
};

static struct holdings holdings_of(const struct suite_options *options)
{
	struct holdings now = { 0 };

	if (options->held)
		options->held(now.rest, sizeof(now.rest));
	now.descriptors = suite_count_descriptors();
	now.threads = count_threads();
	return now;
}

/* Is all of it given back? Otherwise an error message in `out`. */
static bool gave_back(const struct suite_options *options, const struct holdings *before, char *out,
		      size_t capacity)
{
	if (options->held) /* to count, it may end threads that are kept for the next claim */
		(void)holdings_of(options);
	const bool threads_ended = no_more_threads_than(before->threads);
	const struct holdings now = holdings_of(options);

	if (threads_ended && now.descriptors == before->descriptors &&
	    strcmp(now.rest, before->rest) == 0)
		return true;
	snprintf(out, capacity, "%d descriptors, %d threads%s%s afterwards, %d, %d%s%s before\n",
		 now.descriptors, now.threads, *now.rest ? ", " : "", now.rest, before->descriptors,
		 before->threads, *before->rest ? ", " : "", before->rest);
	return false;
}

/* ---- the stage */

static struct suite_stage *create_stage(int size)
{
	static uint64_t stages;
	struct suite_stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	if (stage == MAP_FAILED)
		abort();
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&stage->lock, &mutex);
	pthread_mutexattr_destroy(&mutex);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&stage->changed, &cond);
	pthread_condattr_destroy(&cond);
	stage->size = size;
	stage->comm_id = (uint64_t)getpid() << 32 | ++stages;
	stage->deadline = tt_now() + SUITE_LIMIT_S * 1000000000ull;
	return stage;
}

static void destroy_stage(struct suite_stage *stage)
{
	pthread_cond_destroy(&stage->changed);
	pthread_mutex_destroy(&stage->lock);
	munmap(stage, sizeof(*stage));
}

/* ---- the ranks */

static void play(struct suite_rank *rank, const struct suite_claim *claim)
{
	if (setjmp(rank->bail) == 0) {
		if (!(claim->needs & SUITE_UNMET)) {
			suite_open(rank);
			suite_join(rank);
		}
		claim->body(rank);
	}
	suite_leave(rank);
}

struct player {
	struct suite_rank rank;
	const struct suite_claim *claim;
	pthread_t thread;
	pid_t pid;
};

static void *thread_main(void *argument)
{
	struct player *player = argument;

	play(&player->rank, player->claim);
	suite_post(&player->rank, SUITE_FINISHED);
	return NULL;
}

static void *do_nothing(void *argument)
{
	return argument;
}

/* What stays once it was used is not a leak: the heap, and what a sanitizer starts with the first
 * thread. */
static void warm_up(const struct suite_options *options)
{
	pthread_t thread;

	if (options->allocate)
		options->release(options->allocate(1));
	if (pthread_create(&thread, NULL, do_nothing, NULL) != 0)
		abort();
	pthread_join(thread, NULL);
}

/* What the process holds after the claim that it did not before is the transport's leak. */
static _Noreturn void process_main(struct player *player)
{
	struct suite_rank *rank = &player->rank;
	char text[SUITE_TEXT];

	warm_up(rank->options);
	const struct holdings before = holdings_of(rank->options);
	play(rank, player->claim);
	if (setjmp(rank->bail) == 0)
		suite_require(rank, gave_back(rank->options, &before, text, sizeof(text)),
			      "of open() to destroy(): %s", text);
	_exit(0);
}

static void describe_hang(struct suite_stage *stage)
{
	pthread_mutex_lock(&stage->lock);
	stage->failed = true;
	for (int i = 0; i < stage->size; i++)
		if (stage->failure[i][0] == '\0')
			snprintf(stage->failure[i], SUITE_TEXT,
				 "hangs, or waits for one that does; "
				 "last seen: %.300s",
				 stage->where[i]);
	pthread_mutex_unlock(&stage->lock);
}

static bool all_finished(struct suite_stage *stage)
{
	const struct timespec until = { .tv_sec =
						(time_t)(stage->deadline / 1000000000u) + GRACE_S };
	int error = 0;

	pthread_mutex_lock(&stage->lock);
	while (stage->counters[SUITE_FINISHED] < (uint64_t)stage->size && !error)
		error = pthread_cond_timedwait(&stage->changed, &stage->lock, &until);
	pthread_mutex_unlock(&stage->lock);
	return !error;
}

/* A thread that hangs cannot be ended: the whole program is, with a word. */
static void run_threads(struct suite_stage *stage, struct player *players)
{
	for (int i = 0; i < stage->size; i++)
		if (pthread_create(&players[i].thread, NULL, thread_main, &players[i]) != 0)
			abort();
	if (!all_finished(stage)) {
		describe_hang(stage);
		for (int i = 0; i < stage->size; i++)
			fprintf(stderr, "rank %d: %s\n", i, stage->failure[i]);
		_exit(1);
	}
	for (int i = 0; i < stage->size; i++)
		pthread_join(players[i].thread, NULL);
}

static void reap(struct suite_stage *stage, pid_t pid, int rank)
{
	int status = 0;

	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (stage->killed[rank] || stage->failure[rank][0] != '\0')
		return;
	stage->failed = true;
	snprintf(stage->failure[rank], SUITE_TEXT, "ended with wait status %#x; last seen: %.300s",
		 (unsigned)status, stage->where[rank]);
}

static void run_processes(struct suite_stage *stage, struct player *players)
{
	const uint64_t until = stage->deadline + GRACE_S * 1000000000ull;

	for (int i = 0; i < stage->size; i++) {
		players[i].pid = fork();
		if (players[i].pid == 0)
			process_main(&players[i]);
		if (players[i].pid < 0)
			abort();
	}
	for (int i = 0; i < stage->size; i++) {
		struct pollfd end = { (int)syscall(SYS_pidfd_open, players[i].pid, 0), POLLIN, 0 };
		const uint64_t now = tt_now();

		if (poll(&end, 1, now < until ? (int)((until - now) / 1000000) : 0) == 0)
			describe_hang(stage);
		for (int k = i; end.revents == 0 && k < stage->size; k++)
			kill(players[k].pid, SIGKILL);
		close(end.fd);
		reap(stage, players[i].pid, i);
	}
}

static void collect_failures(const struct suite_stage *stage, char *out, size_t capacity)
{
	size_t used = 0;

	out[0] = '\0';
	for (int i = 0; i < stage->size; i++)
		if (stage->failure[i][0] != '\0' && used < capacity)
			used += (size_t)snprintf(out + used, capacity - used, "rank %d: %s\n", i,
						 stage->failure[i]);
}

bool suite_run_claim(const struct suite_claim *claim, const struct tt_transport *transport,
		     const struct suite_options *options, bool processes, char *out,
		     size_t capacity)
{
	struct player *players = calloc(SUITE_RANKS_MAX, sizeof(*players));
	struct suite_stage *stage = create_stage(claim->size);
	bool passed;

	if (!players)
		abort();
	if (!processes) /* else each for itself: forking is safe as long as nothing was touched */
		warm_up(options);
	const struct holdings before = holdings_of(options);
	for (int i = 0; i < claim->size; i++)
		players[i] = (struct player){
			.claim = claim,
			.rank = { .stage = stage,
				  .options = options,
				  .ops = transport,
				  .rank = i,
				  .size = claim->size,
				  .process = processes,
				  .elsewhere = options->elsewhere && (claim->needs & SUITE_POLLS),
				  .random = random_stream((uint64_t)i, 0) },
		};
	if (processes)
		run_processes(stage, players);
	else
		run_threads(stage, players);
	passed = !stage->failed;
	collect_failures(stage, out, capacity);
	free(players);
	if (passed)
		passed = gave_back(options, &before, out, capacity);
	destroy_stage(stage);
	return passed;
}
