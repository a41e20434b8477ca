/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's whole training: task by task, until there are none. */
#ifndef TRAIN_WORKER_H
#define TRAIN_WORKER_H

#include "why.h"

struct training;

/* training->team is of the servers and this worker. */
tutti_result_t worker_run(struct training *training, struct why *why);

#endif
