/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench --simulate: what the library's costs say of a cluster that a file describes. No
 * rank is started. */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include "cluster.h"
#include "options.h"

/* -1: could not, and said why. */
int bench_simulate(const struct bench_options *options, const struct bench_cluster *cluster);

#endif
