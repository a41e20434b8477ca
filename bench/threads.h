/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are threads of this process. */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include "options.h"

/* What a rank does; returns an exit status. */
typedef int bench_rank_fn(const struct bench_options *options);

/* Run `body` in `ranks` threads, each with options whose `place` is its own, in the store at the
 * address `store`. Returns when all have ended: 0, or the first status of one that failed. Where others
 * have not ended two seconds after that, it says so and ends the process. */
int bench_run_threads(int ranks, bench_rank_fn *body, const struct bench_options *options,
		      const char *store);

#endif
