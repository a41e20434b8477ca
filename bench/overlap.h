/* SPDX-License-Identifier: BSD-3-Clause */
/* What remains of a collective's time behind a computation. */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "tutti_backend.h"

/* Collective over the ranks of `tutti`; the result is that of bench_sweep(). */
int bench_overlap(struct bench_tutti *tutti, const struct bench_options *options);

#endif
