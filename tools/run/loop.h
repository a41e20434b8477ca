/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for whatever happens to a job. */
#ifndef RUN_LOOP_H
#define RUN_LOOP_H

#include "job.h"
#include "relay.h"

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
