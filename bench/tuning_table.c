/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the comparison of what was chosen with what is best, and its table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lines.h"
#include "output.h"
#include "tuning_table.h"

#define NAME_WIDTH 18 /* of the longest algorithm */

/* ---- the comparison */

static double ratio_of(const struct bench_result *chosen, const struct bench_result *best)
{
	return chosen->stats.median / best->stats.median;
}

static const struct bench_result *best_of(const struct bench_result *results, size_t n)
{
	const struct bench_result *best = &results[1];

	for (size_t i = 2; i < n; i++) {
		if (results[i].stats.median < best->stats.median)
			best = &results[i];
	}
	return best;
}

void bench_tuning_add(struct bench_tuning_table *tally, const struct bench_result *results,
		      size_t n)
{
	const struct bench_result *best = best_of(results, n);
	const double ratio = ratio_of(&results[0], best);

	tally->points++;
	tally->close += ratio <= BENCH_CLOSE;
	tally->logs += log(ratio);
	if (ratio <= tally->worst)
		return;
	tally->worst = ratio;
	tally->chosen = results[0];
	tally->best = *best;
}

double bench_tuning_mean(const struct bench_tuning_table *tally)
{
	return exp(tally->logs / (double)tally->points);
}

/* ---- the table */

void bench_tuning_title(const struct bench_report *report, enum bench_kind kind, const char *model)
{
	bench_report_subject(report, kind, model);
	bench_remark("median times in µs per call: by the library's own choice and by the best "
		     "algorithm; below each line, by "
		     "each that can do it, forced");
	printf("#%11s %5s  %-*s %8s  %-*s %8s %6s\n", "size (B)", "place", NAME_WIDTH, "chosen",
	       "median", NAME_WIDTH, "best", "median", "ratio");
	output_flush(stdout);
}

/* As many as there are; they need no columns, as each stands beside its name. */
static void remark_forced(const struct bench_result *results, size_t n)
{
	char text[1024] = "";

	for (size_t i = 1; i < n; i++)
		bench_append(text, sizeof(text), "%s%s %.2f", i > 1 ? ", " : "",
			     results[i].algorithm, results[i].stats.median);
	bench_remark("%s", text);
}

void bench_tuning_row(const struct bench_result *results, size_t n)
{
	const struct bench_result *chosen = &results[0], *best = best_of(results, n);

	printf("%12zu %5s  %-*s", chosen->bytes, chosen->call.inplace ? "in" : "out", NAME_WIDTH,
	       chosen->algorithm);
	bench_figure(8, 2, chosen->stats.median);
	printf("  %-*s", NAME_WIDTH, best->algorithm);
	bench_figure(8, 2, best->stats.median);
	bench_figure(6, 2, ratio_of(chosen, best));
	putchar('\n');
	remark_forced(results, n);
}

void bench_tuning_summary(const struct bench_tuning_table *tally, const char *of)
{
	const struct bench_result *chosen = &tally->chosen;

	if (tally->points == 0)
		return;
	char where[96];

	if (bench_case(chosen->call.kind)->empty)
		snprintf(where, sizeof(where), "%s", bench_case(chosen->call.kind)->name);
	else
		snprintf(where, sizeof(where), "%s of %zu bytes %s",
			 bench_case(chosen->call.kind)->name, chosen->bytes,
			 chosen->call.inplace ? "in place" : "out of place");
	bench_remark("%s: %ld of %ld within %.0f %% of the best, geometric mean of the ratios "
		     "%.2f, worst %.2f: %s, %s where %s is best",
		     of, tally->close, tally->points, (BENCH_CLOSE - 1) * 100,
		     bench_tuning_mean(tally), tally->worst, where, chosen->algorithm,
		     tally->best.algorithm);
}
