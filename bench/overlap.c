/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what --overlap measures at a point, in turns:
 *   alone        the blocking call
 *   computation  that of every rank, which lasts about as long
 *   processor    the time of the processor that the call takes of a rank that does nothing else: the caller sleeps, so
 *                that nobody polls
 *   together     the call that does not block, the computation, the wait
 * What the cores must share is the computation and the processor's time; the bound is their sum,
 * or the blocking call where that takes longer. */
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "lines.h"
#include "output.h"
#include "outputs.h"
#include "point.h"
#include "sweep.h"
#include "tutti_backend.h"

#define ROUNDS	    3
#define NAP	    3 /* times the blocking call: whoever sleeps so long need not wait */
#define TRIALS	    20
#define TRIAL_STEPS 200000

/* Why a pair takes longer than both one after the other. Which of them is seen first; the last is
 * none. */
enum cause { CROWD, THREADS, NOISE, UNSEEN, NO_CAUSE };

struct overlap {
	double step_s;	/* of the computation, on the slowest rank */
	uint64_t steps; /* at the point at hand */
	double nap_s;
	double oversubscription; /* ranks of this host for each core, at least 1 */
	struct bench_samples alone, computation, processor, together;
	bool table, seen[NO_CAUSE + 1]; /* of the table at hand */
};

/* The library with another way of making a call: it does not block, and the caller computes or sleeps
 * meanwhile. */
struct way {
	struct bench_backend backend;
	const struct overlap *overlap;
	bool asleep;
};

/* ---- the ways */

/* Stays in registers. Each step needs the one before it, so that a second thread of the core
 * takes little from it. */
static void compute(uint64_t steps)
{
	static volatile uint64_t kept;
	uint64_t x = kept;

	for (; steps > 0; steps--)
		x = x * 6364136223846793005u + 1442695040888963407u;
	kept = x;
}

static int run_beside(struct bench_backend *backend, const struct bench_call *call)
{
	const struct way *way = (struct way *)backend;
	const struct bench_tutti *tutti = bench_tutti_of(backend);
	tutti_request_t request;
	const tutti_result_t rc = bench_call_on_host(tutti, call, &request);

	if (!rc && way->asleep)
		bench_sleep(way->overlap->nap_s);
	else if (!rc)
		compute(way->overlap->steps);
	return bench_tutti_said(backend, tutti->comm, rc ? rc : tutti_wait(&request));
}

static int run_computation(void *context, unsigned call)
{
	const struct overlap *overlap = context;

	compute(overlap->steps);
	return 0;
}

static int prepare_nothing(void *context, uint64_t sample)
{
	return 0;
}

static void finish_nothing(void *context)
{
}

/* ---- a point */

static struct bench_stats stats_of(const struct bench_samples *samples)
{
	return bench_summarise(samples->seconds, samples->count);
}

static int visit_computation(struct bench_run *run, const struct bench_budget *budget,
			     unsigned batch)
{
	struct overlap *overlap = run->context;
	const struct bench_work work = { .context = overlap,
					 .backend = run->backend,
					 .batch = batch,
					 .prepare = prepare_nothing,
					 .run = run_computation,
					 .finish = finish_nothing };

	return bench_time(&work, budget, &overlap->computation);
}

/* Let the computation last as long as the call: by its steps, then by what these took beside
 * those of the other ranks. */
static int fit(struct bench_run *run, const struct bench_budget *budget, unsigned batch)
{
	struct overlap *overlap = run->context;
	const double alone = stats_of(&overlap->alone).median * 1e-6;

	overlap->nap_s = NAP * alone;
	overlap->steps = (uint64_t)(alone / overlap->step_s) + 1;
	if (visit_computation(run, budget, batch) < 0)
		return -1;
	const double ratio = alone / (stats_of(&overlap->computation).median * 1e-6);
	overlap->steps = (uint64_t)((double)overlap->steps * ratio) + 1;
	bench_samples_free(&overlap->computation);
	return 0;
}

static int play_round(struct bench_run *run, struct bench_point *point, int round,
		      struct bench_result *results)
{
	struct overlap *overlap = run->context;
	const struct bench_options *o = run->options;
	const long warmup = o->warmup < 0 && round > 0 ? 1 : o->warmup;
	const struct bench_budget budget = { (o->iters + ROUNDS - 1) / ROUNDS, warmup,
					     o->seconds / ROUNDS };
	struct way beside = { *run->backend, overlap, false };

	beside.backend.run = run_beside;
	if (bench_point_visit(point, run->backend, &budget, &overlap->alone, &results[0]) < 0)
		return -1;
	if (round == 0 && fit(run, &budget, point->batch) < 0)
		return -1;
	if (visit_computation(run, &budget, point->batch) < 0 ||
	    bench_point_visit(point, &beside.backend, &budget, &overlap->together, &results[1]) < 0)
		return -1;
	beside.asleep = point->processor = true;
	const int rc = bench_point_visit(point, &beside.backend, &budget, &overlap->processor,
					 &results[2]);
	point->processor = false;
	return rc;
}

static const char *const causes[NO_CAUSE + 1] = {
	[CROWD] =
		"more ranks than cores: a rank that waits is late, as another computes on its core",
	[THREADS] = "a call that does not block is work for further threads (the processor's time "
		    "is above that of the call "
		    "alone), and the computation leaves them no core",
	[NOISE] = "samples are far apart, and the fastest is below both one after the other: "
		  "something else used the cores",
	[UNSEEN] = "these figures show no cause",
};

