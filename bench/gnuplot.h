/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that draws pictures, which is given a script. */
#ifndef BENCH_GNUPLOT_H
#define BENCH_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

/* Is it there? False: said so on standard error. */
bool bench_gnuplot_possible(void);

/* Where its script is written to. NULL: said why. */
FILE *bench_gnuplot_start(void);
/* Write `text` as a string of the script, whatever it contains. */
void bench_gnuplot_string(FILE *script, const char *text);
/* Ends the script, which draws `path`, and waits. -1: nothing was drawn, and said why. */
int bench_gnuplot_finish(FILE *script, const char *path);

#endif
