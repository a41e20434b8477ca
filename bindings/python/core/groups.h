/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups that threads have open on a communicator, and what their calls hold until they end. */
#ifndef TP_GROUPS_H
#define TP_GROUPS_H

#include "flight.h"

/* The group that this thread has open on `comm`, NULL for none. */
struct tp_group *tp_group_find(const struct tp_comm *comm);

/* Collect a call: it is started by `start`, and `flight` (of the heap) held until the group ends. */
bool tp_group_collect(struct tp_comm *comm, struct tp_group *group, struct tp_flight *flight,
		      tp_start_t *start, void *context);

/* Drop the groups of a communicator that is destroyed. */
void tp_group_drop_all(struct tp_comm *comm);

/* Communicator._group_begin(timeout), ._group_end(wait), ._group_drop() */
tp_method_t tp_comm_group_begin, tp_comm_group_end, tp_comm_group_drop;

#endif
