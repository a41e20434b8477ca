/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the library that wait and have no request (joining, splitting, stores), carried out by a
 * thread of their own, so that the caller can handle signals meanwhile. A caller that is
 * interrupted leaves the job behind: it goes on until its deadline and drops what it makes.
 */
#ifndef TP_JOB_H
#define TP_JOB_H

#include <pthread.h>
#include <stdbool.h>

#include <tutti/tutti.h>

#include "python.h"

enum { TP_JOB_TEXT = 4096 };

struct tp_job {
	/* set by the maker; `work` runs in the thread, `drop` undoes it if nobody waits any more,
	 * `free_job` frees the arguments and the job itself: these two without the interpreter */
	tutti_result_t (*work)(struct tp_job *job);
	void (*drop)(struct tp_job *job);
	void (*free_job)(struct tp_job *job);
	tutti_comm_t comm; /* of which it is a call; NULL: of none */
	/* the job's */
	pthread_mutex_t mutex;
	pthread_cond_t ended_cond;
	bool ended, abandoned;
	tutti_result_t result;
	char text[TP_JOB_TEXT]; /* of the error */
	int rank;		/* the one it is about, or -1 */
};

/*
 * Carry out `job`, of the heap. true: it succeeded, and is the caller's to free by `free_job`.
 * false: an exception is set, and the job is no longer the caller's. With `abort` not NULL an
 * interruption revokes that communicator first, and then waits for the job, which ends by it.
 */
bool tp_job_run(struct tp_job *job, tutti_comm_t abort);

/* malloc() and a copy of a string that may be NULL */
char *tp_job_copy(const char *text);

#endif
