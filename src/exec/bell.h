/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a thread sleeps that waits on several communicators: their progress threads drive, and the
 * first whose request ends rings. */
#ifndef TT_BELL_H
#define TT_BELL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_bell {
	pthread_mutex_t lock;
	pthread_cond_t rung;
	bool rings;
};

void tt_bell_init(struct tt_bell *bell);
void tt_bell_finish(struct tt_bell *bell);
/* Any thread; a communicator's lock may be held. */
void tt_bell_ring(struct tt_bell *bell);
/* Until it rings, or until the time `until_ns` (tt_now()). No lock of a communicator is held. */
void tt_bell_wait(struct tt_bell *bell, uint64_t until_ns);

#endif
