/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-run says about ranks that did not end well. */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include "job.h"

/* Who failed first, how, when, and its last words. */
void report_failure(struct job *job);
void report_timeout(struct job *job);
/* Those that did not end when asked. */
void report_kill(struct job *job);

#endif
