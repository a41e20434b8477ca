/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the comparison of trainings: a table, and what it is not to be misread for. The picture is
 * compare_plot.c's. */
#include "compare.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare_plot.h"
#include "data.h"
#include "logs.h"
#include "option.h"
#include "picture.h"

enum { LOGS_MAX = COMPARE_MOST, LOG_MOST = 1 << 28, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage[] =
	"Usage: tutti-train report LOG... [--plot FILE]\n"
	"Compare trainings by the logs that --json wrote, up to 14 of them.\n"
	"\n"
	"      --plot FILE      loss over seconds and over bytes that a rank sent, time and bytes of a\n"
	"                       step, ages of gradients; .svg or .png\n"
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
	char name[LOGS_MAX][COMPARE_NAME];
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

/* Without what stands behind the last dot. */
static int name_length(const char *path, int most)
{
	const char *name = file_name(path), *end = strrchr(name, '.');
	const size_t length = end && end > name ? (size_t)(end - name) : strlen(name);

	return length < (size_t)most ? (int)length : most;
}

/* "two: zero1, 2 ranks" of two.jsonl */
static void name_all(struct comparison *c)
{
	for (int i = 0; i < c->count; i++)
		snprintf(c->name[i], sizeof(c->name[i]), "%.*s: %.16s, %d rank%s",
			 name_length(c->path[i], 40), file_name(c->path[i]), c->log[i].way,
			 c->log[i].ranks, c->log[i].ranks == 1 ? "" : "s");
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

static void print_row(const struct comparison *c, int i)
{
	const struct logged *log = &c->log[i];
	const struct point *last = &log->points[log->point_count - 1];
	const double one = speed_of_one(c, log);

	char carried[64] = "-";

	if (log->ended && *log->algorithm)
		snprintf(carried, sizeof(carried), "%.24s/%.16s", log->algorithm, log->transports);
	printf("%-20.*s %5d %-10.10s %-20.20s", name_length(c->path[i], 20), file_name(c->path[i]),
	       log->ranks, log->way, carried);
	if (log->ended)
		printf(" %10.0f", log->samples_per_s);
	else
		printf(" %10s", "unfinished");
	if (log->ended && one > 0)
		printf(" %10.2f", log->samples_per_s / one / log->ranks);
	else
		printf(" %10s", "-");
	if (log->ended)
		printf(" %7.1f%% %9.3f", 100 * log->blocked,
		       logged_in_step(log, log->sent_bytes) * 1e-6);
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
	printf("%-20s %5s %-10s %-20s %10s %10s %8s %9s %9s %8s %8s %4s\n", "log", "ranks", "way",
	       "carried by", "samples/s", "efficiency", "blocked", "MB/step", "loss", "accuracy",
	       "seconds", "lost");
	for (int i = 0; i < c->count; i++)
		print_row(c, i);
}

/* ---- what makes a comparison mislead */

enum { VALUE_TEXT = 128 };

static void data_text(const struct logged *log, char text[VALUE_TEXT])
{
	snprintf(text, VALUE_TEXT, "%.0f samples of %.80s", log->train_samples,
		 file_name(log->data));
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
	return plot ? compare_plot(plot, c->log, c->name, c->count, why) : TUTTI_OK;
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
	return result == TUTTI_OK ? 0 : complain(&why, EXIT_FAILED);
}
