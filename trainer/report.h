/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user sees: lines or a bar on standard output, a log in JSON, pictures. Rank 0's alone:
 * on other ranks every function does nothing. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "options.h"

/* One epoch, over all ranks. */
struct epoch {
	unsigned number; /* from 1 */
	double train_loss, train_accuracy;
	double test_loss, test_accuracy; /* NaN without validation */
	double rate;			 /* at the last step */
	double seconds;			 /* since the training began */
};

struct summary {
	int ranks;
	size_t train_rows, test_rows, features, parameters, steps;
	unsigned classes, buckets;
	double seconds;			    /* of the training */
	double blocked_mean, blocked_worst; /* share of them inside tutti's calls, over the ranks */
	double reduced_bytes;		    /* handed to all-reduces by one rank */
};

/* Zeroed is a report that says nothing. */
struct report {
	bool on;       /* rank 0 */
	bool bar;      /* standard output is a terminal */
	bool bar_open; /* the cursor stands behind one */
	const struct options *options;
	FILE *json;
	struct epoch *epochs;
	unsigned count;
	double drawn_s; /* when the bar was last drawn */
};

/* Open what can only be opened, so that a wrong file name is known before the training. */
tutti_result_t report_open(const struct options *options, bool on, struct report *out,
			   struct why *why);
tutti_result_t report_start(struct report *report, const struct summary *summary, struct why *why);
void report_step(struct report *report, unsigned epoch, size_t step, size_t steps);
tutti_result_t report_epoch(struct report *report, const struct epoch *epoch, struct why *why);
/* The summary, and the pictures. */
tutti_result_t report_end(struct report *report, const struct summary *summary, struct why *why);
/* Leave the bar's line, for other words to follow. */
void report_interrupt(struct report *report);
void report_finish(struct report *report);

/* ---- plot.c */

/* Is gnuplot there, and the directory of each picture? */
tutti_result_t plot_check(const struct options *options, struct why *why);
tutti_result_t plot_write(const char *path, const struct epoch *epochs, unsigned count,
			  struct why *why);

#endif
