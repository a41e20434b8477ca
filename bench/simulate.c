/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which collectives, sizes and numbers of ranks are simulated, and what is shown of them:
 * tables, JSON objects, a picture. */
#include "simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "lines.h"
#include "outputs.h"
#include "pattern.h"
#include "plot.h"

/* A collective, a size, a number of ranks. */
struct row {
	enum bench_kind kind;
	size_t wanted; /* bytes of the command line */
	size_t bytes;  /* whole elements, one for each rank at least */
	int ranks;
	tutti_prediction_t prediction;
};

struct simulation {
	const struct bench_options *options;
	const struct bench_cluster *cluster;
	struct row *rows; /* in the order of kinds, sizes wanted, ranks */
	size_t count, capacity;
};

static struct row *add_row(struct simulation *sim)
{
	if (sim->count == sim->capacity) {
		const size_t capacity = sim->capacity ? 2 * sim->capacity : 64;
		struct row *grown = realloc(sim->rows, capacity * sizeof(*grown));

		if (!grown) {
			bench_complain("--simulate: no memory for %zu rows", capacity);
			return NULL;
		}
		sim->rows = grown;
		sim->capacity = capacity;
	}
	return &sim->rows[sim->count++];
}

static int simulate_ranks(struct simulation *sim, enum bench_kind kind, size_t wanted, int ranks)
{
	const size_t element = bench_type_size(sim->options->dtype);
	const size_t count = bench_case_count(kind, wanted, element, ranks);
	const size_t bytes = bench_case_bytes(kind, count, element, ranks);
	struct row *row = add_row(sim);

	if (!row)
		return -1;
	*row = (struct row){ .kind = kind, .wanted = wanted, .bytes = bytes, .ranks = ranks };
	row->prediction.size = sizeof(row->prediction);
	if (tutti_predict(&sim->cluster->figures, bench_case(kind)->name, ranks, (double)bytes,
			  &row->prediction) != TUTTI_OK)
		bench_complain("--simulate: %s", tutti_last_error(NULL));
	else if (row->prediction.chosen < 0)
		bench_complain("--simulate: no algorithm can do %s with %d ranks",
			       bench_case(kind)->name, ranks);
	else
		return 0;
	return -1;
}

static int simulate_kind(struct simulation *sim, enum bench_kind kind)
{
	const struct bench_options *o = sim->options;

	for (size_t wanted = o->begin; wanted <= o->end; wanted *= (size_t)o->factor) {
		for (int ranks = 2; ranks <= o->most_ranks; ranks *= 2)
			if (simulate_ranks(sim, kind, wanted, ranks) < 0)
				return -1;
		if (bench_case(kind)->empty) /* of one size */
			break;
	}
	return 0;
}

static int simulate_all(struct simulation *sim)
{
	for (int k = 0; k < BENCH_KIND_COUNT; k++) {
		const enum bench_kind kind = (enum bench_kind)k, only = sim->options->kind;

		if (!bench_case_is_collective(kind) || (only != BENCH_KIND_COUNT && only != kind))
			continue;
		if (simulate_kind(sim, kind) < 0)
			return -1;
	}
	return 0;
}

/* How many rows from `first` on are of its collective and, if it is asked, of its size. */
static size_t count_alike(const struct simulation *sim, size_t first, bool sized)
{
	const struct row *rows = sim->rows;
	size_t next = first;

	while (next < sim->count && rows[next].kind == rows[first].kind &&
	       (!sized || rows[next].wanted == rows[first].wanted))
		next++;
	return next - first;
}

/* ---- tables */

/* characters of a time without its mark, and of the columns before */
enum { CELL = 10, LEADING = 28 };

/* Can the algorithm of that number do any of the rows? */
static bool any_can(const struct row *rows, size_t count, unsigned algorithm)
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
static unsigned fitting(const struct row *rows, size_t count, unsigned first)
{
	const tutti_prediction_t *any = &rows->prediction;
	int used = LEADING;
	unsigned a;

	for (a = first; a < any->algorithms; a++) {
		if (!any_can(rows, count, a))
			continue;
		used += width_of(any->algorithm[a]) + 2;
		if (used > BENCH_WIDTH)
			break;
	}
	return a;
}

static void print_heading(const struct row *rows, size_t count, unsigned first, unsigned last)
{
	const tutti_prediction_t *any = &rows->prediction;

	printf("#%11s %7s %7s", "size (B)", "ranks", "hosts");
	for (unsigned a = first; a < last; a++)
		if (any_can(rows, count, a))
			printf(" %*s ", width_of(any->algorithm[a]), any->algorithm[a]);
	putchar('\n');
}

static void print_time(const tutti_prediction_t *prediction, unsigned algorithm)
{
	const int width = width_of(prediction->algorithm[algorithm]);

	bench_figure(width, 2, prediction->seconds[algorithm] * 1e6);
	putchar(prediction->chosen == (int)algorithm ? '*' : ' ');
}

static void print_part(const struct bench_cluster *cluster, const struct row *rows, size_t count,
		       unsigned first, unsigned last)
{
	print_heading(rows, count, first, last);
	for (size_t i = 0; i < count; i++) {
		printf("%12zu %7d %7d", rows[i].bytes, rows[i].ranks,
		       hosts_of(cluster, rows[i].ranks));
		for (unsigned a = first; a < last; a++)
			if (any_can(rows, count, a))
				print_time(&rows[i].prediction, a);
		putchar('\n');
	}
}

/* The rows of one kind, as often as it takes for all algorithms. */
static void print_table(const struct bench_cluster *cluster, const struct row *rows, size_t count)
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

