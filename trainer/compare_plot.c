/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the picture of a comparison: a list of graphs, of which those are drawn that have something
 * to show, two in a row. A log has the same colour in all of them. */
#include "compare_plot.h"

#include <math.h>
#include <stdio.h>

#include "picture.h"

enum { ROW = 310, ABOVE = 30, BELOW = 46 }; /* pixels */

struct compared {
	const struct logged *log;
	int count;
};

struct graph {
	bool (*has)(const struct logged *log); /* something to show */
	void (*print)(FILE *to, const struct compared *c);
};

/* ---- what logs have */

static bool has_epochs(const struct logged *log)
{
	return log->point_count > 1;
}

static bool has_sent(const struct logged *log)
{
	return log->ended && log->sent_bytes > 0;
}

static bool has_sent_epochs(const struct logged *log)
{
	return has_sent(log) && has_epochs(log);
}

static bool has_ended(const struct logged *log)
{
	return log->ended && log->steps > 0;
}

static bool has_staleness(const struct logged *log)
{
	return log->staleness_count > 0;
}

/* ---- graphs */

/* Of each log a block: seconds, MB that a rank has sent, loss. Bytes of a step are alike. */
static void print_numbers(FILE *to, const struct compared *c)
{
	for (int i = 0; i < c->count; i++) {
		const struct logged *log = &c->log[i];
		const double each = log->ended ? logged_in_step(log, log->sent_bytes) * log->steps *
							 1e-6 / (double)log->point_count
					       : NAN;

		fprintf(to, "$log%d << END\n", i);
		for (size_t k = 0; k < log->point_count; k++)
			fprintf(to, "%.9g %.9g %.9g\n", log->points[k].seconds,
				each * (double)(k + 1), log->points[k].train_loss);
		fprintf(to, "END\n$lost%d << END\n", i);
		for (size_t k = 0; k < log->loss_count; k++)
			fprintf(to, "%.9g\n", log->losses[k]);
		fprintf(to, "END\n$stale%d << END\n", i);
		for (size_t k = 0; k < log->staleness_count; k++)
			fprintf(to, "%zu %.9g\n", k, log->staleness[k]);
		fputs("END\n", to);
	}
}

static void print_curves(FILE *to, const struct compared *c, int column)
{
	fputs("set logscale y\nset format y '%g'\nset yrange [*:*]\nset xrange [*:*]\n"
	      "set xtics auto\nset ylabel 'training loss (cross-entropy)'\n",
	      to);
	for (int i = 0; i < c->count; i++)
		fprintf(to, "%s $log%d using %d:3 with lines lw 2 lt %d notitle", i ? "," : "plot",
			i, column, i + 1);
}

static void print_over_time(FILE *to, const struct compared *c)
{
	bool lost = false;

	for (int i = 0; i < c->count; i++)
		lost |= c->log[i].loss_count > 0;
	fprintf(to, "set title 'Loss over time'\nset xlabel 'seconds%s'\n",
		lost ? " (a cross: ranks were lost)" : "");
	print_curves(to, c, 1);
	for (int i = 0; i < c->count; i++)
		if (c->log[i].loss_count > 0)
			fprintf(to,
				", $lost%d using 1:(%.9g) with points pt 2 ps 1.5 lt %d notitle", i,
				c->log[i].points[0].train_loss, i + 1);
	fputc('\n', to);
}

static void print_over_bytes(FILE *to, const struct compared *c)
{
	fputs("set title 'Loss over bytes'\nset xlabel 'MB that the rank which sent most has sent'\n",
	      to);
	print_curves(to, c, 2);
	fputc('\n', to);
}

static void begin_bars(FILE *to, const struct compared *c)
{
	fprintf(to,
		"unset logscale y\nset format y '%%g'\nset yrange [0:*]\nset xrange [0.3:%d.7]\n"
		"unset xtics\nset style fill solid 0.9\nset boxwidth 0.8\n",
		c->count);
}

static void print_bar(FILE *to, int i, double high, const char *style)
{
	if (high > 0)
		fprintf(to, ", '+' every ::0::0 using (%d):(%.9g) with boxes lt %d %s notitle",
			i + 1, high, i + 1, style);
}

