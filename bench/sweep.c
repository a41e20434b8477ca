/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the order of measurements and what one consists of: buffers filled, calls timed, results
 * verified. */
#include <stdio.h>

#include "buffers.h"
#include "report.h"
#include "sweep.h"

/* Up to here a call is so short that the clock and the barrier's exit would weigh in: calls are
 * timed in batches. */
#define BATCHED_BYTES 4096
#define BATCH	      32
#define WINDOW	      64
#define WINDOW_BYTES  ((size_t)32 << 20)
#define MOST_BATCH    64

struct sweep {
	struct bench_backend *backend;
	const struct bench_options *options;
	struct bench_report *report; /* rank 0 only */
	struct bench_buffers buffers;
	double wrong; /* elements, of the whole run */
};

/* One point: a collective, a size, out of place or in place. */
struct point {
	struct sweep *sweep;
	struct bench_pattern pattern;
	size_t bytes;
	unsigned batch;
	uint64_t sample;
	const char *transport, *algorithm;
	struct bench_call calls[MOST_BATCH];
};

static unsigned batch_of(enum bench_kind kind, size_t bytes)
{
	if (kind == BENCH_BANDWIDTH) {
		const size_t fit = WINDOW_BYTES / bytes;

		return fit >= WINDOW ? WINDOW : fit > 2 ? (unsigned)fit : 2;
	}
	return bytes <= BATCHED_BYTES ? BATCH : 1;
}

static uint64_t shift_of(const struct point *point, unsigned call)
{
	return point->sample * point->batch + call;
}

static void prepare(void *context, uint64_t sample)
{
	struct point *point = context;
	const struct bench_backend *b = point->sweep->backend;

	point->sample = sample;
	for (unsigned i = 0; i < point->batch; i++)
		bench_call_fill(&point->calls[i], &point->pattern, b->rank, b->size,
				shift_of(point, i));
}

static int run(void *context, unsigned call)
{
	struct point *point = context;
	struct bench_backend *backend = point->sweep->backend;

	return backend->run(backend, &point->calls[call]);
}

static void finish(void *context)
{
	struct point *point = context;
	struct bench_backend *backend = point->sweep->backend;

	backend->describe(backend, &point->transport, &point->algorithm);
}

static int verify(struct point *point, double *wrong)
{
	struct bench_backend *b = point->sweep->backend;

	*wrong = 0;
	for (unsigned i = 0; i < point->batch; i++)
		*wrong += (double)bench_call_wrong(&point->calls[i], &point->pattern, b->rank,
						   b->size, shift_of(point, i));
	return b->combine(b, wrong, 1, BENCH_SUM);
}

static struct bench_call first_call(const struct sweep *sweep, enum bench_kind kind, size_t bytes,
				    bool inplace)
{
	const struct bench_options *o = sweep->options;
	const struct bench_case *c = bench_case(kind);

	return (struct bench_call){
		.kind = kind,
		.count = bench_case_count(kind, bytes, bench_type_size(o->dtype),
					  sweep->backend->size),
		.dtype = o->dtype,
		.op = c->reduces ? o->op : BENCH_NO_OP,
		.root = c->rooted ? o->root : -1,
		.inplace = inplace,
	};
}

static void place_calls(struct point *point, const struct bench_call *first)
{
	for (unsigned i = 0; i < point->batch; i++) {
		struct bench_call *call = &point->calls[i];

		*call = *first;
		call->index = i;
		call->last = i + 1 == point->batch;
		bench_buffers_place(&point->sweep->buffers, call, point->sweep->backend->rank,
				    point->bytes);
	}
}

static void fill_result(const struct point *point, struct bench_result *r)
{
	struct bench_backend *b = point->sweep->backend;
	const struct bench_call *call = &point->calls[0];

	if (call->kind == BENCH_LATENCY) { /* one way of the two that a call takes */
		r->stats.min /= 2;
		r->stats.median /= 2;
		r->stats.p99 /= 2;
		r->stats.mean /= 2;
	}
	r->done = true;
	r->library = b->library;
	r->transport = point->transport;
	r->algorithm = point->algorithm;
	r->kind = call->kind;
	r->ranks = b->size;
	r->bytes = point->bytes;
	r->count = call->count;
	r->dtype = call->dtype;
	r->op = call->op;
	r->root = call->root;
	r->inplace = call->inplace;
	r->algbw = (double)point->bytes / (r->stats.median * 1e3);
	r->busbw = r->algbw * bench_bus_factor(call->kind, b->size);
}

