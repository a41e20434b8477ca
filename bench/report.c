/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a table's line and a JSON object show, and the results kept for the picture. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend.h"
#include "lines.h"
#include "output.h"
#include "outputs.h"
#include "pattern.h"
#include "picture.h"
#include "plot.h"
#include "report.h"
#include "wire.h"

struct bench_report {
	const struct bench_options *options;
	const struct bench_backend *backend;
	struct bench_outputs outputs;
	struct bench_result *kept; /* for the picture */
	size_t nkept, capacity;
};

struct bench_report *bench_report_open(const struct bench_options *options,
				       const struct bench_backend *backend)
{
	struct bench_report *report = calloc(1, sizeof(*report));

	if (!report) {
		bench_complain("no memory for a report");
		return NULL;
	}
	*report = (struct bench_report){ .options = options, .backend = backend };
	if (!bench_outputs_open(&report->outputs, options)) {
		free(report);
		return NULL;
	}
	return report;
}

const struct bench_outputs *bench_report_outputs(const struct bench_report *report)
{
	return &report->outputs;
}

static void append_memory(const struct bench_report *report, char *out, size_t size)
{
	const struct bench_device *device = report->backend->device;

	if (!device)
		bench_append(out, size, ", memory of %s",
			     report->options->mappable ? "tutti_mem_alloc" : "malloc");
	else
		bench_append(out, size, ", memory of %s%s%s%s%s",
			     device->shared && report->backend->size > 1 ? "one " : "",
			     device->name, device->windows ? ", in windows" : "",
			     device->graph ? ", by graphs" : "",
			     device->threads ? ", ranks are threads" : "");
}

static void append_verified(const struct bench_report *report, char *out, size_t size)
{
	const struct bench_device *device = report->backend->device;

	if (!report->options->check)
		bench_append(out, size, ", results not verified");
	else if (!device)
		bench_append(out, size, ", results verified");
	else if (!device->without)
		bench_append(out, size, ", results verified on the GPU");
	else
		bench_append(out, size, ", results verified on the host: %s", device->without);
}

/* Does the table tell what travels? */
static bool has_wire(const struct bench_report *report, enum bench_kind kind)
{
	const struct bench_options *o = report->options;

	return kind == BENCH_ALL_REDUCE && o->dtype == TUTTI_FLOAT32 &&
	       (o->op == TUTTI_SUM || o->op == TUTTI_AVG) && bench_wire_narrows(o->wire);
}

void bench_report_subject(const struct bench_report *report, enum bench_kind kind,
			  const char *model)
{
	const struct bench_options *o = report->options;
	const struct bench_case *c = bench_case(kind);
	char out[1536];
	const size_t size = sizeof(out);

	snprintf(out, size, "%s %s", report->backend->library, c->name);
	if (!c->empty)
		bench_append(out, size, " of %s", bench_type_name(o->dtype));
	if (c->reduces)
		bench_append(out, size, ", %s", bench_op_name(o->op));
	if (c->rooted)
		bench_append(out, size, ", root %d", o->root);
	if (has_wire(report, kind))
		bench_append(out, size, " as %s%s", bench_wire_name(o->wire),
			     o->wire & TUTTI_WIRE_IF_FASTER ? " where that is faster" : "");
	bench_append(out, size, ", %d ranks", report->backend->size);
	if (o->callers > 1)
		bench_append(out, size, " of %d threads", o->callers);
	if (!c->empty) {
		append_memory(report, out, size);
		append_verified(report, out, size);
	}
	if (model)
		bench_append(out, size, ", cost model: %s", model);
	bench_remark("%s", out);
}

/* Does the table tell places apart? */
static bool has_places(enum bench_kind kind)
{
	return !bench_case(kind)->empty && !bench_case(kind)->pair;
}

static void print_heading(enum bench_kind kind, bool device, bool narrow)
{
	const bool empty = bench_case(kind)->empty;

	printf("#%s", empty ? "" : "   size (B)");
	if (has_places(kind))
		printf(" %5s", "place");
	printf(" %8s %8s", "median", "p99");
	if (!device)
		printf(" %8s", "min");
	if (!empty)
		printf(" %7s %7s %5s", "algbw", "busbw", "wrong");
	if (narrow)
		printf(" %10s %8s", "wire (B)", "error");
	if (device && !empty)
		printf(" %7s", "of_copy");
	if (device)
		printf(" %8s", "enqueue");
	printf("  %s\n", bench_case(kind)->pair ? "transport" : "transport/algorithm");
}

void bench_report_title(struct bench_report *report, enum bench_kind kind)
{
	if (!report->outputs.table)
		return;
	bench_report_subject(report, kind, NULL);
	bench_remark("times in µs per call%s",
		     bench_case(kind)->empty ? "" : ", bandwidths in 10^9 bytes/s");
	print_heading(kind, report->backend->device, has_wire(report, kind));
}

/* What only calls with data have. */
static void print_bandwidths(const struct bench_result *r)
{
	bench_figure(7, 3, r->algbw);
	bench_figure(7, 3, r->busbw);
	bench_figure(5, 0, r->wrong);
	if (r->device)
		bench_figure(7, 3, r->of_copy > 0 ? r->of_copy : -1);
}

