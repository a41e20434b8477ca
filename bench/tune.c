/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the contestants of --tune and their turns.
 *
 * A contestant is a communicator: one that chooses, and one for each algorithm that can do the
 * collective with these ranks. They take turns in rounds, so that what else the machine does meets
 * all of them. Barriers and exchanges go through yet another communicator, so that no contestant
 * has just been used by one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "outputs.h"
#include "point.h"
#include "sweep.h"
#include "tuning_table.h"
#include "tutti_backend.h"

#define ROUNDS 5

struct contestant {
	const char *forced; /* NULL: the library chooses */
	struct bench_tutti tutti;
	struct bench_samples samples;
};

struct tune {
	struct bench_tutti *meeting;
	struct contestant *contestants; /* room for all algorithms, and [0], which chooses */
	struct bench_result *results;	/* of these; zeroed between points */
	size_t n;
	struct bench_tuning_table tally, total;
	bool table;
};

/* ---- who takes part in a collective */

/* While contestants are tried the library warns of each that cannot do it: that is looked for. */
static void all_but_refusals(tutti_log_level_t level, const char *subsystem, const char *line,
			     void *context)
{
	if (level != TUTTI_LOG_WARN || strcmp(subsystem, "plan") != 0)
		fprintf(stderr, "tutti %s: %s\n", subsystem, line);
}

/* 1: a call goes by the algorithm that was forced. 0: the library took another. */
static int is_able(struct bench_run *run, struct contestant *c, enum bench_kind kind)
{
	const size_t bytes = bench_sweep_bytes(run, kind, run->options->begin);
	struct bench_backend *backend = &c->tutti.backend;
	const char *transport, *algorithm;
	struct bench_point point;
	struct bench_call call;
	int rc;

	if (!bench_point_call(backend, run->options, kind, bytes, false, &call))
		bench_point_call(backend, run->options, kind, bytes, true, &call);
	if (!bench_point_init(&point, backend, run->options, &run->buffers, &call, bytes))
		return -1;
	rc = backend->run(backend, &point.calls[0]);
	bench_point_fini(&point);
	if (rc < 0)
		return -1;
	backend->describe(backend, &call, &transport, &algorithm);
	return !c->forced || strcmp(algorithm, c->forced) == 0;
}

static int invite(struct bench_run *run, enum bench_kind kind, const char *forced)
{
	struct tune *tune = run->context;
	struct contestant *c = &tune->contestants[tune->n];
	int able;

	*c = (struct contestant){ .forced = forced };
	if (bench_tutti_init(&c->tutti, run->options, forced) < 0)
		return -1;
	c->tutti.meeting = tune->meeting->comm;
	able = is_able(run, c, kind);
	if (able > 0)
		tune->n++;
	else
		bench_tutti_fini(&c->tutti);
	return able < 0 ? -1 : 0;
}

static int invite_all(struct bench_run *run, enum bench_kind kind)
{
	const char *name;
	int rc = invite(run, kind, NULL);

	for (int i = 0; rc == 0 && (name = tutti_algorithm_name(i)); i++)
		rc = invite(run, kind, name);
	return rc;
}

static void dismiss_all(struct tune *tune)
{
	while (tune->n > 0)
		bench_tutti_fini(&tune->contestants[--tune->n].tutti);
}

/* Whence the figures are by which algorithms are chosen. */
static const char *model_source(void)
{
	tutti_model_t model = { .size = sizeof(model) };

	return tutti_model(&model) == TUTTI_OK ? model.source : "unknown";
}

static int begin(struct bench_run *run, enum bench_kind kind)
{
	struct tune *tune = run->context;
	int rc;

	tune->tally = (struct bench_tuning_table){ 0 };
	tune->table = run->report && bench_report_outputs(run->report)->table;
	tutti_log_set_sink(all_but_refusals, NULL);
	rc = invite_all(run, kind);
	tutti_log_set_sink(NULL, NULL);
	if (rc < 0)
		dismiss_all(tune);
	else if (tune->table)
		bench_tuning_title(run->report, kind, model_source());
	return rc;
}

