/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the comparison of what was chosen with what is best, and its table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pattern.h"
#include "tally.h"

#define NAME_WIDTH 18 /* of the longest algorithm */

/* ---- the comparison */

double bench_ratio(const struct bench_result *chosen, const struct bench_result *best)
{
	return chosen->stats.median / best->stats.median;
}

const struct bench_result *bench_best(const struct bench_result *results, size_t n)
{
	const struct bench_result *best = &results[1];

	for (size_t i = 2; i < n; i++) {
		if (results[i].stats.median < best->stats.median)
			best = &results[i];
	}
	return best;
}

static void keep_worst(struct bench_tally *tally, double ratio, const struct bench_result *chosen,
		       const struct bench_result *best)
{
	if (ratio <= tally->worst)
		return;
	tally->worst = ratio;
	tally->chosen = *chosen;
	tally->best = *best;
}

void bench_tally_add(struct bench_tally *tally, const struct bench_result *results, size_t n)
{
	const struct bench_result *best = bench_best(results, n);
	const double ratio = bench_ratio(&results[0], best);

	tally->points++;
	tally->close += ratio <= BENCH_CLOSE;
	tally->logs += log(ratio);
	keep_worst(tally, ratio, &results[0], best);
}

void bench_tally_join(struct bench_tally *tally, const struct bench_tally *from)
{
	tally->points += from->points;
	tally->close += from->close;
	tally->logs += from->logs;
	keep_worst(tally, from->worst, &from->chosen, &from->best);
}

double bench_tally_mean(const struct bench_tally *tally)
{
	return exp(tally->logs / (double)tally->points);
}

/* ---- the table */

/* Wide enough for the name and for hours. */
static int width(const char *algorithm)
{
	const int length = (int)strlen(algorithm);

	return length > 10 ? length : 10;
}

static void print_call(const struct bench_options *o, const struct bench_case *c)
{
	if (!c->empty)
		printf(" of %s", bench_type_name(o->dtype));
	if (c->reduces)
		printf(", %s", bench_op_name(o->op));
	if (c->rooted)
		printf(", root %d", o->root);
}

void bench_tally_title(const struct bench_options *o, enum bench_kind kind, int ranks,
		       const char *model, const struct bench_result *results, size_t n)
{
	const struct bench_case *c = bench_case(kind);

	printf("# tutti %s", c->name);
	print_call(o, c);
	printf(", %d ranks, memory %s, %s, cost model: %s\n", ranks,
	       o->mappable ? "of tutti_mem_alloc" : "of malloc",
	       o->check ? "results verified" : "results not verified", model);
	printf("# median times in µs per call: by the library's own choice, by the best algorithm, "
	       "and by each that can do it, forced\n");
	printf("#%11s %11s %5s  %-*s %10s  %-*s %10s %6s ", "size (B)", "count", "place",
	       NAME_WIDTH, "chosen", "median", NAME_WIDTH, "best", "median", "ratio");
	for (size_t i = 1; i < n; i++)
		printf(" %*s", width(results[i].algorithm), results[i].algorithm);
	printf("\n");
	fflush(stdout);
}

void bench_tally_row(const struct bench_result *results, size_t n)
{
	const struct bench_result *chosen = &results[0], *best = bench_best(results, n);

	printf("%12zu %11zu %5s  %-*s %10.2f  %-*s %10.2f %6.2f ", chosen->bytes, chosen->count,
	       chosen->inplace ? "in" : "out", NAME_WIDTH, chosen->algorithm, chosen->stats.median,
	       NAME_WIDTH, best->algorithm, best->stats.median, bench_ratio(chosen, best));
	for (size_t i = 1; i < n; i++)
		printf(" %*.2f", width(results[i].algorithm), results[i].stats.median);
	printf("\n");
	fflush(stdout);
}

void bench_tally_summary(const struct bench_tally *tally, const char *of)
{
	const struct bench_result *chosen = &tally->chosen;

	if (tally->points == 0)
		return;
	printf("# %s: %ld of %ld within %.0f %% of the best, geometric mean of the ratios %.2f, "
	       "worst %.2f: ",
	       of, tally->close, tally->points, (BENCH_CLOSE - 1) * 100, bench_tally_mean(tally),
	       tally->worst);
	if (bench_case(chosen->kind)->empty)
		printf("%s", bench_case(chosen->kind)->name);
	else
		printf("%s of %zu bytes %s", bench_case(chosen->kind)->name, chosen->bytes,
		       chosen->inplace ? "in place" : "out of place");
	printf(", %s where %s is best\n", chosen->algorithm, tally->best.algorithm);
	fflush(stdout);
}
