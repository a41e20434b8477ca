/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of times and bandwidths over sizes, drawn by gnuplot. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stddef.h>

#include "report.h"

/* Draw `count` results, ordered by collective and size, into the SVG file `path`. -1: said why. */
int bench_plot(const char *path, const struct bench_result *results, size_t count);

#endif
