/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of a host that wait for each other on one processor while others would take them. */
#ifndef TT_SPREAD_H
#define TT_SPREAD_H

#include "comm.h"

/* A wait has become long enough for the core to be given up: leave it for good if too many ranks
 * share it. Rarely does anything, and then costs a system call or two. Lock held. */
void tt_spread(struct tutti_comm *comm, uint64_t now);

#endif
