/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-run wrote of how a job's ranks ended, read and checked. docs/reference/trace.md
 * describes the file. */
#ifndef TRACE_EXITS_H
#define TRACE_EXITS_H

#include <stdio.h>

#include "flights.h"

/* How a rank's process ended. */
enum ended { ENDED_WELL, ENDED_BY_ERROR, ENDED_BY_SIGNAL, ENDED_BY_LAUNCHER };

struct rank_exit {
	int rank; /* as tutti-run numbers it */
	int pid;
	enum ended how;
	int code; /* a signal; of ENDED_BY_ERROR the exit status */
	bool core;
	json_int_t after; /* nanoseconds from the start of the job */
};

/* Of one job, in the order in which they ended. */
struct exits {
	char *job, *hostname;
	json_int_t realtime; /* when it was written */
	const char *because; /* " as its --timeout had passed": why tutti-run ended the job; "" for
				a failure */
	struct rank_exit *at;
	size_t n;
};

/* Is it a file of these at all? */
bool exits_are_in(const json_t *object);
/* False: something is missing or makes no sense. Either way to be finished. */
bool exits_read(struct exits *exits, json_t *object, json_error_t *error);
void exits_finish(struct exits *exits);

/* How the process ended that wrote the report; NULL: unknown. */
const struct rank_exit *exits_of(const struct exits *exits, const struct flight *flight);
/* The first that failed by itself; NULL: none did. */
const struct rank_exit *exits_first_failure(const struct exits *exits);
/* "killed by signal 9 (Killed), 2.31 s after the start of the job", "exited with status 1, …" */
void exit_describe(const struct rank_exit *one, char *out, size_t size);

#endif
