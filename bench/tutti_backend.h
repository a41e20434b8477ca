/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti behind the table of backend.h. */
#ifndef BENCH_TUTTI_BACKEND_H
#define BENCH_TUTTI_BACKEND_H

#include "backend.h"
#include "options.h"

#define BENCH_WINDOW 64 /* the most sends in flight */

struct bench_tutti {
	tutti_comm_t comm;
	tutti_request_t window[BENCH_WINDOW];
	struct bench_backend backend;
};

/* Join the ranks that the launcher started, with the transport and algorithm of the options. -1:
 * said why. */
int bench_tutti_init(struct bench_tutti *tutti, const struct bench_options *options);
void bench_tutti_fini(struct bench_tutti *tutti);

#endif
