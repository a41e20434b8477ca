/* SPDX-License-Identifier: BSD-3-Clause */
/* How a duration is taken; the one place where it is, for tutti and for its peers.
 *
 * A sample: every rank rewrites its inputs, all meet in a barrier, and each rank times its own
 * batch of calls, which follow each other on buffers of their own. The sample is the longest of the
 * ranks' durations, divided by the calls of the batch. Ranks compare durations after the last
 * sample only. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdint.h>

#include "backend.h"

/* What a sample consists of; the functions return 0 or -1, having said why. */
struct bench_work {
	void *context;
	struct bench_backend *backend;
	unsigned batch;					/* calls of one sample */
	int (*prepare)(void *context, uint64_t sample); /* rewrite all inputs: not timed */
	int (*run)(void *context, unsigned call);	/* call 0 … batch-1 of the sample */
	/* after the last sample, before ranks compare durations */
	void (*finish)(void *context);
	bool processor; /* take the time of the processor that all threads of a rank use, not the
			 * clock's */
	/* make all calls of the sample, in so many seconds by a clock of its own; NULL: run()
	 * each by that of the host */
	int (*chain)(void *context, double *seconds);
};

struct bench_budget {
	long iters;  /* calls to time; 0: as many as fit into `seconds`, the same on all ranks */
	long warmup; /* calls before; -1: a few samples */
	double seconds;
};

struct bench_stats {
	long iters;		       /* calls timed */
	double min, median, p99, mean; /* microseconds per call */
};

/* Seconds per call, of one sample each, the same on all ranks. Zeroed: none yet. */
struct bench_samples {
	double *seconds;
	size_t count;
};

/* Seconds by a clock that all processes of the machine share, … */
double bench_now(void);
/* … and by that of the processor, for all threads of this process. */
double bench_processor_now(void);
void bench_sleep(double seconds);

void bench_samples_free(struct bench_samples *samples); /* there are none then */

/* Take samples, and put them behind those there are. -1: said why. */
int bench_time(const struct bench_work *work, const struct bench_budget *budget,
	       struct bench_samples *samples);

/* Of `count` > 0 durations in seconds, which it sorts. p99: the smallest that 99 % do not exceed.
 */
struct bench_stats bench_summarise(double *seconds, size_t count);

#endif
