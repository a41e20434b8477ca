/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library chooses by itself, measured against every algorithm forced. */
#ifndef BENCH_TUNE_H
#define BENCH_TUNE_H

#include "tutti_backend.h"

/* Collective over the ranks of `meeting`; the result is that of bench_sweep(). */
int bench_tune(struct bench_tutti *meeting, const struct bench_options *options);

#endif
