/* SPDX-License-Identifier: BSD-3-Clause */
/* Chosen against forced: how close the choice came to the best, and what is shown of it. */
#ifndef BENCH_TALLY_H
#define BENCH_TALLY_H

#include "report.h"

#define BENCH_CLOSE 1.10 /* the most that a good choice takes of the best one's time */

/* Zeroed: of nothing yet. */
struct bench_tuning_table {
	long points, close;
	double logs;			  /* of the ratios, summed */
	double worst;			  /* ratio */
	struct bench_result chosen, best; /* where that was */
};

/* Results of one point: [0] of what the library chose, the others of an algorithm each, forced. */
void bench_tuning_add(struct bench_tuning_table *tally, const struct bench_result *results,
		      size_t n);
double bench_tuning_mean(const struct bench_tuning_table *tally); /* geometric */

/* On standard output. */
void bench_tuning_title(const struct bench_report *report, enum bench_kind kind, const char *model);
void bench_tuning_row(const struct bench_result *results, size_t n);
void bench_tuning_summary(const struct bench_tuning_table *tally, const char *of);

#endif
