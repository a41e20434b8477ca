/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole run: collectives, sizes, out of place and in place, measured, verified and shown. */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include "backend.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over the ranks. 0; 1: a result was wrong, on all ranks; -1: something failed on this
 * one, which was said on standard error. */
int bench_sweep(struct bench_backend *backend, const struct bench_options *options);

#ifdef __cplusplus
}
#endif

#endif