/* One for each kind. */
static void print_tables(const struct simulation *sim)
{
	for (size_t first = 0, alike; first < sim->count; first += alike) {
		alike = count_alike(sim, first, false);
		print_table(sim->cluster, &sim->rows[first], alike);
	}
}

/* ---- JSON */

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

static json_t *row_json(const struct simulation *sim, const struct row *row)
{
	const tutti_prediction_t *p = &row->prediction;

	return json_pack("{ss ss ss si si si sI ss so}", "library", "tutti", "cluster",
			 sim->cluster->name, "collective", bench_case(row->kind)->name, "ranks",
			 row->ranks, "ranks_per_host", sim->cluster->figures.ranks_per_host,
			 "hosts", hosts_of(sim->cluster, row->ranks), "bytes",
			 (json_int_t)row->bytes, "chosen", p->algorithm[p->chosen], "time_us",
			 times_json(p));
}

static int write_json(const struct simulation *sim, const struct bench_outputs *outputs)
{
	for (size_t i = 0; outputs->json && i < sim->count; i++)
		if (bench_outputs_json(outputs, row_json(sim, &sim->rows[i])) < 0)
			return -1;
	return 0;
}

/* ---- the picture */

enum { GRAPH_HEIGHT = 260, ABOVE = 28, BELOW = 46, MOST_ALGORITHMS = 32 };

static unsigned count_graphs(const struct simulation *sim)
{
	unsigned graphs = 0;

	for (size_t i = 0; i < sim->count; i += count_alike(sim, i, true))
		graphs++;
	return graphs;
}

/* Which name of the legend it is; their number where it is none. */
static unsigned find_style(const char *const *legend, const char *name)
{
	unsigned i = 0;

	while (legend[i] && strcmp(legend[i], name) != 0)
		i++;
	return i;
}

/* The algorithms that can do anything, and NULL. */
static void learn_names(const struct simulation *sim, const char *legend[MOST_ALGORITHMS + 1])
{
	for (size_t i = 0; i < sim->count; i++) {
		const tutti_prediction_t *p = &sim->rows[i].prediction;

		for (unsigned a = 0; a < p->algorithms; a++) {
			const unsigned at = find_style(legend, p->algorithm[a]);

			if (p->seconds[a] >= 0 && at < MOST_ALGORITHMS)
				legend[at] = p->algorithm[a];
		}
	}
}

/* Ranks, the least time, the time of each algorithm. */
static void write_data(FILE *out, const struct row *rows, size_t count)
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

static void write_graph(FILE *out, const struct row *rows, size_t count, const char *const *legend)
{
	const tutti_prediction_t *any = &rows->prediction;

	write_data(out, rows, count);
	fprintf(out, "set title '%s", bench_case(rows->kind)->name);
	if (!bench_case(rows->kind)->empty)
		fprintf(out, ", '.size(%zu.0).'", rows->wanted);
	fputs("'\nplot", out);
	for (unsigned a = 0; a < any->algorithms; a++)
		if (any_can(rows, count, a))
			fprintf(out, " $data using 1:%u with linespoints lt %u notitle,", a + 3,
				find_style(legend, any->algorithm[a]) + 1);
	fputs(" $data using 1:2 with points pt 6 ps 1.3 lw 1.2 lc rgb 'black' notitle\n", out);
}

/* A graph for each collective and size, time over ranks, a line for each algorithm in the same style
 * everywhere, and rings round those that would be chosen. -1: said why. */
static int draw(const struct simulation *sim, const char *path)
{
	const unsigned graphs = count_graphs(sim), columns = graphs == 1 ? 1 : graphs <= 8 ? 2 : 3;
	const int ranks_per_host = sim->cluster->figures.ranks_per_host;
	const char *legend[MOST_ALGORITHMS + 1] = { NULL };
	char heading[512];
	unsigned graph = 0;

	learn_names(sim, legend);
	snprintf(heading, sizeof(heading), "%s, simulated; circles: chosen", sim->cluster->name);
	const struct picture_page page = { .heading = heading,
					   .source = "costs of algorithms, no measurement",
					   .version = tutti_version(),
					   .legend = legend,
					   .body = (graphs + columns - 1) / columns *
						   GRAPH_HEIGHT };
	FILE *out = bench_plot_begin(path, &page);
	if (!out)
		return -1;
	fprintf(out,
		"eval times\nset logscale x 2\nset xtics nomirror 2,8\nset xlabel 'ranks, %d a "
		"host'\nset ylabel 'simulated time'\n",
		ranks_per_host);
	for (size_t i = 0; i < sim->count; i += count_alike(sim, i, true), graph++) {
		const unsigned top = graph / columns * GRAPH_HEIGHT;

		fprintf(out, "eval graph(%u, %u, %u, %u)\n", graph % columns, columns, top + ABOVE,
			top + GRAPH_HEIGHT - BELOW);
		write_graph(out, &sim->rows[i], count_alike(sim, i, true), legend);
	}
	return bench_plot_end(out, path);
}

/* ---- the whole */

static int show(const struct simulation *sim, const struct bench_outputs *outputs)
{
	if (outputs->table)
		print_tables(sim);
	if (write_json(sim, outputs) < 0)
		return -1;
	return sim->options->plot ? draw(sim, sim->options->plot) : 0;
}

int bench_simulate(const struct bench_options *options)
{
	struct bench_cluster cluster;
	struct simulation sim = { .options = options, .cluster = &cluster };
	struct bench_outputs outputs;

	if (!bench_cluster_read(options->simulate, &cluster))
		return 2;
	if (!bench_outputs_open(&outputs, options))
		return 1;
	int rc = simulate_all(&sim);
	if (rc == 0)
		rc = show(&sim, &outputs);
	if (bench_outputs_close(&outputs) < 0)
		rc = -1;
	free(sim.rows);
	return rc < 0;
}
