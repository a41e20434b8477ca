/* SPDX-License-Identifier: BSD-3-Clause */
/* One point: a collective, a size, out of place or in place. Its inputs are filled, its calls timed
 * and its results verified by one backend, or by several in turn.
 *
 * Samples are numbered through whoever takes them, so that what one backend left in the buffers is
 * wrong for the next. */
#ifndef BENCH_POINT_H
#define BENCH_POINT_H

#include "buffers.h"
#include "report.h"
#include "timing.h"

#define BENCH_KEPT 64

struct bench_point {
	const struct bench_options *options;
	struct bench_backend *backend; /* of the present visit, else that of bench_point_init() */
	struct bench_pattern pattern;
	size_t bytes;
	unsigned batch;
	bool processor;	 /* samples are of the processor's time, not of the clock's */
	uint64_t first;	 /* sample of the present visit */
	uint64_t sample; /* the last that was prepared */
	const char *transport, *algorithm; /* that the present visit used */
	double error;			   /* of what travelled narrow in it, on any rank */
	struct bench_call *calls;	   /* `batch` of them */
	struct bench_work work;		   /* of the threads that make them side by side … */
	struct bench_callers *callers;	   /* … NULL: one after another */
	/* where memory is that of a device */
	const struct bench_buffers *buffers;
	double copy_rate;
	double enqueued[BENCH_KEPT]; /* seconds per sample, of the last ones */
	unsigned nenqueued;	     /* of all */
};

/* The most calls that a sample consists of. On a device as many as a chain of it has, if they fit. */
unsigned bench_point_batch(const struct bench_backend *backend, const struct bench_options *options,
			   enum bench_kind kind, size_t bytes);

/* The call to make. False: the options do not ask for that place, or the library cannot do it. */
bool bench_point_call(struct bench_backend *backend, const struct bench_options *options,
		      enum bench_kind kind, size_t bytes, bool inplace, struct bench_call *call);

/* False: said why on standard error. */
bool bench_point_init(struct bench_point *point, struct bench_backend *backend,
		      const struct bench_options *options, const struct bench_buffers *buffers,
		      const struct bench_call *call, size_t bytes);
void bench_point_fini(struct bench_point *point);

/* Time calls of `backend`, add them to `samples`, verify the last ones. `result`, zeroed before the
 * first visit, is then of all the samples. -1: said why. */
int bench_point_visit(struct bench_point *point, struct bench_backend *backend,
		      const struct bench_budget *budget, struct bench_samples *samples,
		      struct bench_result *result);

#endif
