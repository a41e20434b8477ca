/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the measurement of one point consists of. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "callers.h"
#include "point.h"
#include "transports.h"

/* Up to here a call is so short that the clock and the barrier's exit would weigh in: calls are
 * timed in batches. */
#define BATCHED_BYTES 4096
#define BATCH	      32
/* Where bytes go one way, ranks run ahead of each other, and the time of a few calls would be that
 * until the root has left the barrier, too: so many bytes in a batch, or so many calls if they are
 * shorter than this, lest it takes long. Of threads each makes as many, as they must wake first. */
#define AHEAD_BYTES  ((size_t)256 << 10)
#define AHEAD	     256
#define AHEAD_S	     40e-6
#define WINDOW_BYTES ((size_t)32 << 20)
/* On a device calls wait for each other alone, so there are more in a sample, of as much memory
 * as GPUs can spare. */
#define CHAIN_BYTES  ((size_t)256 << 20)
#define COPY_SAMPLES 7
#define COPY_WARMUP  2

static unsigned chain(const struct bench_options *options, size_t bytes)
{
	const unsigned wanted = options->chain ? (unsigned)options->chain : BATCH;
	const size_t fit = bytes > 0 ? CHAIN_BYTES / bench_set_stride(bytes) : wanted;

	return fit >= wanted ? wanted : fit > 2 ? (unsigned)fit : 2;
}

unsigned bench_point_batch(const struct bench_backend *backend, const struct bench_options *options,
			   enum bench_kind kind, size_t bytes)
{
	const unsigned callers = (unsigned)options->callers;

	if (kind == BENCH_BANDWIDTH || kind == BENCH_PUT_BANDWIDTH) {
		const size_t fit = WINDOW_BYTES / bytes;

		return fit >= BENCH_WINDOW ? BENCH_WINDOW : fit > 2 ? (unsigned)fit : 2;
	}
	if (backend->device)
		return chain(options, bytes);
	if (!bench_case_is_one_way(kind) && callers == 1)
		return bytes <= BATCHED_BYTES ? BATCH : 1;
	const size_t fit = bytes > 0 ? AHEAD_BYTES / bytes : AHEAD;
	return callers * (fit > AHEAD ? AHEAD : fit > 1 ? (unsigned)fit : 1);
}

bool bench_point_call(struct bench_backend *backend, const struct bench_options *o,
		      enum bench_kind kind, size_t bytes, bool inplace, struct bench_call *call)
{
	const struct bench_case *c = bench_case(kind);
	const bool once = c->empty || c->pair;

	*call = (struct bench_call){
		.kind = kind,
		.count = bench_case_count(kind, bytes, bench_type_size(o->dtype), backend->size),
		.dtype = o->dtype,
		.op = c->reduces ? o->op : BENCH_NO_OP,
		.root = c->rooted ? o->root : -1,
		.inplace = inplace,
	};
	if (inplace ? !o->inplace || once : !o->outplace && !once)
		return false;
	if (o->mpi_place && !once && inplace != (kind == BENCH_BROADCAST))
		return false;
	return backend->supports(backend, call);
}

/* ---- memory of a device: none of this while the clock runs
 *
 * The device writes inputs and checks results itself. Where it has nothing to do that with, inputs
 * are copies of a place of the tape, on which the sequence of inputs is repeated, and results are
 * copied back and checked here. */

/* Before the point's first call. */
static int write_device(const struct bench_point *point)
{
	struct bench_backend *b = point->backend;
	const struct bench_call *call = &point->calls[0];
	const size_t count = bench_call_sent(call, b->size) + BENCH_PERIOD;

	if (!b->device->without)
		return b->device->learn(b, &point->pattern);
	bench_pattern_fill(&point->pattern, 0, 0, point->buffers->host, count);
	if (b->device->copy(b, point->buffers->tape, point->buffers->host,
			    count * bench_type_size(call->dtype)) < 0)
		return -1;
	return b->device->finish(b);
}

/* Fill the call's input as in repetition `shift`, on the stream. */
static int fill_device(const struct bench_point *point, const struct bench_call *c, uint64_t shift)
{
	struct bench_backend *b = point->backend;
	const size_t size = bench_type_size(c->dtype), count = bench_call_sent(c, b->size);
	const uint64_t place = bench_place(0, b->rank, shift);

	if (!b->device->without)
		return b->device->fill(b, (void *)c->send, place, count);
	return b->device->copy(b, (void *)c->send, point->buffers->tape + place * size,
			       count * size);
}

