/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a job ended, in that order, written to where tutti-trace looks for it
 * (docs/reference/trace.md). */
#ifndef RUN_EXITS_H
#define RUN_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define EXITS_PATH_BYTES 256 /* the library takes no longer TUTTI_TRACE */

struct job;

struct rank_exit {
	int rank; /* of a failure, -1: none */
	pid_t pid;
	bool by_signal; /* `code` is a signal, otherwise an exit status */
	bool core;
	bool asked; /* tutti-run was ending the job already */
	int code;
	double after; /* seconds from the start of the job */
};

struct exits {
	struct rank_exit *at;
	size_t n, capacity;
	const char *name; /* of the job */
};

/* Without memory it is left out. */
void exits_note(struct exits *exits, const struct rank_exit *one);
/* Write all, unless every rank ended well by itself. False: it cannot be written to the directory,
 * errno tells why. */
bool exits_write(const struct job *job, char directory_name[EXITS_PATH_BYTES]);
void exits_finish(struct exits *exits);

#endif
