/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the clock, the loop of samples and their statistics. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lines.h"
#include "timing.h"

#define LEAST_SAMPLES  5
#define MOST_SAMPLES   4000
#define WARMUP_SAMPLES 4
#define PROBE_SAMPLES  2 /* the last of the warm-up: how long a sample takes altogether */

static double read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double bench_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

double bench_processor_now(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_sleep(double seconds)
{
	struct timespec left = { (time_t)seconds, (long)(fmod(seconds, 1) * 1e9) };

	while (nanosleep(&left, &left) < 0)
		;
}

static int run_batch(const struct bench_work *work, double *seconds)
{
	const clockid_t clock = work->processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
	const double start = read_clock(clock);

	for (unsigned i = 0; i < work->batch; i++) {
		if (work->run(work->context, i) < 0)
			return -1;
	}
	*seconds = read_clock(clock) - start;
	return 0;
}

static int take_sample(const struct bench_work *work, uint64_t sample, double *seconds)
{
	if (work->prepare(work->context, sample) < 0 || work->backend->barrier(work->backend) < 0)
		return -1;
	if ((work->chain ? work->chain(work->context, seconds) : run_batch(work, seconds)) < 0)
		return -1;
	*seconds /= work->batch;
	return 0;
}

static long samples_of(long calls, unsigned batch)
{
	return (calls + batch - 1) / batch;
}

/* Warm up; *whole: the seconds that a sample takes, inputs and barrier included, on the slowest
 * rank. */
static int warm_up(const struct bench_work *work, long samples, uint64_t *next, double *whole)
{
	double start = bench_now(), ignored;

	for (long i = 0; i < samples; i++) {
		if (i == samples - PROBE_SAMPLES)
			start = bench_now();
		if (take_sample(work, (*next)++, &ignored) < 0)
			return -1;
	}
	*whole = (bench_now() - start) / (samples < PROBE_SAMPLES ? samples : PROBE_SAMPLES);
	return work->backend->combine(work->backend, whole, 1, BENCH_MAX);
}

static long fitting(double seconds, double whole)
{
	const double fit = seconds / fmax(whole, 1e-9);

	if (fit >= MOST_SAMPLES)
		return MOST_SAMPLES;
	return fit > LEAST_SAMPLES ? (long)fit : LEAST_SAMPLES;
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct bench_stats bench_summarise(double *seconds, size_t count)
{
	const size_t half = count / 2;
	struct bench_stats stats = { .iters = (long)count };
	double sum = 0;

	qsort(seconds, count, sizeof(*seconds), ascending);
	for (size_t i = 0; i < count; i++)
		sum += seconds[i];
	stats.min = seconds[0] * 1e6;
	stats.median = (count % 2 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2) * 1e6;
	stats.p99 = seconds[(size_t)ceil(0.99 * (double)count) - 1] * 1e6;
	stats.mean = sum / (double)count * 1e6;
	return stats;
}

void bench_samples_free(struct bench_samples *samples)
{
	free(samples->seconds);
	*samples = (struct bench_samples){ 0 };
}

static double *more_room(struct bench_samples *samples, long more)
{
	double *seconds =
		realloc(samples->seconds, (samples->count + (size_t)more) * sizeof(*seconds));

	if (!seconds) {
		bench_complain("no memory for %ld durations; ask for fewer with -n", more);
		return NULL;
	}
	samples->seconds = seconds;
	return seconds + samples->count;
}

int bench_time(const struct bench_work *work, const struct bench_budget *budget,
	       struct bench_samples *samples)
{
	const bool adaptive = budget->iters == 0;
	long warmup = budget->warmup < 0 ? WARMUP_SAMPLES : samples_of(budget->warmup, work->batch);
	long count = samples_of(budget->iters, work->batch);
	uint64_t next = 0;
	double whole, *seconds;

	if (adaptive && warmup == 0)
		warmup = 1; /* something must say how long a sample takes */
	if (warmup > 0 && warm_up(work, warmup, &next, &whole) < 0)
		return -1;
	if (adaptive)
		count = fitting(budget->seconds, whole);
	seconds = more_room(samples, count);
	if (!seconds)
		return -1;
	for (long i = 0; i < count; i++) {
		if (take_sample(work, next++, &seconds[i]) < 0)
			return -1;
	}
	work->finish(work->context);
	if (work->backend->combine(work->backend, seconds, (size_t)count, BENCH_MAX) < 0)
		return -1;
	samples->count += (size_t)count;
	return 0;
}