/* What is shown of a point, in microseconds. */
struct outcome {
	double alone, computation, processor, together;
	double hidden; /* share of the shorter of both that the pair does not take */
	double bound;
	enum cause cause; /* of a negative share */
};

static enum cause cause_of(const struct overlap *overlap, const struct outcome *o)
{
	if (o->hidden >= 0)
		return NO_CAUSE;
	if (overlap->oversubscription > 1)
		return CROWD;
	if (o->processor > o->alone)
		return THREADS;
	return stats_of(&overlap->together).min < o->alone + o->computation ? NOISE : UNSEEN;
}

static struct outcome outcome_of(const struct overlap *overlap)
{
	struct outcome o = { stats_of(&overlap->alone).median,
			     stats_of(&overlap->computation).median,
			     stats_of(&overlap->processor).median,
			     stats_of(&overlap->together).median };

	o.hidden = (o.alone + o.computation - o.together) / fmin(o.alone, o.computation);
	o.bound = fmax(o.alone, o.computation + overlap->oversubscription * o.processor);
	o.cause = cause_of(overlap, &o);
	return o;
}

static char mark_of(enum cause cause)
{
	return cause == NO_CAUSE ? ' ' : (char)('a' + cause);
}

static void print_title(const struct bench_run *run, enum bench_kind kind)
{
	bench_report_subject(run->report, kind, NULL);
	bench_remark("median times in µs: the blocking call, a computation, the processor's time "
		     "that the call needs, and call "
		     "and computation together");
	printf("#%11s %5s %8s %8s %9s %8s %7s %6s  %s\n", "size (B)", "place", "alone", "compute",
	       "processor", "together", "hidden", "/bound", "transport/algorithm");
	output_flush(stdout);
}

static void print_row(const struct bench_result *r, const struct outcome *o)
{
	printf("%12zu %5s", r->bytes, r->call.inplace ? "in" : "out");
	bench_figure(8, 2, o->alone);
	bench_figure(8, 2, o->computation);
	bench_figure(9, 2, o->processor);
	bench_figure(8, 2, o->together);
	printf(" %5.0f%%%c", o->hidden * 100, mark_of(o->cause));
	bench_figure(6, 2, o->together / o->bound);
	printf("  %s/%s\n", r->transport, r->algorithm);
	output_flush(stdout);
}

static int write_json(const struct bench_outputs *outputs, const struct bench_result *r,
		      const struct outcome *o)
{
	json_t *object = bench_result_json(r);

	json_object_set_new(object, "overlap",
			    json_pack("{sf sf sf sf ss? sf}", "alone_us", o->alone,
				      "computation_us", o->computation, "processor_us",
				      o->processor, "hidden", o->hidden, "cause", causes[o->cause],
				      "bound_us", o->bound));
	return bench_outputs_json(outputs, object);
}

static int settle(struct bench_run *run, const struct bench_result results[3])
{
	struct overlap *overlap = run->context;
	const struct outcome outcome = outcome_of(overlap);

	for (int i = 0; i < 3; i++)
		run->wrong += results[i].wrong > 0 ? results[i].wrong : 0;
	if (!run->report)
		return 0;
	overlap->seen[outcome.cause] = true;
	if (overlap->table)
		print_row(&results[1], &outcome);
	return write_json(bench_report_outputs(run->report), &results[1], &outcome);
}

static int measure(struct bench_run *run, struct bench_point *point)
{
	struct overlap *overlap = run->context;
	struct bench_result results[3] = { 0 };
	int rc = 0;

	for (int round = 0; round < ROUNDS && rc == 0; round++)
		rc = play_round(run, point, round, results);
	if (rc == 0)
		rc = settle(run, results);
	bench_samples_free(&overlap->alone);
	bench_samples_free(&overlap->computation);
	bench_samples_free(&overlap->processor);
	bench_samples_free(&overlap->together);
	return rc;
}

/* ---- the whole */

static int begin(struct bench_run *run, enum bench_kind kind)
{
	struct overlap *overlap = run->context;

	memset(overlap->seen, 0, sizeof(overlap->seen));
	overlap->table = run->report && bench_report_outputs(run->report)->table;
	if (overlap->table)
		print_title(run, kind);
	return 0;
}

static void end(struct bench_run *run, enum bench_kind kind)
{
	const struct overlap *overlap = run->context;

	for (enum cause cause = 0; overlap->table && cause < NO_CAUSE; cause++)
		if (overlap->seen[cause])
			bench_remark("%c: hidden is below 0, as the pair takes longer than both "
				     "one after the other: %s",
				     mark_of(cause), causes[cause]);
}

/* The shortest trial counts: nothing but disturbance makes one longer. */
static double step_seconds(void)
{
	double least = INFINITY;

	for (int i = 0; i < TRIALS; i++) {
		const double start = bench_now();

		compute(TRIAL_STEPS);
		least = fmin(least, (bench_now() - start) / TRIAL_STEPS);
	}
	return least;
}

static double oversubscription_of(const struct bench_tutti *tutti)
{
	cpu_set_t cores;
	const int count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;

	return fmax(1, (double)tutti_comm_local_size(tutti->comm) / count);
}

int bench_overlap(struct bench_tutti *tutti, const struct bench_options *options)
{
	static const struct bench_steps steps = { begin, measure, end };
	struct overlap overlap = { .step_s = step_seconds(),
				   .oversubscription = oversubscription_of(tutti) };

	if (tutti->backend.combine(&tutti->backend, &overlap.step_s, 1, BENCH_MAX) < 0)
		return -1;
	return bench_sweep_by(&steps, &overlap, &tutti->backend, options);
}
