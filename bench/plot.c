/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the script of the picture: data first, one block per curve, then two graphs over it.
 */
#include <stdio.h>

#include "gnuplot.h"
#include "plot.h"

static bool same_curve(const struct bench_result *a, const struct bench_result *b)
{
	return a->kind == b->kind && a->inplace == b->inplace;
}

/* Write the points of the curve that begins at `first`. Results of other curves lie between them.
 */
static void write_curve(FILE *out, const struct bench_result *results, size_t count, size_t first)
{
	for (size_t i = first; i < count; i++) {
		if (same_curve(&results[i], &results[first]))
			fprintf(out, "%zu %.6g %.6g\n", results[i].bytes, results[i].stats.median,
				results[i].busbw);
	}
	fputs("\n\n", out);
}

static bool begins_curve(const struct bench_result *results, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (same_curve(&results[k], &results[i]))
			return false;
	}
	return true;
}

static void write_graph(FILE *out, const struct bench_result *results, size_t count, int column)
{
	unsigned curve = 0;

	for (size_t i = 0; i < count; i++) {
		if (!begins_curve(results, i))
			continue;
		fprintf(out,
			"%s $data index %u using ($1 > 0 ? $1 : 1):%d with linespoints title "
			"\"%s%s\"",
			curve == 0 ? "plot" : ",", curve, column, bench_case(results[i].kind)->name,
			results[i].inplace ? ", in place" : "");
		curve++;
	}
	fputc('\n', out);
}

static void write_script(FILE *out, const char *path, const struct bench_result *results,
			 size_t count)
{
	fputs("$data << END\n", out);
	for (size_t i = 0; i < count; i++) {
		if (begins_curve(results, i))
			write_curve(out, results, count, i);
	}
	fputs("END\nset terminal svg size 900,900 background rgb 'white'\nset output ", out);
	bench_gnuplot_string(out, path);
	fprintf(out,
		"\nset multiplot layout 2,1 title \"%s, %d ranks, %s\" noenhanced\n"
		"set key noenhanced outside right\nset grid\nset logscale x 2\n"
		"set format x '%%.0b%%B'\nset xlabel 'bytes'\nset logscale y\n"
		"set ylabel 'median time in µs'\n",
		results[0].library, results[0].ranks, results[0].transport);
	write_graph(out, results, count, 2);
	fputs("unset logscale y\nset ylabel 'bus bandwidth in GB/s'\n", out);
	write_graph(out, results, count, 3);
	fputs("unset multiplot\n", out);
}

int bench_plot(const char *path, const struct bench_result *results, size_t count)
{
	FILE *out;

	if (count == 0)
		return 0;
	out = bench_gnuplot_start();
	if (!out)
		return -1;
	write_script(out, path, results, count);
	return bench_gnuplot_finish(out, path);
}
