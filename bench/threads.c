/* SPDX-License-Identifier: BSD-3-Clause */
#include "threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

struct rank {
	struct bench_options options;
	struct bench_place place;
	bench_rank_fn *body;
	pthread_t thread;
	int status;
};

static void *rank_main(void *argument)
{
	struct rank *rank = argument;

	rank->status = rank->body(&rank->options);
	return NULL;
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
	struct rank *ranks = calloc((size_t)count, sizeof(*ranks));
	int status = 0;

	if (!ranks) {
		bench_complain("no memory for %d ranks", count);
		return 1;
	}
	for (int i = 0; i < count; i++)
		ranks[i] = (struct rank){ .options = *options,
					  .place = { store, i, count },
					  .body = body };
	const int started = start(ranks, count);
	for (int i = 0; i < started; i++) {
		pthread_join(ranks[i].thread, NULL);
		status = status ? status : ranks[i].status;
	}
	free(ranks);
	return started < count ? 1 : status;
}
