/* SPDX-License-Identifier: BSD-3-Clause */
/* A victim does it to itself, at a moment it is told, so that the moment is an event and no
 * guess of time. */
#ifndef TT_VICTIM_H
#define TT_VICTIM_H

#include "stage.h"

/* In every rank, before anything else; faults happen in those that are victims. */
void victim_prepare(const struct scene *s, int rank);
bool victim_is_one(void);

/* All know from now on which connections this rank has with others. */
void victim_list_links(void);

/* It happens now, unless it has. */
void victim_fault(void);
bool victim_has_fault(void);
/* Memory and descriptors can be had again. */
void victim_relieve(void);

/* Count this thread's calls of the system from now on, and let it happen before the `at`-th; 0:
 * just count. */
void victim_count_calls(unsigned at);
/* No more; returns how many there were. */
unsigned victim_stop_counting(void);
/* calls.c's: a call is about to be made. */
void victim_call_is_made(void);
/* Likewise, with one or more messages. */
void victim_message_is_said(void);

#endif
