/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of a job, as processes or as threads of one, with the threads of each that call.
 * Between two parts of its steps nothing is in flight, and what the process holds is compared:
 * descriptors, and memory where there are steps enough. */
#ifndef TT_RANDOM_JOB_H
#define TT_RANDOM_JOB_H

#include "setting.h"
#include "tally.h"

/* `only`: the one step whose operations are called, -1: all. `flip`: from which step on a byte is
 * changed, -1: none. True: all was right. */
bool job_run(const struct setting *setting, struct tally *tally, long only, long flip);

#endif
