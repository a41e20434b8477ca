/* SPDX-License-Identifier: BSD-3-Clause */
/* What advances operations, and how threads wait for them. */
#ifndef TT_PROGRESS_H
#define TT_PROGRESS_H

#include <pthread.h>

#include "fault.h"

/* Memory for it; false: there is none. */
bool tt_progress_open(struct tutti_comm *comm);
void tt_progress_free(struct tutti_comm *comm);
/* Advance all that is in flight once; true if something moved. Lock held. */
bool tt_comm_progress(struct tutti_comm *comm);
/* An operation of a blocking call, of which nothing was tried yet. True: it needed no waiting, and has
 * ended well. False: it is to be put in flight, whatever has come of it. Lock held. */
struct tt_op;
bool tt_progress_at_once(struct tt_op *op);
/* Wait until `*pending`, which is behind the lock, is 0. Lock held on entry and return, but not
 * all the time between. */
void tt_comm_wait(struct tutti_comm *comm, const uint32_t *pending);
/* One turn of a longer wait: yield, or sleep unless what is waited for is over. Lock likewise. */
struct tt_waiter {
	bool (*over)(const void *of); /* lock held */
	const void *of;
	uint64_t since;		/* 0: something has just moved */
	uint64_t asked;		/* tt_interrupt_ask(), at last, or the first pause; 0: neither */
	struct tt_waiter *next; /* of those that sleep … */
	pthread_cond_t *wake;	/* … at this, or, NULL, at the doorbells (turns.h) */
};
void tt_comm_pause(struct tutti_comm *comm, struct tt_waiter *waiter);
/* Look at everything that is looked at now and then: peers, deadlines, calls that may not match.
 * Lock held. */
void tt_comm_look(struct tutti_comm *comm, uint64_t now);
/* A call that failed for another reason than its arguments was not made: nobody must wait for
 * this rank's part of it. Gives `result` back, or what all ranks have agreed on; lock held, but
 * not all the time. */
tutti_result_t tt_comm_give_up(struct tutti_comm *comm, tutti_result_t result);
/* The same without the lock. */
tutti_result_t tt_comm_fail(struct tutti_comm *comm, tutti_result_t result);
/* Make sure that what is pending goes on while nobody waits. Lock held. */
void tt_progress_thread_want(struct tutti_comm *comm);
void tt_progress_thread_stop(struct tutti_comm *comm);

#endif
