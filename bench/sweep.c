/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the order of measurements: which collectives, which sizes, and the steps of a plain run. */
#include <stdio.h>

#include "lines.h"
#include "point.h"
#include "sweep.h"
#include "waiting.h"

/* ---- a plain run */

static int begin(struct bench_run *run, enum bench_kind kind)
{
	if (run->report)
		bench_report_title(run->report, kind);
	return 0;
}

static int measure(struct bench_run *run, struct bench_point *point)
{
	const struct bench_options *o = run->options;
	const struct bench_budget budget = { o->iters, o->warmup, o->seconds };
	struct bench_samples samples = { 0 };
	struct bench_result result = { 0 };
	const int rc = bench_point_visit(point, run->backend, &budget, &samples, &result);

	bench_samples_free(&samples);
	if (rc < 0)
		return -1;
	run->wrong += result.wrong > 0 ? result.wrong : 0;
	return run->report ? bench_report_row(run->report, &result) : 0;
}

static void end(struct bench_run *run, enum bench_kind kind)
{
	if (run->report && !run->measured)
		bench_complain("%s has no %s with these options: nothing was measured",
			       run->backend->library, bench_case(kind)->name);
}

/* ---- any run */

size_t bench_sweep_bytes(const struct bench_run *run, enum bench_kind kind, size_t wanted)
{
	const size_t element = bench_type_size(run->options->dtype);
	const int ranks = run->backend->size;

	return bench_case_bytes(kind, bench_case_count(kind, wanted, element, ranks), element,
				ranks);
}

/* Out of place, then in place, as far as the library can do it. */
static int measure_size(const struct bench_steps *steps, struct bench_run *run,
			enum bench_kind kind, size_t bytes)
{
	struct bench_point point;
	struct bench_call call;
	int rc = 0;

	for (int i = 0; i < 2 && rc == 0; i++) {
		if (!bench_point_call(run->backend, run->options, kind, bytes, i == 1, &call))
			continue;
		run->measured = true;
		if (!bench_point_init(&point, run->backend, run->options, &run->buffers, &call,
				      bytes))
			return -1;
		rc = steps->point(run, &point);
		bench_point_fini(&point);
	}
	return rc;
}

static int measure_sizes(const struct bench_steps *steps, struct bench_run *run,
			 enum bench_kind kind)
{
	const struct bench_options *o = run->options;
	size_t last = SIZE_MAX;

	for (size_t wanted = o->begin; wanted <= o->end; wanted *= (size_t)o->factor) {
		const size_t bytes = bench_sweep_bytes(run, kind, wanted);

		if (bytes != last && measure_size(steps, run, kind, bytes) < 0)
			return -1;
		last = bytes;
	}
	return 0;
}

static int measure_kind(const struct bench_steps *steps, struct bench_run *run,
			enum bench_kind kind)
{
	int rc;

	if (steps->begin(run, kind) < 0)
		return -1;
	run->measured = false;
	rc = measure_sizes(steps, run, kind);
	steps->end(run, kind);
	return rc;
}

static bool included(const struct bench_options *o, enum bench_kind kind)
{
	if (o->kind != BENCH_KIND_COUNT)
		return o->kind == kind;
	return bench_case_is_collective(kind) && !(bench_case(kind)->prefix && o->op == TUTTI_AVG);
}

/* What the largest measurement needs, and the largest call. */
static size_t region_bytes(const struct bench_run *run, size_t *call)
{
	const struct bench_options *o = run->options;
	size_t most = 1;

	*call = 1;

	for (int kind = 0; kind < BENCH_KIND_COUNT; kind++) {
		if (!included(o, kind))
			continue;
		for (size_t wanted = o->begin; wanted <= o->end; wanted *= (size_t)o->factor) {
			const size_t bytes = bench_sweep_bytes(run, kind, wanted);
			const size_t need = bench_set_stride(bytes) *
					    bench_point_batch(run->backend, o, kind, bytes);

			most = need > most ? need : most;
			*call = bytes > *call ? bytes : *call;
		}
	}
	return most;
}

/* Every rank learns whether any of them failed, so that none waits for one that is gone. */
static int anyone(struct bench_backend *backend, bool failed)
{
	double value = failed;

	if (backend->combine(backend, &value, 1, BENCH_MAX) < 0)
		return -1;
	return value > 0;
}

static int measure_all(const struct bench_steps *steps, struct bench_run *run)
{
	for (int kind = 0; kind < BENCH_KIND_COUNT; kind++) {
		if (included(run->options, kind) && measure_kind(steps, run, kind) < 0)
			return -1;
	}
	return 0;
}

static bool one_sided(const struct bench_options *o)
{
	return bench_case(o->kind)->one_sided;
}

static int prepare_buffers(struct bench_run *run)
{
	struct bench_backend *b = run->backend;
	size_t call;
	const size_t bytes = region_bytes(run, &call);
	bool ready = bench_buffers_init(&run->buffers, b, bytes, run->options->mappable);

	if (ready && b->device && b->device->without)
		ready = bench_buffers_init_tape(&run->buffers, b, call);
	if (anyone(b, !ready) != 0)
		return -1;
	if (one_sided(run->options))
		return b->expose(b, run->buffers.in, run->buffers.out, bytes);
	return b->device ? b->device->enter(b, run->buffers.in, run->buffers.out, bytes) : 0;
}

/* After a failure other ranks may not be there any more, and all ends soon. */
static int leave_buffers(struct bench_run *run, int rc)
{
	const struct bench_device *device = run->backend->device;

	if (rc < 0)
		return rc;
	if (one_sided(run->options))
		return run->backend->conceal(run->backend);
	return device ? device->leave(run->backend) : rc;
}

int bench_sweep_by(const struct bench_steps *steps, void *context, struct bench_backend *backend,
		   const struct bench_options *options)
{
	struct bench_run run = { .backend = backend, .options = options, .context = context };
	const bool first = backend->rank == 0;
	int rc = -1;

	if (first)
		run.report = bench_report_open(options, backend);
	if (anyone(backend, first && !run.report) != 0)
		goto close_report;
	if (prepare_buffers(&run) < 0)
		goto fini_buffers;
	rc = leave_buffers(&run, measure_all(steps, &run));
	if (first && run.wrong > 0)
		bench_complain("%.0f elements were wrong", run.wrong);
fini_buffers:
	bench_buffers_fini(&run.buffers, backend);
close_report:
	if (bench_report_close(run.report) < 0)
		rc = -1;
	return rc < 0 ? -1 : run.wrong > 0;
}

int bench_sweep(struct bench_backend *backend, const struct bench_options *options)
{
	static const struct bench_steps plain = { begin, measure, end };
	const char *const of_tutti = options->tune			 ? "--tune"
				     : options->overlap			 ? "--overlap"
				     : options->cuda && !backend->device ? "-m cuda"
				     : options->wire && !backend->wire	 ? "--wire"
									 : NULL;

	if (of_tutti) {
		bench_complain("%s is for tutti, this program measures %s; use tutti-bench",
			       of_tutti, backend->library);
		return -1;
	}
	if (one_sided(options) && !backend->expose) {
		bench_complain("%s is for tutti and MPI, this program measures %s",
			       bench_case(options->kind)->name, backend->library);
		return -1;
	}
	if (options->kind == BENCH_INIT) {
		bench_complain(
			"%s cannot measure init; use tutti-bench or a program of bench/peers",
			backend->library);
		return -1;
	}
	if (options->kind == BENCH_WAITING)
		return bench_waiting(backend, options);
	return bench_sweep_by(&plain, NULL, backend, options);
}
