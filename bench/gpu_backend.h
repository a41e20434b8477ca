/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti's collectives on streams, behind the table of backend.h. */
#ifndef BENCH_GPU_BACKEND_H
#define BENCH_GPU_BACKEND_H

#include "tutti_backend.h"

/* Has this process a GPU, and the one that the options name? 0, or the exit status, having said why. */
int bench_gpu_missing(const struct bench_options *options);

/* Bind the ranks to their GPUs, and let the backend be about these. Collective. -1: said why;
 * bench_gpu_fini() is for all cases. */
int bench_gpu_init(struct bench_tutti *tutti, const struct bench_options *options);
void bench_gpu_fini(struct bench_tutti *tutti);

#endif
