/* SPDX-License-Identifier: BSD-3-Clause */
/* The pictures of tutti-bench and its peers. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stddef.h>

#include "picture.h"
#include "report.h"

/* Draw times and bandwidths over sizes of `count` results, ordered by collective and size, into
 * `path`. -1: said why. */
int bench_plot(const char *path, const struct bench_result *results, size_t count);

/* picture_begin() and picture_end() that say on standard error what failed. */
FILE *bench_plot_begin(const char *path, const struct picture_page *page);
int bench_plot_end(FILE *script, const char *path);

#endif
