/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a table's line and a JSON object show, and the results kept for the picture. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend.h"
#include "outputs.h"
#include "pattern.h"
#include "plot.h"
#include "report.h"

struct bench_report {
	const struct bench_options *options;
	const char *library;
	int ranks;
	const struct bench_device *device;
	struct bench_outputs outputs;
	struct bench_result *kept; /* for the picture */
	size_t nkept, room;
};

struct bench_report *bench_report_open(const struct bench_options *options, const char *library,
				       int ranks)
{
	struct bench_report *report = calloc(1, sizeof(*report));

	if (!report) {
		fprintf(stderr, "no memory for a report\n");
		return NULL;
	}
	*report = (struct bench_report){
		.options = options, .library = library, .ranks = ranks
	};
	if (!bench_outputs_open(&report->outputs, options)) {
		free(report);
		return NULL;
	}
	return report;
}

void bench_report_device(struct bench_report *report, const struct bench_device *device)
{
	report->device = device;
}

const struct bench_outputs *bench_report_outputs(const struct bench_report *report)
{
	return &report->outputs;
}

static void print_memory(const struct bench_report *report)
{
	const struct bench_device *device = report->device;

	if (!device) {
		printf("memory %s", report->options->mappable ? "of tutti_mem_alloc" : "of malloc");
		return;
	}
	printf("memory of %s%s", device->shared && report->ranks > 1 ? "one " : "", device->name);
	printf("%s%s", device->windows ? ", in windows" : "", device->graph ? ", by graphs" : "");
}

static void print_verified(const struct bench_report *report)
{
	const struct bench_device *device = report->device;

	if (!report->options->check)
		printf(", results not verified\n");
	else if (!device)
		printf(", results verified\n");
	else if (!device->without)
		printf(", results verified on the GPU\n");
	else
		printf(", results verified on the host: %s\n", device->without);
}

static void print_heading(bool device)
{
	const int extra = device ? 17 : 0;

	printf("#%*s%*s\n", 76 + extra / 2, "out of place", 55 + extra, "in place");
	printf("#%11s %11s %11s %5s %4s", "size (B)", "count", "type", "op", "root");
	for (int i = 0; i < 2; i++) {
		printf(" %10s %10s %10s %7s %7s %6s", "median", "p99", "min", "algbw", "busbw", "wrong");
		if (device)
			printf(" %7s %8s", "of_copy", "enqueue");
	}
	printf("  %s\n", "transport/algorithm");
}

void bench_report_title(struct bench_report *report, enum bench_kind kind)
{
	if (!report->outputs.table)
		return;
	printf("# %s %s, %d ranks, ", report->library, bench_case(kind)->name, report->ranks);
	print_memory(report);
	print_verified(report);
	printf("# times in µs per call, bandwidths in 10^9 bytes/s\n");
	print_heading(report->device);
}

static void print_device_half(const struct bench_result *r)
{
	if (r->done && r->of_copy > 0)
		printf(" %7.3f", r->of_copy);
	else
		printf(" %7s", "-");
	if (r->done)
		printf(" %8.2f", r->enqueue);
	else
		printf(" %8s", "-");
}

static void print_half(const struct bench_result *r)
{
	if (!r->done) {
		printf(" %10s %10s %10s %7s %7s %6s", "-", "-", "-", "-", "-", "-");
		return;
	}
	printf(" %10.2f %10.2f %10.2f %7.3f %7.3f", r->stats.median, r->stats.p99, r->stats.min,
	       r->algbw, r->busbw);
	if (r->wrong < 0)
		printf(" %6s", "-");
	else
		printf(" %6.0f", r->wrong);
}

static void print_row(const struct bench_result row[2])
{
	const struct bench_result *any = row[0].done ? &row[0] : &row[1];
	char root[16] = "-";

	if (any->root >= 0)
		snprintf(root, sizeof(root), "%d", any->root);
	printf("%12zu %11zu %11s %5s %4s", any->bytes, any->count, bench_type_name(any->dtype),
	       any->op == BENCH_NO_OP ? "-" : bench_op_name(any->op), root);
	for (int i = 0; i < 2; i++) {
		print_half(&row[i]);
		if (any->device)
			print_device_half(&row[i]);
	}
	printf("  %s/%s\n", any->transport, any->algorithm);
	fflush(stdout);
}

static json_t *real_or_null(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

static json_t *device_json(const struct bench_result *r)
{
	const struct bench_device *d = r->device;

	return json_pack("{ss sb sb sb ss si sf so so so}", "gpu", d->name, "shared", d->shared, "windows", d->windows, "graph", d->graph,
			 "checks", d->without ? "host" : "gpu", "calls", (int)r->batch, "enqueue_us", r->enqueue, "copy_gbs", real_or_null(r->copy), "least_bytes",
			 r->least > 0 ? json_integer((json_int_t)r->least) : json_null(), "of_copy", real_or_null(r->of_copy));
}

json_t *bench_result_json(const struct bench_result *r)
{
	json_t *wrong = r->wrong < 0 ? json_null() : json_integer((json_int_t)r->wrong);
	json_t *object = json_pack("{ss ss ss ss si sI sI ss ss si sb sI s{sf sf sf sf} sf sf so}", "library",
			 r->library, "collective", bench_case(r->kind)->name, "transport",
			 r->transport, "algorithm", r->algorithm, "ranks", r->ranks, "bytes",
			 (json_int_t)r->bytes, "count", (json_int_t)r->count, "dtype",
			 bench_type_name(r->dtype), "op", bench_op_name(r->op), "root", r->root,
			 "inplace", r->inplace, "iters", (json_int_t)r->stats.iters, "time_us",
			 "min", r->stats.min, "median", r->stats.median, "p99", r->stats.p99,
			 "mean", r->stats.mean, "algbw_gbs", r->algbw, "busbw_gbs", r->busbw,
			 "wrong", wrong);

	if (object && r->device && json_object_set_new(object, "cuda", device_json(r)) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int keep(struct bench_report *report, const struct bench_result *result)
{
	if (report->nkept == report->room) {
		const size_t room = report->room ? 2 * report->room : 64;
		struct bench_result *grown = realloc(report->kept, room * sizeof(*grown));

		if (!grown) {
			fprintf(stderr, "--plot: no memory for %zu points\n", room);
			return -1;
		}
		report->kept = grown;
		report->room = room;
	}
	report->kept[report->nkept++] = *result;
	return 0;
}

int bench_report_row(struct bench_report *report, const struct bench_result row[2])
{
	if (report->outputs.table)
		print_row(row);
	for (int i = 0; i < 2; i++) {
		if (!row[i].done)
			continue;
		if (bench_outputs_json(&report->outputs, bench_result_json(&row[i])) < 0)
			return -1;
		if (report->options->plot && keep(report, &row[i]) < 0)
			return -1;
	}
	return 0;
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
