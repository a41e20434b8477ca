/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's collectives on a stream, in place of tutti's: tutti-bench --library nccl. Its library is
 * opened at run time, as CUDA's driver is. */
#ifndef BENCH_NCCL_CALLS_H
#define BENCH_NCCL_CALLS_H

#include "backend.h"
#include "gpu.h"
#include "tutti/tutti.h"

struct bench_nccl;

/* The ranks of `comm`, each with the GPU that is current. Collective. NULL: said why. */
struct bench_nccl *bench_nccl_begin(tutti_comm_t comm);
void bench_nccl_end(struct bench_nccl *nccl);
const char *bench_nccl_version(const struct bench_nccl *nccl); /* "2.28.3" */

bool bench_nccl_supports(struct bench_backend *backend, const struct bench_call *call);
/* -1: said why. */
int bench_nccl_put(struct bench_nccl *nccl, const struct bench_call *call, gpu_stream_t stream);

#endif
