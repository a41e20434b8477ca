/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that hang, and that the others have left out and gone on without. */
#ifndef RUN_LEFT_OUT_H
#define RUN_LEFT_OUT_H

#include "job.h"

/* End the ranks that run if nobody else does and the others have left out all of them, so that the
 * job ends, too. Says so. */
void left_out_settle(struct job *job);
/* Have the others left the process out? */
bool left_out_has(const struct job *job, pid_t pid);

#endif
