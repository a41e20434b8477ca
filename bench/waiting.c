/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the measurement of waits, and their table. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lines.h"
#include "outputs.h"
#include "pattern.h"
#include "report.h"
#include "timing.h"
#include "transports.h"
#include "waiting.h"

#define TIMES	   5	  /* unless said */
#define LATEST_S   1.0	  /* rank 0 is so late at last, … */
#define EARLIEST_S 0.0001 /* … and so late at first; ten times as late each time */

/* Of the waits for a rank that is as late. */
struct waits {
	double late; /* seconds */
	/* [count] seconds: what the rank used that used most; from when rank 0 came until the
	 * last of the others went on; and the first as share of the time that it waited */
	double *processor, *woken, *share;
	size_t count;
	const char *transport, *algorithm;
};

static int wait_once(struct bench_backend *b, struct waits *waits, size_t i)
{
	const struct bench_call call = { .kind = BENCH_BARRIER,
					 .dtype = TUTTI_FLOAT32,
					 .op = BENCH_NO_OP,
					 .root = -1,
					 .last = true };
	const bool late = b->rank == 0;

	if (b->barrier(b) < 0)
		return -1;
	if (late)
		bench_sleep(waits->late);
	const double before = bench_processor_now(), came = bench_now();
	if (b->run(b, &call) < 0)
		return -1;
	const double used = bench_processor_now() - before, went = bench_now();
	double most[] = { late ? 0 : used, late ? 0 : used / (went - came), late ? came : 0,
			  late ? 0 : went };
	if (b->combine(b, most, 4, BENCH_MAX) < 0)
		return -1;
	waits->processor[i] = most[0];
	waits->share[i] = most[1];
	waits->woken[i] = most[3] - most[2];
	b->describe(b, &call, &waits->transport, &waits->algorithm);
	return 0;
}

static int wait_often(struct bench_backend *b, struct waits *waits)
{
	for (size_t i = 0; i < waits->count; i++)
		if (wait_once(b, waits, i) < 0)
			return -1;
	return bench_join_transports(b, &waits->transport);
}

/* ---- what is shown */

static void print_heading(const struct bench_backend *b, size_t count)
{
	bench_remark("%s waiting, %d ranks: rank 0 comes to a barrier later than the others",
		     b->library, b->size);
	bench_remark("processor: what the rank that uses most of it uses while it waits; share: of "
		     "that time; woken: from when rank 0 comes until the last "
		     "of the others goes on; medians of %zu",
		     count);
	printf("#%9s %14s %9s %12s  %s\n", "late (ms)", "processor (ms)", "share (%)", "woken (us)",
	       "transport/algorithm");
}

static int show(const struct bench_backend *b, struct bench_outputs *outputs, const struct waits *w)
{
	const struct bench_stats processor = bench_summarise(w->processor, w->count);
	const struct bench_stats woken = bench_summarise(w->woken, w->count);
	const double share = bench_summarise(w->share, w->count).median * 1e-6;

	if (outputs->table) {
		bench_figure(9, 1, w->late * 1e3);
		bench_figure(14, 3, processor.median / 1e3);
		bench_figure(9, 1, share * 100);
		bench_figure(12, 1, woken.median);
		printf("  %s/%s\n", w->transport, w->algorithm);
	}
	json_t *object = json_pack(
		"{ss ss ss ss si sI sf so sf so}", "library", b->library, "collective", "waiting",
		"transport", w->transport, "algorithm", w->algorithm, "ranks", b->size, "iters",
		(json_int_t)w->count, "late_us", w->late * 1e6, "processor_us",
		bench_stats_json(&processor), "share", share, "woken_us", bench_stats_json(&woken));
	return bench_outputs_json(outputs, bench_json_origin(object, b->version));
}

static int measure(struct bench_backend *b, struct bench_outputs *outputs, struct waits *waits)
{
	for (waits->late = EARLIEST_S; waits->late < 2 * LATEST_S; waits->late *= 10) {
		if (wait_often(b, waits) < 0)
			return -1;
		if (b->rank == 0 && show(b, outputs, waits) < 0)
			return -1;
	}
	return 0;
}

int bench_waiting(struct bench_backend *backend, const struct bench_options *options)
{
	const size_t count = options->iters > 0 ? (size_t)options->iters : TIMES;
	double *seconds = calloc(3 * count, sizeof(*seconds));
	struct waits waits = { .processor = seconds,
			       .woken = seconds + count,
			       .share = seconds + 2 * count,
			       .count = count };
	struct bench_outputs outputs = { 0 };
	int rc = -1;

	if (!seconds) {
		bench_complain("no memory for %zu waits", count);
		return -1;
	}
	if (backend->rank != 0 || bench_outputs_open(&outputs, options)) {
		if (outputs.table)
			print_heading(backend, count);
		rc = measure(backend, &outputs, &waits);
		if (bench_outputs_close(&outputs) < 0)
			rc = -1;
	}
	free(seconds);
	return rc;
}