/* What is wrong with the call's result; `found` says nothing yet. */
static int check_device(const struct bench_point *point, unsigned call, uint64_t shift,
			struct bench_found *found)
{
	struct bench_backend *b = point->backend;
	struct bench_call seen = point->calls[call];

	if (!b->device->without)
		return b->device->check(b, &seen, shift, found);
	if (b->device->copy(b, point->buffers->host, seen.recv,
			    bench_call_received(&seen, b->size) * bench_type_size(seen.dtype)) <
		    0 ||
	    b->device->finish(b) < 0)
		return -1;
	seen.recv = point->buffers->host;
	bench_call_check(&seen, &point->pattern, b, shift, found);
	return 0;
}

static int time_copies(const struct bench_point *point, double *seconds)
{
	struct bench_backend *b = point->backend;
	double taken[COPY_SAMPLES];

	for (int i = -COPY_WARMUP; i < COPY_SAMPLES; i++)
		if (b->device->time_copies(b, point->buffers->out, point->buffers->in, point->bytes,
					   bench_set_stride(point->bytes), point->batch,
					   &taken[i < 0 ? 0 : i]) < 0)
			return -1;
	*seconds = bench_summarise(taken, COPY_SAMPLES).median * 1e-6 / point->batch;
	return 0;
}

/* Bytes per second, those read and those written, that one rank's copies of the point's size move
 * while the others do nothing. Collective. */
static int copy_rate_of(const struct bench_point *point, double *rate)
{
	struct bench_backend *b = point->backend;
	double seconds = 0;

	*rate = 0;
	if (point->bytes == 0)
		return 0;
	if (b->barrier(b) < 0 || (b->rank == 0 && time_copies(point, &seconds) < 0) ||
	    b->combine(b, &seconds, 1, BENCH_MAX) < 0)
		return -1;
	*rate = seconds > 0 ? 2 * (double)point->bytes / seconds : 0;
	return 0;
}

/* ---- a sample */

static uint64_t shift_of(const struct bench_point *point, unsigned call)
{
	return point->sample * point->batch + call;
}

static int prepare(void *context, uint64_t sample)
{
	struct bench_point *point = context;
	struct bench_backend *b = point->backend;

	point->sample = point->first + sample;
	for (unsigned i = 0; i < point->batch; i++) {
		const struct bench_call *call = &point->calls[i];

		if (!b->device)
			bench_call_fill(call, &point->pattern, b, shift_of(point, i));
		else if (fill_device(point, call, shift_of(point, i)) < 0)
			return -1;
	}
	return b->device ? b->device->finish(b) : 0;
}

static int run_chain(void *context, double *seconds)
{
	struct bench_point *point = context;
	struct bench_backend *b = point->backend;
	struct bench_chain took;

	if (b->device->chain(b, point->calls, point->batch, &took) < 0)
		return -1;
	point->enqueued[point->nenqueued++ % BENCH_KEPT] = took.enqueue;
	*seconds = took.seconds;
	return 0;
}

static int run_side_by_side(void *context, double *seconds)
{
	struct bench_point *point = context;

	return bench_callers_run(point->callers, seconds);
}

static int run(void *context, unsigned call)
{
	struct bench_point *point = context;

	return point->backend->run(point->backend, &point->calls[call]);
}

static void finish(void *context)
{
	struct bench_point *point = context;

	point->backend->describe(point->backend, &point->calls[0], &point->transport,
				 &point->algorithm);
}

/* ---- a visit */

static int check_call(const struct bench_point *point, unsigned call, struct bench_found *found)
{
	const struct bench_backend *b = point->backend;

	*found = (struct bench_found)BENCH_NOTHING_FOUND;
	if (b->device)
		return check_device(point, call, shift_of(point, call), found);
	bench_call_check(&point->calls[call], &point->pattern, b, shift_of(point, call), found);
	return 0;
}

