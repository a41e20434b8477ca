/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the tables and the JSON of simulated collectives. */
#include <stdio.h>
#include <string.h>

#include "forecast.h"
#include "lines.h"

enum {
	CELL = 10,
	LEADING = 28
}; /* characters of a time without its mark, and of the columns before */

bool bench_forecast_any(const struct bench_forecast *rows, size_t count, unsigned algorithm)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].prediction.seconds[algorithm] >= 0)
			return true;
	return false;
}

static int hosts_of(const struct bench_cluster *cluster, int ranks)
{
	const int per_host = cluster->figures.ranks_per_host;

	return (ranks + per_host - 1) / per_host;
}

static int width_of(const char *name)
{
	const int length = (int)strlen(name);

	return length > CELL ? length : CELL;
}

/* Algorithms from `first` on, of those that can do any of the rows, that fit a line behind the
 * first three columns; behind the last. */
static unsigned fitting(const struct bench_forecast *rows, size_t count, unsigned first)
{
	const tutti_prediction_t *any = &rows->prediction;
	int used = LEADING;
	unsigned a;

	for (a = first; a < any->algorithms; a++) {
		if (!bench_forecast_any(rows, count, a))
			continue;
		used += width_of(any->algorithm[a]) + 2;
		if (used > BENCH_WIDTH)
			break;
	}
	return a;
}

static void print_heading(const struct bench_forecast *rows, size_t count, unsigned first,
			  unsigned last)
{
	const tutti_prediction_t *any = &rows->prediction;

	printf("#%11s %7s %7s", "size (B)", "ranks", "hosts");
	for (unsigned a = first; a < last; a++)
		if (bench_forecast_any(rows, count, a))
			printf(" %*s ", width_of(any->algorithm[a]), any->algorithm[a]);
	putchar('\n');
}

static void print_time(const tutti_prediction_t *prediction, unsigned algorithm)
{
	const int width = width_of(prediction->algorithm[algorithm]);

	bench_figure(width, 2, prediction->seconds[algorithm] * 1e6);
	putchar(prediction->chosen == (int)algorithm ? '*' : ' ');
}

static void print_part(const struct bench_cluster *cluster, const struct bench_forecast *rows,
		       size_t count, unsigned first, unsigned last)
{
	print_heading(rows, count, first, last);
	for (size_t i = 0; i < count; i++) {
		printf("%12zu %7d %7d", rows[i].bytes, rows[i].ranks,
		       hosts_of(cluster, rows[i].ranks));
		for (unsigned a = first; a < last; a++)
			if (bench_forecast_any(rows, count, a))
				print_time(&rows[i].prediction, a);
		putchar('\n');
	}
}

/* The rows of one kind, as often as it takes for all algorithms. */
static void print_table(const struct bench_cluster *cluster, const struct bench_forecast *rows,
			size_t count)
{
	const unsigned algorithms = rows->prediction.algorithms;

	bench_remark("tutti %s %s, simulated: %s, %d ranks a host", tutti_version(),
		     bench_case(rows->kind)->name, cluster->name, cluster->figures.ranks_per_host);
	bench_remark(
		"formulas: the messages, bytes and additions of each algorithm, priced by the cluster's");
	bench_remark("figures. Nothing is counted or measured here, and setup is not included.");
	bench_remark("times in microseconds; *: would be chosen, -: cannot do it with these ranks");
	for (unsigned first = 0, last; first < algorithms; first = last) {
		last = fitting(rows, count, first);
		print_part(cluster, rows, count, first, last);
	}
}

void bench_forecast_tables(const struct bench_forecasts *forecasts)
{
	size_t first = 0, next;

	for (; first < forecasts->count; first = next) {
		for (next = first; next < forecasts->count; next++)
			if (forecasts->rows[next].kind != forecasts->rows[first].kind)
				break;
		print_table(forecasts->cluster, &forecasts->rows[first], next - first);
	}
}

/* NULL: no memory. */
static json_t *times_json(const tutti_prediction_t *prediction)
{
	json_t *times = json_object();

	for (unsigned a = 0; a < prediction->algorithms; a++) {
		const double us = prediction->seconds[a] * 1e6;

		if (json_object_set_new(times, prediction->algorithm[a],
					us < 0 ? json_null() : json_real(us)) < 0) {
			json_decref(times);
			return NULL;
		}
	}
	return times;
}

static json_t *row_json(const struct bench_forecasts *forecasts, const struct bench_forecast *row)
{
	const tutti_prediction_t *p = &row->prediction;

	return json_pack("{ss ss ss si si si sI ss so}", "library", "tutti", "cluster",
			 forecasts->cluster->name, "collective", bench_case(row->kind)->name,
			 "ranks", row->ranks, "ranks_per_host",
			 forecasts->cluster->figures.ranks_per_host, "hosts",
			 hosts_of(forecasts->cluster, row->ranks), "bytes", (json_int_t)row->bytes,
			 "chosen", p->algorithm[p->chosen], "time_us", times_json(p));
}

int bench_forecast_json(const struct bench_forecasts *forecasts,
			const struct bench_outputs *outputs)
{
	for (size_t i = 0; outputs->json && i < forecasts->count; i++)
		if (bench_outputs_json(outputs, row_json(forecasts, &forecasts->rows[i])) < 0)
			return -1;
	return 0;
}
