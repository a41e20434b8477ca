/* SPDX-License-Identifier: BSD-3-Clause */
/* What flight recorders wrote: the reports of a job's ranks, read and checked.
 * docs/reference/trace.md describes the files. */
#ifndef TRACE_FLIGHTS_H
#define TRACE_FLIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#define NEVER INT64_MIN

struct header {
	json_int_t number;
	char call[192]; /* "all_reduce(float32 × 4096, sum)" */
	char how[96];	/* "by ring in 4 segments" */
	char *key;	/* all that ranks must agree on */
	json_int_t sent, received;
};

enum kind { COLLECTIVE, SEND, RECV, ONE_SIDED };

/* The last: it is in a graph. */
enum end { ENDED, UNFINISHED, UNKNOWABLE };

struct op {
	enum kind kind;
	json_int_t number, sequence; /* the latter of a collective among those of its list */
	const struct header *header; /* of a collective; NULL: no longer known */
	int peer;		     /* of a message */
	json_int_t bytes;
	char call[64];		     /* of a message */
	int64_t posted, first, done; /* nanoseconds of CLOCK_REALTIME; NEVER */
	int result;
	enum end end;	    /* UNFINISHED: it did not come, was an error, or was not seen */
	const char *caller; /* where its program called it; NULL: it does not say */
	/* of one on a stream, of which nothing is known but when it was called, and its end */
	const char *way;
	int device;
};

/* In the order of the calls. */
struct ops {
	struct op *at;
	size_t n;
	json_int_t last; /* sequence of the last collective, 0: none */
};

struct flight {
	char *path;
	bool listed;	/* in a directory that was read: it was not named itself */
	json_t *report; /* owns the texts below */
	const char *job, *communicator, *host, *hostname, *why;
	int rank, size, pid;
	int launched_as;		/* the number by which tutti-run knows it; -1: unknown */
	json_int_t monotonic, realtime; /* when it was written */
	int64_t alive;	   /* the last time at which its rank is known to have lived, as `realtime`;
			      NEVER */
	const char *fault; /* NULL: none */
	struct header *headers;
	size_t nheaders;
	struct ops ops, streams; /* the latter: on streams */
};

struct exits;

struct flights {
	struct flight *at;
	size_t n, capacity;
	struct exits *exits; /* of jobs whose ranks tutti-run has seen end (exits.h) */
	size_t nexits;
	size_t unreadable; /* of the files named */
};

/* Memory, or the end of the program. */
void *need(void *memory);
/* Read a file, or all reports of a directory. What cannot be used is said on standard error. */
void flights_read(struct flights *flights, const char *path);
/* Has a file in the directory the name of a report? */
bool flights_are_in(const char *directory);
/* Read a report in the place of what was read of that file before. */
void flights_renew(struct flights *flights, const char *path);
/* Keep what is of the job. */
void flights_keep(struct flights *flights, const char *job);
/* Order them by communicator, the largest first, and rank; one of each; times of all on one
 * clock. */
void flights_arrange(struct flights *flights);
/* As they were read, as JSON, one to a line. */
void flights_print(FILE *out, const struct flights *flights);
void flights_finish(struct flights *flights);

/* await.c: reports that are being written while they are read. */

/* If there is no report in the directory, wait for one, but not for long. */
void flights_await_any(const char *directory);
/* If the newest reports of a communicator have just been written, and those of other ranks have
 * not, wait for these, but not for long. Before flights_arrange(). */
void flights_await(struct flights *flights);

/* jobs.c: the jobs of which there are files. */

/* Keep one job's files: those of `name`, or of the last one to have lived where that is NULL. False:
 * there is none. */
bool jobs_select(struct flights *flights, const char *name);
/* A line for each. */
void jobs_print(FILE *out, const struct flights *flights);

/* flight.c: fill in what `report` says. False: something is missing or makes no sense. */
bool flight_read(struct flight *flight, json_error_t *error);
void flight_finish(struct flight *flight);

/* "all_reduce(float32 × 4096, sum)", "send 4 to rank 1 (float32 × 10)" */
const char *op_call(const struct op *op);
/* ", called at train.py:42"; nothing where that is unknown. */
void op_print_caller(FILE *out, const struct op *op);
/* The collective with this sequence number; NULL: it was not called, or is too long ago. */
const struct op *ops_collective(const struct ops *ops, json_int_t sequence);

#endif