static void say_wrong(const struct bench_point *point, unsigned call,
		      const struct bench_found *found)
{
	const struct bench_backend *b = point->backend;
	const struct bench_call *c = &point->calls[call];

	fprintf(stderr,
		"rank %d: %s of %zu bytes%s, call %u of %u: %llu of %zu elements are wrong, the first is number %llu\n",
		b->rank, bench_case(c->kind)->name, point->bytes, c->inplace ? " in place" : "",
		call + 1, point->batch, found->wrong, bench_call_received(c, b->size),
		found->first);
}

/* Each rank tells where it found the first of it. */
static int verify(struct bench_point *point, double *wrong)
{
	struct bench_backend *b = point->backend;
	struct bench_found found;

	*wrong = point->error = 0;
	for (unsigned i = 0; i < point->batch; i++) {
		if (check_call(point, i, &found) < 0)
			return -1;
		if (found.wrong > 0 && *wrong == 0)
			say_wrong(point, i, &found);
		*wrong += (double)found.wrong;
		point->error = fmax(point->error, found.error);
	}
	if (b->combine(b, &point->error, 1, BENCH_MAX) < 0)
		return -1;
	return b->combine(b, wrong, 1, BENCH_SUM);
}

static void place_calls(struct bench_point *point, const struct bench_call *first)
{
	const unsigned of_each = point->batch / (unsigned)point->options->callers;

	for (unsigned i = 0; i < point->batch; i++) {
		struct bench_call *call = &point->calls[i];

		*call = *first;
		call->index = i;
		call->last = i + 1 == point->batch;
		call->caller = (int)(i / of_each);
		bench_buffers_place(point->buffers, call, point->backend->rank, point->bytes);
	}
}

/* Chains may be recorded before any of them runs, so nothing is in the way of the first. */
static int begin_on_device(struct bench_point *point)
{
	struct bench_backend *b = point->backend;

	if (write_device(point) < 0 || copy_rate_of(point, &point->copy_rate) < 0)
		return -1;
	return b->device->begin(b, point->calls, point->batch);
}

static struct bench_work work_of(struct bench_point *point)
{
	return (struct bench_work){ .context = point,
				    .backend = point->backend,
				    .batch = point->batch,
				    .processor = point->processor,
				    .prepare = prepare,
				    .run = run,
				    .finish = finish,
				    .chain = point->backend->device ? run_chain
					     : point->callers	    ? run_side_by_side
								    : NULL };
}

/* Many one-way calls in a batch only where they are short: the first of those that were placed will
 * do, as such calls do not look at which is the last. All ranks see the same durations. */
static int settle_batch(struct bench_point *point)
{
	const struct bench_budget budget = { .iters = 2 * BATCH, .warmup = BATCH };
	const unsigned most = point->batch;
	struct bench_samples samples = { 0 };

	if (point->backend->device || most <= BATCH || !bench_case_is_one_way(point->calls->kind))
		return 0;
	point->batch = BATCH;
	const struct bench_work work = work_of(point);
	const int rc = bench_time(&work, &budget, &samples);
	if (!rc && bench_summarise(samples.seconds, samples.count).min < AHEAD_S * 1e6)
		point->batch = most;
	bench_samples_free(&samples);
	return rc;
}

static bool start_callers(struct bench_point *point)
{
	const int count = point->options->callers;

	if (count == 1)
		return true;
	point->work = work_of(point);
	point->callers = bench_callers_start(&point->work, (unsigned)count);
	return point->callers;
}

bool bench_point_init(struct bench_point *point, struct bench_backend *b,
		      const struct bench_options *options, const struct bench_buffers *buffers,
		      const struct bench_call *call, size_t bytes)
{
	*point = (struct bench_point){ .options = options,
				       .backend = b,
				       .bytes = bytes,
				       .buffers = buffers,
				       .batch = bench_point_batch(b, options, call->kind, bytes) };
	if (!bench_pattern_init(&point->pattern, options->dtype, call->op, b->size,
				bench_contributors(call->kind, b->rank, b->size), options->wire)) {
		fprintf(stderr, "rank %d: no memory for a pattern\n", b->rank);
		return false;
	}
	point->calls = calloc(point->batch, sizeof(*point->calls));
	if (!point->calls) {
		fprintf(stderr, "rank %d: no memory for %u calls\n", b->rank, point->batch);
		bench_point_fini(point);
		return false;
	}
	place_calls(point, call);
	if ((b->device && begin_on_device(point) < 0) || settle_batch(point) < 0 ||
	    !start_callers(point)) {
		bench_point_fini(point);
		return false;
	}
	return true;
}

