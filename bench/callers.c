/* SPDX-License-Identifier: BSD-3-Clause */
#include "callers.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

struct caller {
	struct bench_callers *all;
	unsigned first; /* its calls: this one, and those that follow */
	pthread_t thread;
	sem_t go;
	double ended;
	bool failed;
};

struct bench_callers {
	const struct bench_work *work;
	unsigned count, calls; /* of each */
	bool over;
	sem_t done;
	struct caller each[]; /* the first has no thread: it is who calls bench_callers_run() */
};

static void make_calls(struct caller *caller)
{
	const struct bench_work *work = caller->all->work;

	for (unsigned i = 0; i < caller->all->calls && !caller->failed; i++)
		caller->failed = work->run(work->context, caller->first + i) < 0;
	caller->ended = bench_now();
}

static void *caller_main(void *argument)
{
	struct caller *caller = argument;

	for (;;) {
		while (sem_wait(&caller->go) < 0)
			;
		if (caller->all->over)
			return NULL;
		make_calls(caller);
		sem_post(&caller->all->done);
	}
}

struct bench_callers *bench_callers_start(const struct bench_work *work, unsigned count)
{
	struct bench_callers *callers =
		calloc(1, sizeof(*callers) + count * sizeof(callers->each[0]));

	if (!callers) {
		bench_complain("no memory for %u threads", count);
		return NULL;
	}
	callers->work = work;
	callers->calls = work->batch / count;
	sem_init(&callers->done, 0, 0);
	for (callers->count = 0; callers->count < count; callers->count++) {
		struct caller *caller = &callers->each[callers->count];
		int error = 0;

		*caller =
			(struct caller){ .all = callers, .first = callers->count * callers->calls };
		sem_init(&caller->go, 0, 0);
		if (callers->count > 0)
			error = pthread_create(&caller->thread, NULL, caller_main, caller);
		if (!error)
			continue;
		bench_complain("cannot start thread %u of %u: %s", callers->count + 1, count,
			       strerror(error));
		bench_callers_end(callers);
		return NULL;
	}
	return callers;
}

int bench_callers_run(struct bench_callers *callers, double *seconds)
{
	const double begun = bench_now();
	bool failed = false;

	for (unsigned i = 1; i < callers->count; i++)
		sem_post(&callers->each[i].go);
	make_calls(&callers->each[0]);
	for (unsigned i = 1; i < callers->count; i++)
		while (sem_wait(&callers->done) < 0)
			;
	*seconds = 0;
	for (unsigned i = 0; i < callers->count; i++) {
		const double took = callers->each[i].ended - begun;

		*seconds = took > *seconds ? took : *seconds;
		failed |= callers->each[i].failed;
	}
	return failed ? -1 : 0;
}

void bench_callers_end(struct bench_callers *callers)
{
	if (!callers)
		return;
	callers->over = true;
	for (unsigned i = 1; i < callers->count; i++) {
		sem_post(&callers->each[i].go);
		pthread_join(callers->each[i].thread, NULL);
	}
	free(callers);
}
