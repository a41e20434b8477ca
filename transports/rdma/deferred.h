/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of registrations that are done with: verbs end them, which takes a while and
 * allocates, so without the lock (monitor.h's). Who drops some lets go of the lock by
 * tt_rdma_deferred_unlock(), which sees to it; the thread that listens to the kernel, which must
 * not, calls the undertaker, a thread for that. */
#ifndef TT_RDMA_DEFERRED_H
#define TT_RDMA_DEFERRED_H

#include <stdbool.h>

struct rdma_registration;

/* ---- lock held */

/* It is done with; memory and all are the burial's. */
void tt_rdma_deferred_add(struct rdma_registration *r);
/* Wake the undertaker, if there is anything to do. */
void tt_rdma_deferred_call(void);
/* Unlock, and bury what is due. */
void tt_rdma_deferred_unlock(void);
/* And wait for those that others were burying. False: there was neither. */
bool tt_rdma_deferred_finish(void);

/* ---- lock not held */

/* False: there is no thread to be had; the log says so. */
bool tt_rdma_undertaker_begin(void);
void tt_rdma_undertaker_end(void);
/* For a child of fork(), which begins with nothing. */
void tt_rdma_deferred_forget(void);

#endif
