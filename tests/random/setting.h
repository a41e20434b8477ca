/* SPDX-License-Identifier: BSD-3-Clause */
/* What a seed stands for: how many ranks there are, where, over what, with which settings of the
 * environment. */
#ifndef TT_RANDOM_SETTING_H
#define TT_RANDOM_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "calls/call.h"
#include "harness.h"

#define RANKS_MAX CALL_RANKS
#define WATCHED	  2500

/* What the caller wants of all seeds; 0 or NULL: as the seed says. */
struct wish {
	const char *transport; /* shm, tcp, tls, mixed, or loop, which needs threads */
	int ranks;
	int threads; /* 1: ranks are threads of one process, -1: processes */
	long steps;  /* from WATCHED on memory is compared */
};

struct setting {
	uint64_t seed;
	const char *transport;
	int ranks, hosts;
	bool as_threads; /* the ranks are threads of one process */
	int callers;	 /* threads of each rank that call, each on communicators of its own */
	long steps;	 /* that each of them takes */
	bool reproducible;
	size_t bytes, most_bytes; /* of a buffer, at most: in most flights, in any */
	bool watched; /* memory is compared: it has warmed up after a third of the steps */
	struct environment environment;
};

extern const char *const transports[]; /* NULL at the end */

void setting_draw(struct setting *setting, uint64_t seed, const struct wish *wish);
/* The host of a rank of the job. */
int setting_host(const struct setting *setting, int rank);
void setting_describe(const struct setting *setting, FILE *out);

#endif
