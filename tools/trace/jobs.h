/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs of which there are files. */
#ifndef TRACE_JOBS_H
#define TRACE_JOBS_H

#include <stdio.h>

#include "flights.h"

struct job {
	const char *name; /* a file's */
	int64_t newest;	  /* the last sign of life, nanoseconds of CLOCK_REALTIME; NEVER: unknown */
	size_t reports;	  /* of ranks, one for each communicator */
	size_t ranks;
};

/* All of them, the newest first; how many. To be freed. */
size_t jobs_find(const struct flights *flights, struct job **out);
/* A line for each. */
void jobs_print(FILE *out, const struct flights *flights);

#endif
