/* SPDX-License-Identifier: BSD-3-Clause */
/* The signals that tutti-run gets. */
#ifndef RUN_SIGNALS_H
#define RUN_SIGNALS_H

#include "job.h"
#include "spawn.h"

/* Note in `inherited` how signals are handled, then block those that tutti-run passes on and read
 * them from the descriptor returned; -1 with errno. Called before any other thread exists. */
int signals_init(struct inherited *inherited);
/* Act on the signals that have arrived; false if the user wants no more output either. */
bool signals_read(int fd, struct job *job);

#endif
