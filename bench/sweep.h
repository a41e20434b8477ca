/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole run: collectives, sizes, out of place and in place, measured, verified and shown. */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include "backend.h"
#include "buffers.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run as its steps see it. */
struct bench_run {
	struct bench_backend *backend;
	const struct bench_options *options;
	struct bench_report *report; /* rank 0 only */
	struct bench_buffers buffers;
	double wrong;  /* elements, of the whole run */
	bool measured; /* something of the collective that it is at */
	void *context;
};

struct bench_point;

/* What is done with each collective of a run. -1: something failed on this rank, which was said. */
struct bench_steps {
	int (*begin)(struct bench_run *run, enum bench_kind kind);
	int (*point)(struct bench_run *run, struct bench_point *point); /* its calls are ready */
	void (*end)(struct bench_run *run, enum bench_kind kind);	/* of all that began */
};

/* Collective over the ranks. 0; 1: a result was wrong, on all ranks; -1: something failed on this
 * one, which was said on standard error. */
int bench_sweep(struct bench_backend *backend, const struct bench_options *options);
int bench_sweep_by(const struct bench_steps *steps, void *context, struct bench_backend *backend,
		   const struct bench_options *options);

/* The bytes to measure for a size of the command line: whole elements on every rank. */
size_t bench_sweep_bytes(const struct bench_run *run, enum bench_kind kind, size_t wanted);

#ifdef __cplusplus
}
#endif

#endif
