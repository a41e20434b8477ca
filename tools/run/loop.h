/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for whatever happens to a job. */
#ifndef RUN_LOOP_H
#define RUN_LOOP_H

#include "job.h"
#include "spawn.h"

/* relay.c: standard input for rank 0. */

/* A terminal lets only its foreground process group read, which is tutti-run's and not rank 0's:
 * its lines are passed on through a pipe. Anything else rank 0 reads itself. */
struct relay {
	int in;	 /* the terminal; -1: nothing to pass on */
	int out; /* write end of the pipe, non-blocking */
	char bytes[4096];
	size_t head, length; /* read, but not written yet */
};

/* The descriptor that shall be rank 0's standard input; -1 with errno. */
int relay_init(struct relay *relay);
/* Pass on what can be; false when there is nothing more to come. */
bool relay_step(struct relay *relay);
void relay_finish(struct relay *relay);

/* signals.c: those that tutti-run gets. */

/* Note in `inherited` how signals are handled, then block those that tutti-run passes on and read
 * them from the descriptor returned; -1 with errno. Called before any other thread exists. */
int signals_init(struct inherited *inherited);
/* Act on the signals that have arrived; false if the user wants no more output either. */
bool signals_read(int fd, struct job *job);

struct loop {
	struct job *job;
	struct spawn *spawn;
	struct relay *relay;
	int signals; /* descriptor of signals_init() */
	int epoll;   /* of everything but the streams */
	int streams; /* epoll of the ranks' streams, so that all can be left alone at once */
	bool streams_wanted;
};

/* false with errno */
bool loop_init(struct loop *loop, struct job *job, struct spawn *spawn, struct relay *relay,
	       int signals);
/* Start rank `rank`, or the process that takes the place of the one that failed, and watch it. 0, or
 * the exit status to end with. */
int loop_start_rank(struct loop *loop, int rank, bool replaces);
/* Run until the job is gone and its output is written; failed ranks are replaced meanwhile. */
void loop_run(struct loop *loop);
void loop_finish(struct loop *loop);

#endif
