/* SPDX-License-Identifier: BSD-3-Clause */
/* A cluster as a file describes it (docs/reference/bench.md). */
#ifndef BENCH_CLUSTER_H
#define BENCH_CLUSTER_H

#include <stdbool.h>

#include "tutti/tutti.h"

struct bench_cluster {
	char name[128];
	tutti_cluster_t figures;
};

/* False: said on standard error what of the file is not as it should be. */
bool bench_cluster_read(const char *path, struct bench_cluster *cluster);

#endif
