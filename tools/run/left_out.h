/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that nobody waits for any more: the others have left them out, or they are stopped. */
#ifndef RUN_LEFT_OUT_H
#define RUN_LEFT_OUT_H

#include "job.h"

/* End the ranks that run if none of them can go on, so that the job ends, too. Says so. */
void left_out_settle(struct job *job);
/* A rank has ended, or stopped at the end of the program: is nobody left who goes on? */
void left_out_look(struct job *job);
/* Have the others left the process out? */
bool left_out_has(const struct job *job, pid_t pid);
/* Does a rank run that can go on, and take others in? */
bool left_out_not_all(const struct job *job);

#endif
