/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti behind the table of backend.h. */
#ifndef BENCH_TUTTI_BACKEND_H
#define BENCH_TUTTI_BACKEND_H

#include "backend.h"
#include "options.h"
#include "tutti/window.h"

struct bench_gpu;

struct bench_tutti {
	tutti_comm_t comm;
	tutti_comm_t meeting; /* of barriers and exchanges between measurements: `comm` at first */
	tutti_request_t window[BENCH_WINDOW];
	struct bench_gpu *gpu; /* with -m cuda */
	/* one-sided: the exposed memory, and how often rank 0 and 1 have signalled, and added */
	struct {
		tutti_window_t in, out;
		unsigned char *in_at, *out_at;
		uint64_t signals, sum;
	} exposed;
	struct bench_backend backend;
};

static inline struct bench_tutti *bench_tutti_of(struct bench_backend *backend)
{
	return backend->context;
}

/* 0, or -1 after an error, of which it says what `comm` (NULL: the thread) knows. */
int bench_tutti_said(const struct bench_backend *backend, tutti_comm_t comm, tutti_result_t result);

/* Have all ranks the same text, of less than 512 bytes? */
tutti_result_t bench_tutti_compare(tutti_comm_t comm, const char *text, bool *alike);

/* Join the ranks that the launcher started, with the transport of the options and that algorithm
 * (NULL: chosen). -1: said why. */
int bench_tutti_init(struct bench_tutti *tutti, const struct bench_options *options,
		     const char *algorithm);
/* describe() of messages. */
void bench_tutti_describe_pair(struct bench_backend *backend, const char **transport,
			       const char **algorithm);
void bench_tutti_fini(struct bench_tutti *tutti);

/* What tutti alone is measured for: what the library chooses by itself, against every algorithm
 * forced; and what remains of a collective's time behind a computation. Collective over the ranks;
 * the results are those of bench_sweep(). */
int bench_tune(struct bench_tutti *meeting, const struct bench_options *options);
int bench_overlap(struct bench_tutti *tutti, const struct bench_options *options);

#endif
