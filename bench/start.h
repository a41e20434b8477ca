/* SPDX-License-Identifier: BSD-3-Clause */
/* How long ranks take until they work together: from before the library is initialised to the
 * end of the first all-reduce, of 8 bytes; and the memory that this takes. A process is
 * initialised once, so every repetition has processes of its own. */
#ifndef BENCH_START_H
#define BENCH_START_H

#include "backend.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a process holds: bytes, of BENCH_SHARED its part of the memory that it shares with others. */
enum { BENCH_RSS, BENCH_PSS, BENCH_TABLES, BENCH_DESCRIPTORS, BENCH_SHARED, BENCH_HELD };

/* The beginning on one rank. */
struct bench_start {
	double held[BENCH_HELD];
	double begun; /* by the clock of the machine */
};

struct bench_start bench_start_begin(void);

/* The rest, once `backend` is there: the first all-reduce, verified, and what all ranks took.
 * Rank 0 shows it, or hands it to the parent in bench_start_repeat(). Collective; 0, 1: the
 * result was wrong, -1: something failed, which was said. */
int bench_start_end(const struct bench_start *start, struct bench_backend *backend,
		    const struct bench_options *options);

/* Without a launcher: run `once`, which starts the ranks, waits for them and returns an exit
 * status, as often as the options say, and show what came of all together. Returns an exit
 * status. */
int bench_start_repeat(const struct bench_options *options, char **argv, const char *library,
		       int (*once)(const struct bench_options *options, char **argv));

#ifdef __cplusplus
}
#endif

#endif
