/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench --simulate: what the library's costs say of a cluster that a file describes. No
 * rank is started. */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include "options.h"

/* Returns an exit status, having said why it is not 0. */
int bench_simulate(const struct bench_options *options);

#endif
