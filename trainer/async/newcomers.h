/* SPDX-License-Identifier: BSD-3-Clause */
/* Replacements of lost workers. To take one in is a call that waits for it (tutti_comm_grow()); so
 * that the servers need not wait, a newcomer says in the launcher's store that it is about to join. */
#ifndef TRAIN_NEWCOMERS_H
#define TRAIN_NEWCOMERS_H

#include <stdbool.h>
#include <stddef.h>

#include "why.h"

struct awaited;

/* Zeroed awaits nobody. */
struct newcomers {
	tutti_store_t store;
	struct awaited *awaited; /* owned */
	size_t count;
};

/* The launcher may replace the rank that it calls `origin`, which was process `pid`, until the time
 * `until_s`. */
tutti_result_t newcomers_await(struct newcomers *newcomers, int origin, long pid, double until_s,
			       struct why *why);
/* May one still come? */
bool newcomers_may_come(const struct newcomers *newcomers, double now_s);
/* Has one come? Then which rank it replaces, else -1. Asks the store, which answers at once. */
int newcomers_look(struct newcomers *newcomers, double now_s);
/* It is a worker now. */
void newcomers_taken(struct newcomers *newcomers, int origin);
void newcomers_finish(struct newcomers *newcomers);

/* The newcomer's part, right before it joins. Without a store nothing is said. */
tutti_result_t newcomer_announce(struct why *why);

#endif