void bench_point_fini(struct bench_point *point)
{
	bench_callers_end(point->callers);
	if (point->backend->device)
		point->backend->device->end(point->backend);
	bench_pattern_fini(&point->pattern);
	free(point->calls);
}

static struct bench_stats stats_of(const struct bench_point *point, struct bench_samples *samples)
{
	struct bench_stats stats = bench_summarise(samples->seconds, samples->count);

	stats.iters *= (long)point->batch;
	if (point->calls[0].kind == BENCH_LATENCY || point->calls[0].kind == BENCH_PUT_SIGNAL) {
		/* one way of the two that a call takes */
		stats.min /= 2;
		stats.median /= 2;
		stats.p99 /= 2;
		stats.mean /= 2;
	}
	return stats;
}

/* The median of the last samples, on the slowest rank. */
static int collect_enqueued(struct bench_point *point, double *seconds)
{
	struct bench_backend *b = point->backend;
	const unsigned count = point->nenqueued < BENCH_KEPT ? point->nenqueued : BENCH_KEPT;

	*seconds = bench_summarise(point->enqueued, count).median * 1e-6 / point->batch;
	return b->combine(b, seconds, 1, BENCH_MAX);
}

static void fill_device_result(const struct bench_point *point, struct bench_result *r)
{
	const struct bench_backend *b = point->backend;

	r->batch = point->batch;
	r->copy = point->copy_rate * 1e-9;
	r->least = b->device->shared ? bench_least_factor(r->call.kind, b->size, r->call.inplace) *
					       (double)point->bytes
				     : 0;
	r->of_copy = r->copy > 0 ? r->least / (r->stats.median * 1e3) / r->copy : 0;
}

static void fill_result(const struct bench_point *point, struct bench_samples *samples,
			struct bench_result *r)
{
	const struct bench_backend *b = point->backend;
	const struct bench_call *call = &point->calls[0];

	r->stats = stats_of(point, samples);
	r->library = b->library;
	r->version = b->version;
	r->transport = point->transport;
	r->algorithm = point->algorithm;
	r->call = *call;
	r->callers = point->options->callers;
	r->ranks = b->size;
	r->bytes = point->bytes;
	r->wire = b->wire;
	r->error = point->error;
	r->algbw = (double)point->bytes / (r->stats.median * 1e3);
	r->busbw = r->algbw * bench_bus_factor(call->kind, b->size);
	r->device = b->device;
	if (b->device)
		fill_device_result(point, r);
}

static int visit(struct bench_point *point, const struct bench_budget *budget,
		 struct bench_samples *samples, struct bench_result *result)
{
	struct bench_backend *backend = point->backend;
	const struct bench_case *const made = bench_case(point->calls[0].kind);
	/* the sums of fetch_add are looked at as they come: a wrong one ends the communicator */
	const bool verified = point->options->check && (!made->empty || made->sums);
	const struct bench_work work = work_of(point);
	double wrong = 0, enqueued = 0;

	point->nenqueued = 0;
	if (bench_time(&work, budget, samples) < 0)
		return -1;
	point->first = point->sample + 1;
	if (bench_join_transports(backend, &point->transport) < 0)
		return -1;
	if (verified && verify(point, &wrong) < 0)
		return -1;
	if (backend->device && collect_enqueued(point, &enqueued) < 0)
		return -1;
	result->wrong = verified ? result->wrong + wrong : -1;
	result->enqueue = enqueued * 1e6 / (point->calls[0].kind == BENCH_LATENCY ? 2 : 1);
	fill_result(point, samples, result);
	return 0;
}

int bench_point_visit(struct bench_point *point, struct bench_backend *backend,
		      const struct bench_budget *budget, struct bench_samples *samples,
		      struct bench_result *result)
{
	struct bench_backend *before = point->backend;
	int rc;

	point->backend = backend;
	rc = visit(point, budget, samples, result);
	point->backend = before; /* the visitor may be gone before the point is */
	return rc;
}
