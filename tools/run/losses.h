/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows when ranks fail: the others go on, with a replacement or without, or the job ends.
 */
#ifndef RUN_LOSSES_H
#define RUN_LOSSES_H

#include "job.h"

/* Decide about the ranks that have failed, if it is time to. Says what it decides. */
void losses_settle(struct job *job);

/* Does a replacement still wait in tutti_init for others to take it in? */
bool losses_waits(const struct job *job, const struct rank *rank);

/* The next rank that is to be replaced, -1: none. Followed by one of the two below. */
int losses_next(struct job *job);
void losses_replaced(struct job *job, int rank);
/* It could not be started; `status` is what tutti-run would have ended with at the start. */
void losses_not_replaced(struct job *job, int rank, int status);

#endif