/* The part in which a rank waited is pale. */
static void print_step_time(FILE *to, const struct compared *c)
{
	begin_bars(to, c);
	fputs("set title 'Time of a step'\nset ylabel 'ms (pale: blocked, in the mean of ranks)'\n"
	      "set xlabel ''\nplot NaN notitle",
	      to);
	for (int i = 0; i < c->count; i++) {
		const struct logged *log = &c->log[i];
		const double ms = has_ended(log) ? 1e3 * log->seconds / log->steps : 0;

		print_bar(to, i, ms, "fs solid 0.35");
		print_bar(to, i, ms * (1 - log->blocked), "");
	}
	fputc('\n', to);
}

static void print_step_bytes(FILE *to, const struct compared *c)
{
	begin_bars(to, c);
	fputs("set title 'Bytes of a step'\nset ylabel 'MB of the busiest rank (pale: received)'\n"
	      "set xlabel ''\nplot NaN notitle",
	      to);
	for (int i = 0; i < c->count; i++) {
		const struct logged *log = &c->log[i];
		const double sent = 1e-6 * logged_in_step(log, log->sent_bytes),
			     received = 1e-6 * logged_in_step(log, log->received_bytes);

		print_bar(to, i, has_ended(log) ? sent + received : 0, "fs solid 0.35");
		print_bar(to, i, has_ended(log) ? sent : 0, "");
	}
	fputc('\n', to);
}

static void print_staleness(FILE *to, const struct compared *c)
{
	const char *before = "plot";

	fputs("unset logscale y\nset yrange [0:*]\nset xrange [-0.5:*]\nset xtics auto\n"
	      "set title 'Age of gradients'\nset xlabel 'updates since their weights'\n"
	      "set ylabel 'how many'\n",
	      to);
	for (int i = 0; i < c->count; i++) {
		if (!has_staleness(&c->log[i]))
			continue;
		fprintf(to, "%s $stale%d using 1:2 with histeps lw 2 lt %d notitle", before, i,
			i + 1);
		before = ",";
	}
	fputc('\n', to);
}

static const struct graph graphs[] = {
	{ has_ended, print_step_time },	    { has_sent, print_step_bytes },
	{ has_epochs, print_over_time },    { has_sent_epochs, print_over_bytes },
	{ has_staleness, print_staleness },
};

enum { GRAPHS = sizeof(graphs) / sizeof(graphs[0]) };

static bool any(const struct compared *c, bool (*has)(const struct logged *))
{
	bool some = false;

	for (int i = 0; i < c->count; i++)
		some |= has(&c->log[i]);
	return some;
}

static unsigned count_graphs(const struct compared *c)
{
	unsigned count = 0;

	for (int g = 0; g < GRAPHS; g++)
		count += any(c, graphs[g].has);
	return count;
}

static void print_graphs(FILE *to, const struct compared *c)
{
	unsigned place = 0;

	print_numbers(to, c);
	for (int g = 0; g < GRAPHS; g++) {
		if (!any(c, graphs[g].has))
			continue;
		fprintf(to, "eval graph(%u, 2, %u, %u)\n", place % 2, place / 2 * ROW + ABOVE,
			place / 2 * ROW + ROW - BELOW);
		graphs[g].print(to, c);
		place++;
	}
}

tutti_result_t compare_plot(const char *path, const struct logged *logs,
			    const char names[][COMPARE_NAME], int count, struct why *why)
{
	const struct compared c = { logs, count };
	const char *legend[COMPARE_MOST + 1] = { NULL }, *missing = picture_missing();
	const struct picture_page page = { .heading = "tutti-train: ways to train together",
					   .source = picture_machine(),
					   .version = tutti_version(),
					   .legend = legend,
					   .body = (count_graphs(&c) + 1) / 2 * ROW };
	const char *failed;

	if (missing)
		return why_set(why, TUTTI_ERR_UNSUPPORTED, "--plot: %s", missing);
	if (page.body == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "--plot: found one epoch in each log and no end, expected more to "
			       "draw; let the trainings go on");
	for (int i = 0; i < count; i++)
		legend[i] = names[i];
	FILE *script = picture_begin(path, &page);
	if (!script)
		return why_no_memory(why, "the script of a picture");
	print_graphs(script, &c);
	failed = picture_end(script, path);
	return failed ? why_set(why, TUTTI_ERR_SYSTEM, "--plot: %s", failed) : TUTTI_OK;
}
