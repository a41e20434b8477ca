/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti's collectives on streams, behind the table of backend.h. */
#ifndef BENCH_GPU_BACKEND_H
#define BENCH_GPU_BACKEND_H

#include "tutti_backend.h"

/* Of this process; 0: said why there is none. */
int bench_gpu_count(void);
/* Is there the GPU that the options name? False: said why. */
bool bench_gpu_fits(const struct bench_options *options);

/* Bind the ranks to their GPUs, and let the backend be about these. Collective. -1: said why;
 * bench_gpu_fini() is for all cases. */
int bench_gpu_init(struct bench_tutti *tutti, const struct bench_options *options);
void bench_gpu_fini(struct bench_tutti *tutti);

#endif
