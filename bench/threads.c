/* SPDX-License-Identifier: BSD-3-Clause */
#include "threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lines.h"

#define GRACE_S                                                                                    \
	2 /* that others have to end when a rank has failed, as those of bench_run_local() */

/* How the ranks end. */
struct ends {
	pthread_mutex_t lock;
	pthread_cond_t one;
	int count, status; /* the first failure's */
};

struct rank {
	struct bench_options options;
	struct bench_place place;
	bench_rank_fn *body;
	struct ends *ends;
	pthread_t thread;
};

static void *rank_main(void *argument)
{
	struct rank *rank = argument;
	struct ends *ends = rank->ends;
	const int status = rank->body(&rank->options);

	pthread_mutex_lock(&ends->lock);
	ends->count++;
	ends->status = ends->status ? ends->status : status;
	pthread_cond_signal(&ends->one);
	pthread_mutex_unlock(&ends->lock);
	return NULL;
}

/* Until all have ended; false: one has failed, and others wait for it, as NCCL may for ever. */
static bool await_ends(struct ends *ends, int count)
{
	struct timespec until;
	int error = 0;

	pthread_mutex_lock(&ends->lock);
	while (ends->count < count && !ends->status)
		pthread_cond_wait(&ends->one, &ends->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += GRACE_S;
	while (ends->count < count && !error)
		error = pthread_cond_timedwait(&ends->one, &ends->lock, &until);
	pthread_mutex_unlock(&ends->lock);
	return !error;
}

/* Those that have begun wait for the others until their deadline, and fail. */
static int start(struct rank *ranks, int count)
{
	for (int i = 0; i < count; i++) {
		ranks[i].options.place = &ranks[i].place;
		const int error = pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);

		if (!error)
			continue;
		bench_complain("cannot start the thread of rank %d: %s", i, strerror(error));
		return i;
	}
	return count;
}

int bench_run_threads(int count, bench_rank_fn *body, const struct bench_options *options,
		      const char *store)
{
	struct ends ends = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
	struct rank *ranks = calloc((size_t)count, sizeof(*ranks));

	if (!ranks) {
		bench_complain("no memory for %d ranks", count);
		return 1;
	}
	for (int i = 0; i < count; i++)
		ranks[i] = (struct rank){ .options = *options,
					  .place = { store, i, count },
					  .body = body,
					  .ends = &ends };
	const int started = start(ranks, count);
	if (!await_ends(&ends, started)) {
		bench_complain("a rank has failed, and others have not ended %d s later", GRACE_S);
		fflush(NULL);
		_exit(1); /* they are still at what exit() would take down */
	}
	for (int i = 0; i < started; i++)
		pthread_join(ranks[i].thread, NULL);
	free(ranks);
	return started < count ? 1 : ends.status;
}
