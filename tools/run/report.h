/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-run says about ranks that did not end well. */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include "job.h"

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
