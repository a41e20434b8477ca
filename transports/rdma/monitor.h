/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's word that pages of this process are no longer what they were: unmapped, moved, or
 * discarded. A card goes on writing to the pages that it was shown, so who remembers that it was
 * shown some must hear of that before anybody takes the addresses for something else.
 *
 * There is one lock for all that is watched. Whoever unmaps waits until the thread here has read
 * of it, and may hold any lock of the program meanwhile, above all the C library's own, as
 * free() unmaps. The thread takes the lock first. So while a thread holds it, it neither
 * allocates nor frees nor waits for anything that could. */
#ifndef TT_RDMA_MONITOR_H
#define TT_RDMA_MONITOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Whole pages that are watched. */
struct rdma_watch {
	struct rdma_watch *next, **at; /* at: NULL if they are not */
	uintptr_t begin, end;
	/* One of the pages has changed; nothing is watched any more. Lock held, called by the
	 * thread that reads. */
	void (*gone)(struct rdma_watch *watch);
};

/* Begin to listen. False: that cannot be; why is said in the log once. Where the kernel refuses,
 * that is remembered; what there is too little of may be there the next time. */
bool tt_rdma_monitor_begin(void);
/* Where it has begun, and nothing is watched any more: the thread ends. The caller sees to it that
 * there is one beginning or ending at a time. */
void tt_rdma_monitor_end(void);
/* A thread that listening needs. False: it cannot be had; the log says so once, too. */
bool tt_rdma_monitor_thread(pthread_t *thread, void *(*body)(void *));

void tt_rdma_monitor_lock(void);
void tt_rdma_monitor_unlock(void);

/* The rest with the lock held. */

/* As pthread_cond_wait(). */
void tt_rdma_monitor_wait(pthread_cond_t *condition);

/* False: something has happened that has not been told yet, perhaps to the pages that one looks
 * at. Let go of the lock and come back. */
bool tt_rdma_monitor_is_settled(void);
/* Pages may be watched several times, in whole or in part. False: the kernel refuses, errno says
 * why. */
bool tt_rdma_monitor_watch(struct rdma_watch *watch);
void tt_rdma_monitor_unwatch(struct rdma_watch *watch);

#endif
