/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the stage on which the ranks of a claim meet: memory shared by threads and forked processes
 * alike, with counters to wait for and room for what failed. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log.h"
#include "transport_suite_stage.h"

void suite_lock(struct suite_stage *stage)
{
	pthread_mutex_lock(&stage->lock);
}

void suite_unlock(struct suite_stage *stage)
{
	pthread_mutex_unlock(&stage->lock);
}

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
	suite_lock(rank->stage);
	rank->stage->failed = true;
	va_start(args, format);
	vsnprintf(rank->stage->failure[rank->rank], SUITE_TEXT, format, args);
	va_end(args);
	pthread_cond_broadcast(&rank->stage->changed);
	suite_unlock(rank->stage);
	bail(rank);
}

void suite_require_ok(struct suite_rank *rank, tutti_result_t result, const char *what)
{
	suite_require(rank, result == TUTTI_OK, "%s: result %d, expected 0: %s", what, (int)result,
		      tt_thread_error());
}

uint64_t suite_deadline(const struct suite_rank *rank)
{
	return rank->stage->deadline;
}

void suite_at(struct suite_rank *rank, const char *format, ...)
{
	struct suite_stage *stage = rank->stage;
	va_list args;
	bool failed;

	suite_lock(stage);
	va_start(args, format);
	vsnprintf(stage->where[rank->rank], SUITE_TEXT, format, args);
	va_end(args);
	failed = stage->failed;
	suite_unlock(stage);
	if (failed)
		bail(rank);
	suite_require(rank, tt_now() < stage->deadline, "not done after %d s: %s", SUITE_LIMIT_S,
		      stage->where[rank->rank]);
}

void suite_set(struct suite_rank *rank, int counter, uint64_t value)
{
	suite_lock(rank->stage);
	rank->stage->counters[counter] = value;
	pthread_cond_broadcast(&rank->stage->changed);
	suite_unlock(rank->stage);
}

void suite_post(struct suite_rank *rank, int counter)
{
	suite_lock(rank->stage);
	rank->stage->counters[counter]++;
	pthread_cond_broadcast(&rank->stage->changed);
	suite_unlock(rank->stage);
}

uint64_t suite_value(struct suite_rank *rank, int counter)
{
	uint64_t value;

	suite_lock(rank->stage);
	value = rank->stage->counters[counter];
	suite_unlock(rank->stage);
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

	suite_lock(stage);
	if (stage->counters[counter] < value)
		pthread_cond_timedwait(&stage->changed, &stage->lock, &time);
	there = stage->counters[counter] >= value;
	suite_unlock(stage);
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
	const uint64_t number = (uint64_t)rank->rank + 1;

	suite_set(rank, SUITE_KILLED_AT, tt_now());
	if (write(rank->stage->kill_fd, &number, sizeof(number)) != sizeof(number))
		suite_require(rank, false, "ask to be killed: %s", strerror(errno));
	for (;;)
		pause();
}

uint64_t suite_random(struct suite_rank *rank)
{
	rank->random ^= rank->random << 13;
	rank->random ^= rank->random >> 7;
	rank->random ^= rank->random << 17;
	return rank->random;
}

size_t suite_random_size(struct suite_rank *rank, size_t least, size_t most)
{
	return least + (size_t)(suite_random(rank) % (most - least + 1));
}

/* ---- what is left */

static int count_entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	if (!directory)
		return -1;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

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

struct suite_holdings suite_holdings(const struct suite_options *options)
{
	struct suite_holdings now = { 0 };

	if (options->held)
		options->held(now.rest, sizeof(now.rest));
	now.descriptors = suite_count_descriptors();
	now.threads = count_threads();
	return now;
}

bool suite_gave_back(const struct suite_options *options, const struct suite_holdings *before,
		     char *out, size_t capacity)
{
	if (options->held) /* to count, it may end threads that are kept for the next claim */
		(void)suite_holdings(options);
	const bool threads_ended = no_more_threads_than(before->threads);
	const struct suite_holdings now = suite_holdings(options);

	if (threads_ended && now.descriptors == before->descriptors &&
	    strcmp(now.rest, before->rest) == 0)
		return true;
	snprintf(out, capacity, "%d descriptors, %d threads%s%s afterwards, %d, %d%s%s before\n",
		 now.descriptors, now.threads, *now.rest ? ", " : "", now.rest, before->descriptors,
		 before->threads, *before->rest ? ", " : "", before->rest);
	return false;
}

/* ---- the stage itself */

static void *map_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

struct suite_stage *suite_stage_create(int size)
{
	static uint64_t stages;
	struct suite_stage *stage = map_shared(sizeof(*stage));
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	if (!stage)
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
	stage->kill_fd = eventfd(0, EFD_CLOEXEC);
	if (stage->kill_fd < 0)
		abort();
	return stage;
}

void suite_stage_destroy(struct suite_stage *stage)
{
	close(stage->kill_fd);
	pthread_cond_destroy(&stage->changed);
	pthread_mutex_destroy(&stage->lock);
	munmap(stage, sizeof(*stage));
}
