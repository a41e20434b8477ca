/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the script of the picture of simulated collectives: a graph for each collective and size,
 * time over ranks, a line for each algorithm in the same style everywhere, and rings round those
 * that would be chosen. */
#include <stdio.h>
#include <string.h>

#include "forecast.h"
#include "plot.h"

enum { GRAPH_HEIGHT = 260, ABOVE = 28, BELOW = 46, MOST_ALGORITHMS = 32 };

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

/* The algorithms that can do anything; which of them is that of `name`? Their number where it is
 * none. */
struct legend {
	const char *names[MOST_ALGORITHMS + 1]; /* NULL at the end */
};

static unsigned find_style(const struct legend *legend, const char *name)
{
	unsigned i = 0;

	while (legend->names[i] && strcmp(legend->names[i], name) != 0)
		i++;
	return i;
}

static void learn_names(const struct bench_forecasts *forecasts, struct legend *legend)
{
	for (size_t i = 0; i < forecasts->count; i++) {
		const tutti_prediction_t *p = &forecasts->rows[i].prediction;

		for (unsigned a = 0; a < p->algorithms; a++) {
			const unsigned at = find_style(legend, p->algorithm[a]);

			if (p->seconds[a] >= 0 && at < MOST_ALGORITHMS)
				legend->names[at] = p->algorithm[a];
		}
	}
}

/* Ranks, the least time, the time of each algorithm. */
static void write_data(FILE *out, const struct bench_forecast *rows, size_t count)
{
	fputs("$data << END\n", out);
	for (size_t i = 0; i < count; i++) {
		const tutti_prediction_t *p = &rows[i].prediction;

		fprintf(out, "%d %.6g", rows[i].ranks, p->seconds[p->chosen]);
		for (unsigned a = 0; a < p->algorithms; a++) {
			if (p->seconds[a] < 0)
				fputs(" NaN", out);
			else
				fprintf(out, " %.6g", p->seconds[a]);
		}
		fputc('\n', out);
	}
	fputs("END\n", out);
}

static void write_graph(FILE *out, const struct bench_forecast *rows, size_t count,
			const struct legend *legend)
{
	const tutti_prediction_t *any = &rows->prediction;

	write_data(out, rows, count);
	fprintf(out, "set title '%s", bench_case(rows->kind)->name);
	if (!bench_case(rows->kind)->empty)
		fprintf(out, ", '.size(%zu.0).'", rows->wanted);
	fputs("'\nplot", out);
	for (unsigned a = 0; a < any->algorithms; a++)
		if (bench_forecast_any(rows, count, a))
			fprintf(out, " $data using 1:%u with linespoints lt %u notitle,", a + 3,
				find_style(legend, any->algorithm[a]) + 1);
	fputs(" $data using 1:2 with points pt 6 ps 1.3 lw 1.2 lc rgb 'black' notitle\n", out);
}

int bench_forecast_plot(const struct bench_forecasts *forecasts, const char *path)
{
	const unsigned graphs = count_graphs(forecasts), columns = graphs == 1	 ? 1
								   : graphs <= 8 ? 2
										 : 3;
	const int ranks_per_host = forecasts->cluster->figures.ranks_per_host;
	struct legend legend = { { NULL } };
	char heading[512];
	unsigned graph = 0;

	learn_names(forecasts, &legend);
	snprintf(heading, sizeof(heading), "%s, simulated; circles: chosen",
		 forecasts->cluster->name);
	const struct picture_page page = { .heading = heading,
					   .source = "costs of algorithms, no measurement",
					   .version = tutti_version(),
					   .legend = legend.names,
					   .body = (graphs + columns - 1) / columns *
						   GRAPH_HEIGHT };
	FILE *out = bench_plot_begin(path, &page);
	if (!out)
		return -1;
	fprintf(out,
		"eval times\nset logscale x 2\nset xtics nomirror 2,8\nset xlabel 'ranks, %d a "
		"host'\nset ylabel 'simulated time'\n",
		ranks_per_host);
	for (size_t i = 0; i < forecasts->count; i += graph_rows(forecasts, i), graph++) {
		const unsigned top = graph / columns * GRAPH_HEIGHT;

		fprintf(out, "eval graph(%u, %u, %u, %u)\n", graph % columns, columns, top + ABOVE,
			top + GRAPH_HEIGHT - BELOW);
		write_graph(out, &forecasts->rows[i], graph_rows(forecasts, i), &legend);
	}
	return bench_plot_end(out, path);
}
