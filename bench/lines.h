/* SPDX-License-Identifier: BSD-3-Clause */
/* What all tables have in common: no line is longer than a terminal, and numbers keep to their
 * columns. */
#ifndef BENCH_LINES_H
#define BENCH_LINES_H

#include <stddef.h>

#define BENCH_WIDTH 100

/* Print a remark, in as many lines as it takes, each with "# " before it. */
void bench_remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print an error message on standard error, in one line that begins with the program's name. As in
 * printf(), %m is the error of errno. */
void bench_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Write more behind the text in `out`, as far as it fits. */
void bench_append(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Print a blank and `value`, `width` characters wide, with at most so many decimals and fewer where
 * it is long; below 0: a dash. */
void bench_figure(int width, int decimals, double value);

#endif
