/* SPDX-License-Identifier: BSD-3-Clause */
/* What is shown of a measurement: a line of the table, a JSON object, points of a picture. Rank 0
 * alone has a report; the others pass NULL. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "options.h"
#include "timing.h"

struct bench_result {
	const char *library, *version, *transport, *algorithm; /* transport: of all ranks */
	struct bench_call call; /* root -1 where the collective has none */
	int callers;		/* threads of each rank that made them */
	int ranks;
	size_t bytes;
	struct bench_stats stats;
	double algbw, busbw; /* 10^9 bytes per second */
	double wrong;	     /* elements on all ranks; negative: not verified */
	tutti_wire_t wire;   /* what float32 travelled as in an all-reduce … */
	double error;	     /* … narrow: see struct bench_found; the largest on all ranks */
	/* where memory is that of a device; else NULL and 0 */
	const struct bench_device *device;
	unsigned batch; /* calls of a sample */
	double enqueue; /* µs per call that the host takes to put it on the stream */
	double copy;	/* 10^9 bytes per second that copies read and write, together */
	double least;	/* bytes that the memory of all ranks has to deliver and to take; 0: not
			 * all share one */
	double of_copy; /* least, as share of what copies move in the same time */
};

struct bench_report;
struct bench_outputs;
struct bench_device;

/* Of measurements of `backend`, which outlives it. Opens the files that the options name. NULL: said
 * why on standard error. */
struct bench_report *bench_report_open(const struct bench_options *options,
				       const struct bench_backend *backend);
/* Where results go beside the picture. */
const struct bench_outputs *bench_report_outputs(const struct bench_report *report);
/* Print what is measured, and how: "tutti all_reduce of float32, sum, 2 ranks, memory of malloc, …",
 * and by which cost model algorithms are chosen, if `model` is not NULL. */
void bench_report_subject(const struct bench_report *report, enum bench_kind kind,
			  const char *model);
void bench_report_title(struct bench_report *report, enum bench_kind kind);
int bench_report_row(struct bench_report *report, const struct bench_result *result);
/* Draws the picture, closes the files. -1: something could not be written, and was said. NULL is
 * fine. */
int bench_report_close(struct bench_report *report);

/* An object with its microseconds; NULL: no memory. */
struct json_t *bench_stats_json(const struct bench_stats *stats);
/* Add version (NULL: not known), machine and date to `object`, which is given back; NULL, also for
 * NULL: no memory. */
struct json_t *bench_json_origin(struct json_t *object, const char *version);
/* An object with one line's keys; json_decref() it. NULL: no memory. */
struct json_t *bench_result_json(const struct bench_result *result);

#endif