/* What the vector has as it travels, and the error that this costs. */
static void print_narrow(const struct bench_result *r)
{
	printf(" %10zu", bench_wire_bytes(r->wire, r->call.count));
	if (r->wrong < 0)
		printf(" %8s", "-");
	else
		printf(" %8.1e", r->error);
}

static void print_result(const struct bench_result *r, bool narrow)
{
	const bool empty = bench_case(r->call.kind)->empty;

	if (empty)
		putchar(' ');
	else
		printf("%12zu", r->bytes);
	if (has_places(r->call.kind))
		printf(" %5s", r->call.inplace ? "in" : "out");
	bench_figure(8, 2, r->stats.median);
	bench_figure(8, 2, r->stats.p99);
	if (!r->device)
		bench_figure(8, 2, r->stats.min);
	if (!empty)
		print_bandwidths(r);
	if (narrow)
		print_narrow(r);
	if (r->device)
		bench_figure(8, 2, r->enqueue);
	if (bench_case(r->call.kind)->pair)
		printf("  %s\n", r->transport);
	else
		printf("  %s/%s\n", r->transport, r->algorithm);
	output_flush(stdout);
}

static json_t *real_or_null(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

static json_t *device_json(const struct bench_result *r)
{
	const struct bench_device *d = r->device;

	return json_pack("{ss sb sb sb sb ss si sf so so so}", "gpu", d->name, "shared", d->shared,
			 "windows", d->windows, "graph", d->graph, "threads", d->threads, "checks",
			 d->without ? "host" : "gpu", "calls", (int)r->batch, "enqueue_us",
			 r->enqueue, "copy_gbs", real_or_null(r->copy), "least_bytes",
			 r->least > 0 ? json_integer((json_int_t)r->least) : json_null(), "of_copy",
			 real_or_null(r->of_copy));
}

static json_t *wire_json(const struct bench_result *r)
{
	return json_pack("{ss sI sf}", "format", bench_wire_name(r->wire), "bytes",
			 (json_int_t)bench_wire_bytes(r->wire, r->call.count), "error", r->error);
}

json_t *bench_stats_json(const struct bench_stats *stats)
{
	return json_pack("{sf sf sf sf}", "min", stats->min, "median", stats->median, "p99",
			 stats->p99, "mean", stats->mean);
}

json_t *bench_json_origin(json_t *object, const char *version)
{
	json_t *origin = json_pack("{ss? ss ss}", "version", version, "machine", picture_machine(),
				   "date", picture_date());
	const bool added = json_object_update(object, origin) == 0;

	json_decref(origin);
	if (added)
		return object;
	json_decref(object);
	return NULL;
}

json_t *bench_result_json(const struct bench_result *r)
{
	json_t *wrong = r->wrong < 0 ? json_null() : json_integer((json_int_t)r->wrong);
	json_t *object = json_pack(
		"{ss ss ss ss si sI sI ss ss si sb sI so sf sf so}", "library", r->library,
		"collective", bench_case(r->call.kind)->name, "transport", r->transport,
		"algorithm", r->algorithm, "ranks", r->ranks, "bytes", (json_int_t)r->bytes,
		"count", (json_int_t)r->call.count, "dtype", bench_type_name(r->call.dtype), "op",
		bench_op_name(r->call.op), "root", r->call.root, "inplace", r->call.inplace,
		"iters", (json_int_t)r->stats.iters, "time_us", bench_stats_json(&r->stats),
		"algbw_gbs", r->algbw, "busbw_gbs", r->busbw, "wrong", wrong);

	if ((bench_wire_narrows(r->wire) &&
	     json_object_set_new(object, "wire", wire_json(r)) < 0) ||
	    (r->callers > 1 &&
	     json_object_set_new(object, "callers", json_integer(r->callers)) < 0) ||
	    (r->device && json_object_set_new(object, "cuda", device_json(r)) < 0)) {
		json_decref(object);
		return NULL;
	}
	return bench_json_origin(object, r->version);
}

static int keep(struct bench_report *report, const struct bench_result *result)
{
	if (report->nkept == report->capacity) {
		const size_t capacity = report->capacity ? 2 * report->capacity : 64;
		struct bench_result *grown = realloc(report->kept, capacity * sizeof(*grown));

		if (!grown) {
			bench_complain("--plot: no memory for %zu points", capacity);
			return -1;
		}
		report->kept = grown;
		report->capacity = capacity;
	}
	report->kept[report->nkept++] = *result;
	return 0;
}

int bench_report_row(struct bench_report *report, const struct bench_result *result)
{
	if (report->outputs.table)
		print_result(result, has_wire(report, result->call.kind));
	if (bench_outputs_json(&report->outputs, bench_result_json(result)) < 0)
		return -1;
	return report->options->plot ? keep(report, result) : 0;
}

int bench_report_close(struct bench_report *report)
{
	int rc = 0;

	if (!report)
		return 0;
	if (report->options->plot)
		rc = bench_plot(report->options->plot, report->kept, report->nkept);
	if (bench_outputs_close(&report->outputs) < 0)
		rc = -1;
	free(report->kept);
	free(report);
	return rc;
}
