/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads of this process, which meet in a store of their own. */
#ifndef TT_THREAD_RANKS_H
#define TT_THREAD_RANKS_H

#include "harness.h"

/* Runs the body in every rank; 0 if each returned 0. One that fails aborts its communicator. As from
 * `hosts` hosts, if there are several. */
int run_thread_ranks(int ranks, int hosts, rank_body *body, void *argument);

#endif