static int measure(struct sweep *sweep, const struct bench_call *call, size_t bytes,
		   struct bench_result *result)
{
	struct bench_backend *b = sweep->backend;
	const struct bench_options *o = sweep->options;
	const struct bench_budget budget = { o->iters, o->warmup, o->seconds };
	struct point point = { .sweep = sweep,
			       .bytes = bytes,
			       .batch = batch_of(call->kind, bytes) };
	const struct bench_work work = { &point, b, point.batch, prepare, run, finish };
	int rc = -1;

	if (!bench_pattern_init(&point.pattern, o->dtype, call->op, b->size,
				bench_contributors(call->kind, b->rank, b->size))) {
		fprintf(stderr, "rank %d: no memory for a pattern\n", b->rank);
		return -1;
	}
	place_calls(&point, call);
	if (bench_time(&work, &budget, &result->stats) < 0)
		goto fini_pattern;
	result->wrong = -1;
	if (o->check && !bench_case(call->kind)->empty) {
		if (verify(&point, &result->wrong) < 0)
			goto fini_pattern;
		sweep->wrong += result->wrong;
	}
	fill_result(&point, result);
	rc = 0;
fini_pattern:
	bench_pattern_fini(&point.pattern);
	return rc;
}

/* Out of place, then in place. Nothing is shown of what the library cannot do. */
static int measure_size(struct sweep *sweep, enum bench_kind kind, size_t bytes)
{
	const struct bench_options *o = sweep->options;
	const bool once = bench_case(kind)->empty || bench_case(kind)->pair;
	const bool wanted[2] = { o->outplace || once, o->inplace && !once };
	struct bench_result row[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		const struct bench_call call = first_call(sweep, kind, bytes, i == 1);

		if (!wanted[i] || !sweep->backend->supports(sweep->backend, &call))
			continue;
		if (measure(sweep, &call, bytes, &row[i]) < 0)
			return -1;
	}
	if (sweep->report && (row[0].done || row[1].done))
		return bench_report_row(sweep->report, row);
	return 0;
}

/* The bytes to measure for a size of the command line: whole elements on every rank. */
static size_t rounded(const struct sweep *sweep, enum bench_kind kind, size_t bytes)
{
	const size_t element = bench_type_size(sweep->options->dtype);
	const int ranks = sweep->backend->size;

	return bench_case_bytes(kind, bench_case_count(kind, bytes, element, ranks), element,
				ranks);
}

static int measure_kind(struct sweep *sweep, enum bench_kind kind)
{
	const struct bench_options *o = sweep->options;
	size_t last = SIZE_MAX;

	if (sweep->report)
		bench_report_title(sweep->report, kind);
	for (size_t wanted = o->begin; wanted <= o->end; wanted *= (size_t)o->factor) {
		const size_t bytes = rounded(sweep, kind, wanted);

		if (bytes != last && measure_size(sweep, kind, bytes) < 0)
			return -1;
		last = bytes;
	}
	return 0;
}

static bool included(const struct bench_options *o, enum bench_kind kind)
{
	if (o->kind != BENCH_KIND_COUNT)
		return o->kind == kind;
	return !bench_case(kind)->pair && !(bench_case(kind)->prefix && o->op == TUTTI_AVG);
}

/* What the largest measurement needs. */
static size_t region_bytes(const struct sweep *sweep)
{
	const struct bench_options *o = sweep->options;
	size_t most = 1;

	for (int kind = 0; kind < BENCH_KIND_COUNT; kind++) {
		if (!included(o, kind))
			continue;
		for (size_t wanted = o->begin; wanted <= o->end; wanted *= (size_t)o->factor) {
			const size_t bytes = rounded(sweep, kind, wanted);
			const size_t need = bench_set_stride(bytes) * batch_of(kind, bytes);

			most = need > most ? need : most;
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

static int measure_all(struct sweep *sweep)
{
	for (int kind = 0; kind < BENCH_KIND_COUNT; kind++) {
		if (included(sweep->options, kind) && measure_kind(sweep, kind) < 0)
			return -1;
	}
	return 0;
}

int bench_sweep(struct bench_backend *backend, const struct bench_options *options)
{
	struct sweep sweep = { .backend = backend, .options = options };
	const bool first = backend->rank == 0;
	int rc = -1;

	if (first)
		sweep.report = bench_report_open(options, backend->library, backend->size);
	if (anyone(backend, first && !sweep.report) != 0)
		goto close_report;
	if (anyone(backend, !bench_buffers_init(&sweep.buffers, backend, region_bytes(&sweep),
						options->mappable)) != 0)
		goto fini_buffers;
	rc = measure_all(&sweep);
	if (first && sweep.wrong > 0)
		fprintf(stderr, "%.0f elements were wrong\n", sweep.wrong);
fini_buffers:
	bench_buffers_fini(&sweep.buffers, backend);
close_report:
	if (bench_report_close(sweep.report) < 0)
		rc = -1;
	return rc < 0 ? -1 : sweep.wrong > 0;
}
