/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transports all ranks together used, where each knows its own part. */
#ifndef BENCH_TRANSPORTS_H
#define BENCH_TRANSPORTS_H

#include "backend.h"

/* `*transports`, such as "shm+tcp", of this rank becomes that of all ranks. Names that are no
 * transports of tutti stay as they are. Collective. -1: said why. */
int bench_join_transports(struct bench_backend *backend, const char **transports);

#endif
