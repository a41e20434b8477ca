/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the comparison of trainings: a table, and a picture of their losses over time and over what
 * each rank sent. */
#include "compare.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data.h"
#include "logs.h"
#include "option.h"
#include "picture.h"

enum { LOGS_MAX = 14, LOG_MOST = 1 << 28, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { BODY = 330, ABOVE = 26, BELOW = 46 }; /* pixels */

static const char usage[] =
	"Usage: tutti-train report LOG... [--plot FILE]\n"
	"Compare trainings by the logs that --json wrote, up to 14 of them.\n"
	"\n"
	"      --plot FILE      loss over seconds and over bytes that a rank sent, .svg or .png\n"
	"  -h, --help           this text\n"
	"\n"
	"Logs of different data, batches or models are named: their speeds and losses do not compare.\n"
	"Efficiency is samples per second over those of a log with one rank, on as many weights of\n"
	"the same type, times the ranks.\n"
	"\n"
	"Exit status: 0; 1 if a log cannot be read or the picture not written, 2 if the command\n"
	"line is wrong.\n";

struct comparison {
	const char *path[LOGS_MAX];
	struct logged log[LOGS_MAX];
	char name[LOGS_MAX][96];
	int count;
};

/* ---- reading */

static tutti_result_t read_log(const char *path, struct logged *out, struct why *why)
{
	struct input input = { 0 };
	tutti_result_t result = input_read(path, LOG_MOST, &input, why);

	if (result == TUTTI_OK)
		result = logged_parse(path, input.bytes, input.length, out, why);
	input_finish(&input);
	return result;
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "two.jsonl: zero1, 2 ranks" */
static void name_all(struct comparison *c)
{
	for (int i = 0; i < c->count; i++) {
		snprintf(c->name[i], sizeof(c->name[i]), "%.40s: %.16s, %d rank%s",
			 file_name(c->path[i]), c->log[i].sync, c->log[i].ranks,
			 c->log[i].ranks == 1 ? "" : "s");
	}
}

/* ---- the table */

/* Of the same model on one rank; 0: there is no such log. */
static double speed_of_one(const struct comparison *c, const struct logged *log)
{
	for (int i = 0; i < c->count; i++)
		if (c->log[i].ended && c->log[i].ranks == 1 &&
		    c->log[i].parameters == log->parameters &&
		    strcmp(c->log[i].dtype, log->dtype) == 0)
			return c->log[i].samples_per_s;
	return 0;
}

/* A training that was resumed has begun only some of its steps. */
static double sent_in_step(const struct logged *log)
{
	return log->steps_begun > 0 ? log->sent_bytes / log->steps_begun : 0;
}

static void print_row(const struct comparison *c, int i)
{
	const struct logged *log = &c->log[i];
	const struct point *last = &log->points[log->point_count - 1];
	const double one = speed_of_one(c, log);

	printf("%-24.24s %6d %-10.10s", file_name(c->path[i]), log->ranks, log->sync);
	if (log->ended)
		printf(" %11.0f", log->samples_per_s);
	else
		printf(" %11s", "unfinished");
	if (log->ended && one > 0)
		printf(" %10.2f", log->samples_per_s / one / log->ranks);
	else
		printf(" %10s", "-");
	if (log->ended)
		printf(" %7.1f%% %9.3f", 100 * log->blocked, sent_in_step(log) * 1e-6);
	else
		printf(" %8s %9s", "-", "-");
	printf(" %9.4g", last->train_loss);
	if (isnan(last->test_accuracy))
		printf(" %8s", "-");
	else
		printf(" %8.4f", last->test_accuracy);
	printf(" %8.2f %4zu\n", last->seconds, log->loss_count);
}

static void print_table(const struct comparison *c)
{
	printf("%-24s %6s %-10s %11s %10s %8s %9s %9s %8s %8s %4s\n", "log", "ranks", "way",
	       "samples/s", "efficiency", "blocked", "MB/step", "loss", "accuracy", "seconds",
	       "lost");
	for (int i = 0; i < c->count; i++)
		print_row(c, i);
}

/* ---- what makes a comparison mislead */

enum { VALUE_TEXT = 128 };

static void data_text(const struct logged *log, char text[VALUE_TEXT])
{
	const bool files = strncmp(log->data, "text:", 5) == 0;

	snprintf(text, VALUE_TEXT, "%.0f samples of %.80s", log->train_samples,
		 files ? log->data : file_name(log->data));
}

static void batch_text(const struct logged *log, char text[VALUE_TEXT])
{
	snprintf(text, VALUE_TEXT, "%.0f samples", log->batch);
}

static void model_text(const struct logged *log, char text[VALUE_TEXT])
{
	snprintf(text, VALUE_TEXT, "%.0f weights of %.8s", log->parameters, log->dtype);
}

/* One line, if a log has another value than the first has. */
static void print_difference(const struct comparison *c, const char *what,
			     void (*value)(const struct logged *, char[VALUE_TEXT]))
{
	char first[VALUE_TEXT], other[VALUE_TEXT];
	int i = 0;

	value(&c->log[0], first);
	do {
		if (++i == c->count)
			return;
		value(&c->log[i], other);
	} while (strcmp(first, other) == 0);
	printf("not the same %s: %s in %.40s, %s in %.40s; speeds and losses do not compare\n",
	       what, first, file_name(c->path[0]), other, file_name(c->path[i]));
}

static void print_differences(const struct comparison *c)
{
	print_difference(c, "data", data_text);
	print_difference(c, "batch", batch_text);
	print_difference(c, "model", model_text);
}

/* ---- the picture */

/* Of each log a block: seconds, MB that a rank has sent, loss. Bytes of a step are alike. */
static void print_numbers(FILE *to, const struct comparison *c)
{
	for (int i = 0; i < c->count; i++) {
		const struct logged *log = &c->log[i];
		const double each = log->ended ? sent_in_step(log) * log->steps * 1e-6 /
							 (double)log->point_count
					       : NAN;

		fprintf(to, "$log%d << END\n", i);
		for (size_t k = 0; k < log->point_count; k++)
			fprintf(to, "%.9g %.9g %.9g\n", log->points[k].seconds,
				each * (double)(k + 1), log->points[k].train_loss);
		fprintf(to, "END\n$lost%d << END\n", i);
		for (size_t k = 0; k < log->loss_count; k++)
			fprintf(to, "%.9g\n", log->losses[k]);
		fputs("END\n", to);
	}
}

static void print_curves(FILE *to, const struct comparison *c, unsigned place, int column)
{
	fprintf(to, "eval graph(%u, 2, %u, %u)\n", place, ABOVE, BODY - BELOW);
	for (int i = 0; i < c->count; i++)
		fprintf(to, "%s $log%d using %d:3 with lines lw 2 lt %d notitle", i ? "," : "plot",
			i, column, i + 1);
	for (int i = 0; i < c->count && column == 1; i++)
		if (c->log[i].loss_count > 0)
			fprintf(to,
				", $lost%d using 1:(%.9g) with points pt 2 ps 1.5 lt %d notitle", i,
				c->log[i].points[0].train_loss, i + 1);
	fputc('\n', to);
}

static void print_script(FILE *to, const struct comparison *c)
{
	bool sends = false, lost = false;

	for (int i = 0; i < c->count; i++) {
		sends |= c->log[i].ended && c->log[i].sent_bytes > 0;
		lost |= c->log[i].loss_count > 0;
	}
	fprintf(to,
		"set logscale y\nset format y '%%g'\nset ylabel 'training loss (cross-entropy)'\n"
		"set xlabel 'seconds%s'\n",
		lost ? " (a cross: ranks were lost)" : "");
	print_curves(to, c, 0, 1);
	if (!sends)
		return; /* nothing to draw on that axis */
	fputs("set xlabel 'MB that the rank which sent most has sent'\n", to);
	print_curves(to, c, 1, 2);
}

static tutti_result_t draw(const struct comparison *c, const char *path, struct why *why)
{
	const char *legend[LOGS_MAX + 1] = { NULL }, *missing = picture_missing();
	const struct picture_page page = { .heading = "tutti-train: ways to train together",
					   .source = picture_machine(),
					   .version = tutti_version(),
					   .legend = legend,
					   .body = BODY };
	FILE *gnuplot;
	int status;

	if (missing)
		return why_set(why, TUTTI_ERR_UNSUPPORTED, "--plot: %s", missing);
	for (int i = 0; i < c->count; i++)
		legend[i] = c->name[i];
	gnuplot = picture_begin(path, &page);
	if (!gnuplot)
		return why_set(why, TUTTI_ERR_SYSTEM, "--plot: gnuplot cannot be started");
	print_numbers(gnuplot, c);
	print_script(gnuplot, c);
	status = picture_end(gnuplot);
	if (status == 0 && access(path, R_OK) == 0)
		return TUTTI_OK;
	return why_set(why, TUTTI_ERR_SYSTEM,
		       "--plot: gnuplot could not write %s (status %d); its message says why", path,
		       status);
}

/* ---- the command */

static int complain(const struct why *why, int status)
{
	fprintf(stderr, "tutti-train report: %s\n", why->text);
	return status;
}

static tutti_result_t compare(struct comparison *c, const char *plot, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < c->count && result == TUTTI_OK; i++)
		result = read_log(c->path[i], &c->log[i], why);
	if (result != TUTTI_OK)
		return result;
	name_all(c);
	print_table(c);
	print_differences(c);
	return plot ? draw(c, plot, why) : TUTTI_OK;
}

/* 0, or the exit status, or -1: help was printed. */
static int parse(int argc, char **argv, struct comparison *c, const char **plot, struct why *why)
{
	static const struct option known[] = { { "plot", required_argument, NULL, 'p' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	char text[TT_OPTION_WHY];
	int id;

	optind = 0; /* glibc: start afresh */
	while ((id = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
		if (id == 'h') {
			fputs(usage, stdout);
			return -1;
		}
		if (id != 'p')
			why_set(why, TUTTI_ERR_INVALID, "%s; see tutti-train report --help",
				tt_option_why(id, argv, known, text));
		else if (!picture_named(optarg))
			why_set(why, TUTTI_ERR_INVALID, "--plot: found '%s', expected %s", optarg,
				PICTURE_EXPECTED);
		if (why->text[0])
			return EXIT_USAGE;
		*plot = optarg;
	}
	c->count = argc - optind;
	if (c->count < 1 || c->count > LOGS_MAX) {
		why_set(why, TUTTI_ERR_INVALID,
			"found %d logs, expected 1 to %d; see tutti-train report "
			"--help",
			c->count, LOGS_MAX);
		return EXIT_USAGE;
	}
	for (int i = 0; i < c->count; i++)
		c->path[i] = argv[optind + i];
	return 0;
}

int compare_main(int argc, char **argv)
{
	struct comparison c = { 0 };
	const char *plot = NULL;
	struct why why = { "" };
	const int status = parse(argc, argv, &c, &plot, &why);
	tutti_result_t result;

	if (status != 0)
		return status < 0 ? 0 : complain(&why, status);
	result = compare(&c, plot, &why);
	for (int i = 0; i < c.count; i++)
		logged_finish(&c.log[i]);
	if (result == TUTTI_OK && (fflush(stdout) == EOF || ferror(stdout)))
		result = why_set(&why, TUTTI_ERR_SYSTEM, "writing to standard output failed");
	return result == TUTTI_OK ? 0 : complain(&why, EXIT_FAILED);
}
