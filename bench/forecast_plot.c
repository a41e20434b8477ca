/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the script of the picture of simulated collectives: a graph for each collective and size, time over ranks, a line
 * for each algorithm in the same colour everywhere, and rings round those that would be chosen. */
#include <stdio.h>

#include "forecast.h"
#include "gnuplot.h"

enum { COLOURS = 8, GRAPH_WIDTH = 640, GRAPH_HEIGHT = 380, MOST_COLUMNS = 3 };

/* How many rows from `first` on belong into one graph. */
static size_t graph_rows(const struct bench_forecasts *forecasts, size_t first)
{
	const struct bench_forecast *rows = forecasts->rows;
	size_t next = first;

	while (next < forecasts->count && rows[next].kind == rows[first].kind &&
	       rows[next].wanted == rows[first].wanted)
		next++;
	return next - first;
}

static unsigned count_graphs(const struct bench_forecasts *forecasts)
{
	unsigned graphs = 0;

	for (size_t i = 0; i < forecasts->count; i += graph_rows(forecasts, i))
		graphs++;
	return graphs;
}

/* Ranks, the least time, the time of each algorithm. */
static void write_data(FILE *out, const struct bench_forecast *rows, size_t count)
{
	fputs("$data << END\n", out);
	for (size_t i = 0; i < count; i++) {
		const tutti_prediction_t *p = &rows[i].prediction;

		fprintf(out, "%d %.6g", rows[i].ranks, p->seconds[p->chosen] * 1e6);
		for (unsigned a = 0; a < p->algorithms; a++) {
			if (p->seconds[a] < 0)
				fputs(" NaN", out);
			else
				fprintf(out, " %.6g", p->seconds[a] * 1e6);
		}
		fputc('\n', out);
	}
	fputs("END\n", out);
}

static void write_graph(FILE *out, const struct bench_forecast *rows, size_t count)
{
	const tutti_prediction_t *any = &rows->prediction;

	write_data(out, rows, count);
	fprintf(out, "set title '%s", bench_case(rows->kind)->name);
	if (!bench_case(rows->kind)->empty)
		fprintf(out, ", %zu bytes", rows->wanted);
	fputs("' noenhanced\nplot", out);
	for (unsigned a = 0; a < any->algorithms; a++)
		if (bench_forecast_any(rows, count, a))
			fprintf(out, " $data using 1:%u with lines lt %u dt %u title '%s',", a + 3,
				a % COLOURS + 1, a / COLOURS + 1, any->algorithm[a]);
	fputs(" $data using 1:2 with points pt 6 lc rgb 'black' title 'chosen'\n", out);
}

/* As good as square. */
static unsigned columns_of(unsigned graphs)
{
	unsigned columns = 1;

	while (columns < MOST_COLUMNS && columns * columns < graphs)
		columns++;
	return columns;
}

static void write_script(FILE *out, const struct bench_forecasts *forecasts, const char *path)
{
	const unsigned graphs = count_graphs(forecasts), columns = columns_of(graphs);
	const unsigned rows = (graphs + columns - 1) / columns;

	fprintf(out, "set terminal svg size %u,%u background rgb 'white'\nset output ", columns * GRAPH_WIDTH,
		rows * GRAPH_HEIGHT + 40);
	bench_gnuplot_string(out, path);
	fprintf(out, "\nset multiplot layout %u,%u title ", rows, columns);
	bench_gnuplot_string(out, forecasts->cluster->name);
	fprintf(out,
		" noenhanced\nset key noenhanced outside right samplen 2 font ',10'\nset grid\n"
		"set logscale x 2\nset format x '%%.0b%%B'\nset xlabel 'ranks, %d a host'\n"
		"set logscale y\nset ylabel 'simulated time in µs'\n",
		forecasts->cluster->figures.ranks_per_host);
	for (size_t i = 0; i < forecasts->count; i += graph_rows(forecasts, i))
		write_graph(out, &forecasts->rows[i], graph_rows(forecasts, i));
	fputs("unset multiplot\n", out);
}

int bench_forecast_plot(const struct bench_forecasts *forecasts, const char *path)
{
	FILE *out = bench_gnuplot_start();

	if (!out)
		return -1;
	write_script(out, forecasts, path);
	return bench_gnuplot_finish(out, path);
}
