/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the ranks of a job, and those that replace failed ones. */
#ifndef RUN_STARTER_H
#define RUN_STARTER_H

#include "bind.h"
#include "job.h"
#include "spawn.h"

struct starter {
	struct spawn spawn;
	struct binder binder;
	struct job *job;
	int stdin_fd; /* rank 0's input; -1 when it was handed on */
	int null_fd;  /* that of all others */
};

/* `spawn` says how processes are started; its strings stay the caller's. false: what is wrong was
 * said. */
bool starter_init(struct starter *starter, const struct spawn *spawn, struct job *job);
/* Start rank `rank` at its place, or the process that takes the place of the one that failed. 0, or
 * the exit status to end with. */
int starter_start(struct starter *starter, int rank, bool replaces);
/* All ranks are started: let go of what only they read. */
void starter_hand_over(struct starter *starter);
void starter_finish(struct starter *starter);

#endif
