/* SPDX-License-Identifier: BSD-3-Clause */
/* What waiting costs: rank 0 comes to a barrier later than the others, which use the processor
 * meanwhile and go on some time after it has come. */
#ifndef BENCH_WAITING_H
#define BENCH_WAITING_H

#include "backend.h"
#include "options.h"

/* Measure, and show it on rank 0. Collective over two ranks at least. -1: said why. */
int bench_waiting(struct bench_backend *backend, const struct bench_options *options);

#endif