static void end(struct bench_run *run, enum bench_kind kind)
{
	struct tune *tune = run->context;

	if (tune->table)
		bench_tuning_summary(&tune->tally, bench_case(kind)->name);
	dismiss_all(tune);
}

/* ---- a point */

/* Every second round in reverse order, so that nobody always follows the same one. */
static int play_round(struct tune *tune, struct bench_point *point, int round)
{
	const struct bench_options *o = point->options;
	const struct bench_budget budget = { (o->iters + ROUNDS - 1) / ROUNDS, o->warmup,
					     o->seconds / ROUNDS };

	for (size_t turn = 0; turn < tune->n; turn++) {
		const size_t i = round % 2 ? tune->n - 1 - turn : turn;
		struct contestant *c = &tune->contestants[i];

		if (bench_point_visit(point, &c->tutti.backend, &budget, &c->samples,
				      &tune->results[i]) < 0)
			return -1;
	}
	return 0;
}

static void count_wrong(struct bench_run *run, const struct bench_result *r)
{
	if (r->wrong <= 0)
		return;
	run->wrong += r->wrong;
	if (run->report)
		bench_complain("%s of %zu bytes by %s: %.0f elements were wrong",
			       bench_case(r->call.kind)->name, r->bytes, r->algorithm, r->wrong);
}

static int write_results(const struct bench_outputs *outputs, const struct tune *tune)
{
	for (size_t i = 0; i < tune->n; i++) {
		json_t *object = bench_result_json(&tune->results[i]);

		json_object_set_new(object, "forced", json_boolean(tune->contestants[i].forced));
		if (bench_outputs_json(outputs, object) < 0)
			return -1;
	}
	return 0;
}

static int settle(struct bench_run *run)
{
	struct tune *tune = run->context;

	for (size_t i = 0; i < tune->n; i++)
		count_wrong(run, &tune->results[i]);
	bench_tuning_add(&tune->tally, tune->results, tune->n);
	bench_tuning_add(&tune->total, tune->results, tune->n);
	if (tune->table)
		bench_tuning_row(tune->results, tune->n);
	return run->report ? write_results(bench_report_outputs(run->report), tune) : 0;
}

static void forget_samples(struct tune *tune)
{
	for (size_t i = 0; i < tune->n; i++) {
		bench_samples_free(&tune->contestants[i].samples);
		tune->results[i] = (struct bench_result){ 0 };
	}
}

static int compare(struct bench_run *run, struct bench_point *point)
{
	struct tune *tune = run->context;
	int rc = 0;

	for (int round = 0; round < ROUNDS && rc == 0; round++)
		rc = play_round(tune, point, round);
	if (rc == 0)
		rc = settle(run);
	forget_samples(tune);
	return rc;
}

/* ---- the whole */

int bench_tune(struct bench_tutti *meeting, const struct bench_options *options)
{
	static const struct bench_steps steps = { begin, compare, end };
	struct tune tune = { .meeting = meeting };
	size_t capacity = 1; /* for who chooses, and each algorithm */
	int rc = -1;

	while (tutti_algorithm_name((int)capacity - 1))
		capacity++;
	tune.contestants = calloc(capacity, sizeof(*tune.contestants));
	tune.results = calloc(capacity, sizeof(*tune.results));
	if (tune.contestants && tune.results)
		rc = bench_sweep_by(&steps, &tune, &meeting->backend, options);
	else
		fprintf(stderr, "rank %d: no memory to compare algorithms\n",
			meeting->backend.rank);
	if (tune.table && options->kind == BENCH_KIND_COUNT)
		bench_tuning_summary(&tune.total, "all");
	free(tune.results);
	free(tune.contestants);
	return rc;
}
