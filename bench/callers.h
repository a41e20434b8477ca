/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank that make the calls of a sample side by side, each as many, one after another. */
#ifndef BENCH_CALLERS_H
#define BENCH_CALLERS_H

#include "timing.h"

struct bench_callers;

/* The one that calls, and `count` - 1 more, which sleep between samples. `work` is there until the
 * end. NULL: said why. */
struct bench_callers *bench_callers_start(const struct bench_work *work, unsigned count);
/* Make all calls of the sample: in `seconds` the last one had ended. -1: one has failed. */
int bench_callers_run(struct bench_callers *callers, double *seconds);
void bench_callers_end(struct bench_callers *callers);

#endif
