/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows when ranks fail: the others go on, with a replacement or without, or the job ends.
 */
#ifndef RUN_LOSSES_H
#define RUN_LOSSES_H

#include "job.h"

/* Decide about the ranks that have failed, if it is time to. Says what it decides. */
void losses_settle(struct job *job);

/* Has the library told this in the store of the replacement with that ticket (tt_launch_report()), or
 * of the process with that number (tt_launch_report_left_out())? */
bool losses_told(const struct job *job, const char *state, int number);
/* Does a replacement still wait in tutti_init for others to take it in? */
bool losses_waits(const struct job *job, const struct rank *rank);

/* The next rank that is to be replaced, -1: none. Followed by one of the two below. */
int losses_next(struct job *job);
void losses_replaced(struct job *job, int rank);
/* It could not be started; `status` is what tutti-run would have ended with at the start. */
void losses_not_replaced(struct job *job, int rank, int status);

/* left_out.c: ranks that nobody waits for any more: the others have left them out, or they are stopped. */

/* End the ranks that run if none of them can go on, so that the job ends, too. Says so. */
void left_out_settle(struct job *job);
/* A rank has ended, or stopped at the end of the program: is nobody left who goes on? */
void left_out_look(struct job *job);
/* Have the others left the process out? */
bool left_out_has(const struct job *job, pid_t pid);
/* Does a rank run that can go on, and take others in? */
bool left_out_not_all(const struct job *job);

/* report.c: what is said about ranks that did not end well. */

/* Who failed, how, when, its last words, and that the job ends. */
void report_failure(struct job *job, const struct rank_exit *failure);
/* The same, of a rank that the job outlives. */
void report_loss(struct job *job, const struct rank_exit *failure);
void report_replacement(struct job *job, int rank);
/* It could not be started; does the job end for that? */
void report_no_replacement(struct job *job, int rank, bool ends);
/* Only replacements are left, and nobody to take them in. */
void report_lonely(struct job *job);
/* Those that run cannot go on, and the others have ended. */
void report_left_out(struct job *job);
void report_timeout(struct job *job);
/* Those that did not end when asked. */
void report_kill(struct job *job);

#endif
